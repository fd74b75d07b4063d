import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { printFault } from '../../src/config/fault.ts';
import { parseGatewayFile } from '../../src/config/gateway-file.ts';
import { parsePlans } from '../../src/config/plans-schema.ts';
import { readSettingsFile } from '../../src/config/read-file.ts';
import { MISTAKES } from './mistakes.ts';

const FOLDER = 'test/config/faults';

function faultsOf(name: string): readonly string[] {
  const file = `${FOLDER}/${name}.yaml`;
  const read = readSettingsFile(file, '');
  if ('fault' in read) return [printFault(read.fault)];
  const parse = MISTAKES[name]!.kind === 'gateway' ? parseGatewayFile : parsePlans;
  const parsed = parse(read.text, file);
  return 'faults' in parsed ? parsed.faults.map(printFault) : [];
}

describe('every fault in a settings file is told with its line, its column and its path (reliability 114, 136, 297, 381, 600)', () => {
  test.each(Object.entries(MISTAKES))('%s', (name, mistake) => {
    const told = faultsOf(name);
    const places = told.map(
      (line) => /^.*?\.yaml:(\d+:\d+: (?:\["[^"]*"\]|\([^)]*\)|[^:[]|\[\d+\]|\["[^"]*"\])*):/.exec(line)?.[1],
    );
    expect(places).toEqual(mistake.faults);
    for (const line of told) expect(line).toMatch(/^test\/config\/faults\/[a-z0-9-]+\.yaml:\d+:\d+: .+: .{10,}\.$/);
  });

  test('each broken file is in the table', () => {
    expect(
      readdirSync(FOLDER)
        .filter((file) => file.endsWith('.yaml'))
        .toSorted(),
    ).toEqual(
      Object.keys(MISTAKES)
        .map((name) => `${name}.yaml`)
        .toSorted(),
    );
  });
});

describe('a fault says what is allowed', () => {
  test.each([
    ['when', 'has GET for the same paths and a value of `when` in common with routes[10] (/k)'],
    ['when', 'put a number between quotes'],
    ['shared-limits', 'which has other `limits`'],
    ['shared-limits', 'goes with `auth: none` only'],
    ['allow-name-of-the-gateway', 'passes for x-consumer-role in services that fold punctuation'],
    ['admin-hosts-with-port', 'must be a host name without scheme and port, such as gateway-1'],
    ['allow-plain-name', 'needs no exception'],
    ['unknown-key', 'Did you mean `port`? Allowed here: host, port,'],
    ['key-twice', 'is given twice, first in line 1'],
    ['http2-without-tls', 'needs `tls`'],
    ['tls-key-missing', 'is missing: it must be the path of a file'],
    [
      'duration-unknown-unit',
      'must be a duration from 1ms to 24d, such as 250ms, 10s, 1m, 24h or 7d, not "10 seconds"',
    ],
    ['jwt-algorithm-shared-secret', 'must be one of RS256, RS384,'],
    ['jwt-jwks-unencrypted', 'http://… only on this machine'],
    [
      'limit-word',
      'must be a whole number from 0 to 999999999999999, `unlimited` or `custom`, or a mapping with `limit`, not "infinite"',
    ],
    ['form-slices-of-a-fixed-window', 'is of no use without `window: sliding`; add it'],
    ['form-slices-too-many', 'must be a whole number from 4 to 30, not 31'],
    ['form-sliding-in-the-calendar', 'a window is fixed or sliding, or follows the calendar; leave out one'],
    ['form-zone-without-calendar', 'is of no use without `align: calendar`; add it'],
    ['form-zone-unknown', 'must be the name of a time zone, such as UTC or Europe/Berlin, not "Berlin"'],
    ['form-anchor-too-late', 'must be a whole number from 1 to 31, not 32'],
    ['form-anchor-of-a-day', 'Allowed here: limit, window, slices, align, zone.'],
    ['form-month-that-slides', 'Allowed here: limit, align, zone, anchor.'],
    [
      'form-without-limit',
      'limit: is missing: it must be a whole number from 0 to 999999999999999, `unlimited` or `custom`',
    ],
    ['form-kind-unknown', 'must be `fixed` or `sliding`, not "rolling"'],
    ['route-encoded-twice', 'matches the same paths as routes[0] (/v1/a)'],
    ['route-equally-specific', 'has PUT for the same paths as routes[0] (/v1/pets/{petId})'],
    ['share-above-one', 'must be a number above 0 and at most 1, not 25'],
    ['route-upstream-unknown', 'it must be store'],
    ['failure-mode-unknown', 'must be one of local, closed, open, not "shut"'],
    ['since-missing', 'is missing: it must be a date such as 2030-12-05'],
    ['route-colon', 'has `:id`, which matches only itself; one segment is written `{id}`.'],
    ['variable', '{HOST}`, and no variable is filled in here. Write the value out;'],
    ['variable', '{UPSTREAM}`, and no variable'],
    ['variable-in-braces', '{HOST}`, and no variable'],
    ['none-of-ours', 'must have one of the keys plans, bans, failed-authentication, removed. Name another file.'],
    ['tab', 'a tab indents this line; only spaces may'],
  ])('%s: %s', (name, words) => {
    expect(faultsOf(name).join('\n')).toContain(words);
  });

  test.each([
    'carries credentials, which are not compared',
    'belongs to the connection or to the gateway, and services do not get it as it was sent (x-consumer-id)',
    'is compared by `hosts` of a route; use that',
    'may have the key of a caller (`keys.from`)',
    'is a field that no service gets, because of its punctuation',
    'is the same as x_plan in `headers.allow`',
  ])('no route is chosen by a field that %s (reliability 574)', (words) => {
    expect(faultsOf('when').join('\n')).toContain(words);
  });

  // Attack: the path of a secret in the place of a settings file's. What is told of it is read by many.
  test.each([
    ['one word', 'hunter2\n'],
    ['in quotes', '"hunter2"\n'],
    ['variables', 'USER=me\nPASSWORD=hunter2\n'],
    ['a private key', '-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n'],
    ['hashes of passwords', 'root:$6$hunter2:19000:0:99999:7:::\ndaemon:*:19000::::::\n'],
    ['JSON', '{ "private_key": "hunter2" }\n'],
    ['a mapping', 'user: me\nhunter2: hunter2\n'],
    ['a list', '- hunter2\n- *hunter2\n'],
    ['broken YAML', 'user: me\n}\nhunter2\n'],
    ['YAML broken in quotes', 'user: "me" "hunter2"\n'],
    ['YAML broken at its end', '"me"\n...\n"hunter2"\n"hunter2'],
    ['an alias', 'user: *hunter2\n'],
    ['a tag', '!hunter2 { a: b }\n'],
    ['a wrong escape', 'user: "\\hunter2"\n'],
  ])('no fault quotes a file that holds no settings: %s', (_, text) => {
    for (const parse of [parsePlans, parseGatewayFile]) {
      const parsed = parse(text, 'secret');
      const told = 'faults' in parsed ? parsed.faults.map(printFault) : [];
      expect(told.length).toBeGreaterThan(0);
      expect(told.join('\n')).not.toContain('hunter2');
    }
  });

  test('a password in an address is never repeated (reliability 116)', () => {
    expect(faultsOf('target-with-password').join('\n')).toContain('has credentials');
    expect(faultsOf('target-with-password').join('\n')).not.toMatch(/hunter2|me:/);
    expect(faultsOf('jwt-jwks-with-password').join('\n')).not.toMatch(/hunter2|me:/);
  });
});
