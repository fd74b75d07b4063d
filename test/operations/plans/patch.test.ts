import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { array, assert, constantFrom, property, tuple } from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { patchOf } from '../../../src/operations/plans/plans-patch.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-patch-'));
afterAll(() => rmSync(folder, { recursive: true }));

function applied(path: string, before: string, patch: string): string {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, before);
  const { status, stderr } = spawnSync('git', ['apply'], { cwd: folder, input: patch, encoding: 'utf8' });
  expect(status, stderr).toBe(0);
  return readFileSync(file, 'utf8');
}

const line = constantFrom('a', 'b', '', ' ', '-x', '+x', '\\ y', '@@ -1 +1 @@', 'ä🐟', 'r\r', '--- a/x');
const text = tuple(array(line, { maxLength: 12 }), constantFrom('', '\n')).map(
  ([lines, end]) => lines.join('\n') + end,
);

test.each([
  ['the shortest difference', undefined],
  ['the whole text, when the search takes too long', -1],
])('git turns any text into any other by the patch: %s', (_, searchMs) => {
  assert(
    property(text, text, (before, after) => {
      const patch = patchOf('plans.yaml', before, after, searchMs);
      expect(patch === '').toBe(before === after);
      if (patch !== '') expect(applied('plans.yaml', before, patch)).toBe(after);
    }),
    { numRuns: 40 },
  );
});

test.each(['deploy/plans.yaml', 'my plans.yaml', 'pläne "1".yaml', 'a\tb.yaml'])('git finds the file %j', (path) => {
  expect(applied(path, 'a\n', patchOf(path, 'a\n', 'b\n'))).toBe('b\n');
  expect(applied(path, 'a\n', patchOf(path, 'a\n', 'b\n', -1))).toBe('b\n');
});

test('a search that has no time leaves a patch of all lines', () => {
  expect(patchOf('plans.yaml', 'a\nb\n', 'a\nc', -1)).toBe(
    '--- a/plans.yaml\n+++ b/plans.yaml\n@@ -1,2 +1,2 @@\n-a\n-b\n+a\n+c\n\\ No newline at end of file\n',
  );
});

test('of two texts without a common line the search ends', () => {
  const lines = (word: string) => Array.from({ length: 60_000 }, (_, i) => `${word}${i}\n`).join('');
  const patch = patchOf('plans.yaml', lines('a'), lines('b'), 100);
  expect(applied('plans.yaml', lines('a'), patch)).toBe(lines('b'));
});
