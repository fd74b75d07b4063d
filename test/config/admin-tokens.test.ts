import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { parseAdminTokens } from '../../src/config/admin-tokens-file.ts';
import { printFault } from '../../src/config/fault.ts';

const GOOD = 'a-good-token-of-letters';
const digest = createHash('sha256').update(GOOD).digest('hex');

function faultsOf(text: string): readonly string[] {
  const parsed = parseAdminTokens(text, 't.yaml');
  return 'faults' in parsed ? parsed.faults.map(printFault) : [];
}

describe('ADMIN_TOKENS_FILE', () => {
  test('has tokens, of which only the SHA-256 is kept', () => {
    const text = `- { name: jo, role: admin, token: ${GOOD} }\n- { name: 'Zoë.🐟', role: viewer, sha256: ${'AB'.repeat(32)} }`;
    expect(parseAdminTokens(text, 't.yaml')).toEqual({
      tokens: [
        { name: 'jo', role: 'admin', sha256: digest },
        { name: 'Zoë.🐟', role: 'viewer', sha256: 'ab'.repeat(32) },
      ],
    });
    expect(parseAdminTokens('[]', 't.yaml')).toEqual({ tokens: [] });
  });

  test.each<[string, RegExp]>([
    ['', /^t\.yaml:1:1: \(file\): is empty/],
    ['name: jo', /must be a list of tokens/],
    ['- secret-of-another-file', /is no such settings file/],
    [
      `- { name: jo, role: boss, token: ${GOOD} }`,
      /^t\.yaml:1:21: \[0\]\.role: must be one of viewer, operator, admin/,
    ],
    [`- { role: viewer, token: ${GOOD} }`, /\[0\]\.name: is missing/],
    [`- { name: 'a b', role: viewer, token: ${GOOD} }`, /\[0\]\.name: must be 1 to 64 visible characters/],
    [`- { name: ${'x'.repeat(65)}, role: viewer, token: ${GOOD} }`, /\[0\]\.name: must be 1 to 64/],
    [`- { name: '', role: viewer, token: ${GOOD} }`, /\[0\]\.name: must be 1 to 64/],
    [`- { name: ADMIN_TOKEN, role: viewer, token: ${GOOD} }`, /is the name of the token in ADMIN_TOKEN/],
    ['- { name: jo, role: viewer }', /\[0\]: needs either `token` or `sha256`/],
    [`- { name: jo, role: viewer, token: ${GOOD}, sha256: ${digest} }`, /\[0\]: needs either/],
    ['- { name: jo, role: viewer, token: fifteen-letters }', /\[0\]\.token: is too easy to guess/],
    ['- { name: jo, role: viewer, token: abcdabcdabcdabcdabcd }', /\[0\]\.token: is too easy to guess/],
    ["- { name: jo, role: viewer, token: 'with a space in between' }", /\[0\]\.token: may have only visible ASCII/],
    ['- { name: jo, role: viewer, token: 12345678901234567 }', /\[0\]\.token: is not text/],
    ['- { name: jo, role: viewer, token: *secret-alias-of-mine }', /\[0\]\.token: is the alias;/],
    ['- { name: jo, role: viewer, token: !secret-tag-of-mine x }', /\[0\]\.token: has the tag;/],
    ['- { name: jo, role: viewer, sha256: abc }', /\[0\]\.sha256: is not the SHA-256/],
    [`- { name: jo, role: viewer, tokn: ${GOOD} }`, /\[0\]\.tokn: is an unknown key\. Did you mean `token`\?/],
    [
      `- { name: jo, role: viewer, token: ${GOOD} }\n- { name: jo, role: viewer, token: ${GOOD}2 }`,
      /^t\.yaml:2:11: \[1\]\.name: is the name of another token/,
    ],
    [
      `- { name: jo, role: viewer, token: ${GOOD} }\n- { name: al, role: admin, sha256: ${digest} }`,
      /^t\.yaml:2:.*\[1\]\.sha256: is the token of another name/,
    ],
  ])('%j is a fault that quotes no token', (text, fault) => {
    const faults = faultsOf(text);
    expect(
      faults.some((line) => fault.test(line)),
      faults.join('\n'),
    ).toBe(true);
    for (const secret of [GOOD, digest, 'fifteen', 'abcdabcd', 'in between', '1234567890', 'secret-'])
      expect(faults.join('\n')).not.toContain(secret);
  });

  test('has at most 1,000 tokens', () => {
    const lines = (count: number) =>
      Array.from({ length: count }, (_, i) => `- { name: n${i}, role: viewer, token: ${GOOD}-${i} }`).join('\n');
    expect(faultsOf(lines(1_000))).toEqual([]);
    expect(faultsOf(lines(1_001))).toEqual([expect.stringContaining('at most 1000 tokens')]);
  });
});
