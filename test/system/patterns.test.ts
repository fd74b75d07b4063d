import { globSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { patternsOf } from '../support/patterns.ts';
import { IS_DEEP } from '../support/sample.ts';

// Attack: a pattern of the gateway takes exponential time for a text of a client, and 200 bytes stop a process for ever. So
// recheck judges every pattern of src.

// Its pure JavaScript; the package itself would look for Java and executables.
const { checkSync } = createRequire(import.meta.url)('recheck/lib/browser.js') as typeof import('recheck');

const ROOT = join(import.meta.dirname, '..', '..');
/** It is compiled to see whether Node takes it, and compared with no text. */
const NEVER_MATCHED = ['src/validate/schema-pattern.ts: RegExp(source, flags)'];

/** Patterns that take quadratic time, and why no text of others that is long reaches them. */
const QUADRATIC: Readonly<Record<string, string>> = {
  '/("(?:\\\\.|[^"\\\\\\n])*")|^(?: +(?:--.*)?|--.*)| *([=~<>+*/%#,(){}]+) *|(?<!\\.)\\b(____\\w+|[a-z]+_(?!script\\b)\\w+(?<!_script)\\b)/gm':
    'engine-lua.ts: it reads the generated scripts, which are shipped with the gateway',
  '/\\/((?:src|node_modules)\\/[^\\s()]+:\\d+:\\d+)/': 'main.ts: it reads the stack of an error of our own',
  '/[.\\s]+$/': 'main.ts: it reads the first line of an error of a command',
  '/:? "(?:[^"\\\\]|\\\\.)*[A-Za-z0-9](?:[^"\\\\]|\\\\.)*"/g': 'yaml-tree.ts: it reads one message of the YAML parser',
  '/^["\']|["\',]+$/g': 'explain.ts: it reads what the person at the console types',
};

/**
 * Counts above 4 count as unbounded: recheck is quick with these, and a pattern that is safe without its bound is safe with it.
 */
function withoutBounds(source: string): string {
  return source.replace(/(?<!\\[pPuk])\{(\d+)(?:,(\d*))?\}/g, (all, least: string, most = least) =>
    most !== '' && Number(most) <= 4 ? all : `{${Math.min(Number(least), 4)},}`,
  );
}

/** Whether nothing is repeated outside of classes and escapes, so that no text takes long. */
function repeatsNothing(source: string): boolean {
  return !/[*+{]/.test(source.replace(/\\.|\[(?:\\.|[^\]])*\]/gs, ''));
}

// No time limits and one seed: the answer does not depend on the machine.
const OPTIONS = {
  timeout: null,
  seedingTimeout: null,
  incubationTimeout: null,
  attackTimeout: null,
  randomSeed: 1,
} as const;

function verdictOf(pattern: string): string {
  const end = pattern.lastIndexOf('/');
  const [source, flags] = [pattern.slice(1, end), pattern.slice(end + 1)];
  if (repeatsNothing(source)) return 'safe';
  const unbounded = withoutBounds(source);
  const found = checkSync(unbounded, flags, OPTIONS);
  if (found.status === 'safe') return 'safe';
  const exact = unbounded === source ? found : checkSync(source, flags, OPTIONS);
  return exact.status === 'vulnerable' ? exact.complexity.type : exact.status;
}

/**
 * Made of the segments of a path in plans.yaml, each escaped or `[^/]+`, with a slash between two of them and `.*` at the end alone:
 * nothing can match in two ways.
 */
const OF_SEGMENTS = [`src/routing/path-groups.ts: new RegExp(\`^\${parts.join('/')}$\`, 's')`];

/**
 * What recheck said of patterns, which takes it a minute for all. A pattern that is not there is judged at each run.
 * `npm run test:deep` judges all of them anew; `npm run test:deep -- test/system/patterns.test.ts -u` writes the file.
 */
const VERDICTS = join(import.meta.dirname, 'patterns.json');
const known = JSON.parse(readFileSync(VERDICTS, 'utf8')) as Readonly<Record<string, string>>;

function knownVerdictOf(pattern: string): string {
  return IS_DEEP || !Object.hasOwn(known, pattern) ? verdictOf(pattern) : known[pattern]!;
}

describe('a pattern', () => {
  const paths = globSync('src/**/*.{ts,js}', { cwd: ROOT, exclude: (path) => path.endsWith('.d.ts') }).sort();
  const sources = new Map(paths.map((path) => [path.replaceAll('\\', '/'), readFileSync(join(ROOT, path), 'utf8')]));
  const patterns = patternsOf(sources, [...NEVER_MATCHED, ...OF_SEGMENTS]);

  test('of src takes no exponential time, and quadratic time only where its text is bounded (reliability 202)', async () => {
    expect(patterns.size).toBeGreaterThan(250);
    const verdicts = new Map([...patterns.keys()].sort().map((pattern) => [pattern, knownVerdictOf(pattern)]));
    if (IS_DEEP) {
      await expect(`${JSON.stringify(Object.fromEntries(verdicts), null, 2)}\n`).toMatchFileSnapshot(VERDICTS);
    }
    const bad = [...patterns]
      .map(([pattern, files]) => ({ pattern, files, verdict: verdicts.get(pattern) }))
      .filter(({ verdict }) => verdict !== 'safe');
    expect(bad.filter(({ pattern, verdict }) => verdict !== 'polynomial' || !(pattern in QUADRATIC))).toEqual([]);
    expect(bad.map(({ pattern }) => pattern).sort(), 'what is no longer quadratic is not listed').toEqual(
      Object.keys(QUADRATIC).sort(),
    );
  });

  test.each([
    ['^(a+)+$', 'exponential'],
    ['^a/b(?:[ \\t]*;[ \\t]*(?:c)?)*$', 'exponential'],
    ['^a*a*$', 'polynomial'],
    ['^a{1,500}$', 'safe'],
  ])('%s is %s', (source, verdict) => {
    expect(verdictOf(`/${source}/`)).toBe(verdict);
  });

  test('that is built of constants is found, also where another file has them, and any other is a fault', () => {
    const found = (text: string) => [
      ...patternsOf(
        new Map([
          ['src/a.ts', text],
          ['src/b/c.ts', "export const D = '[x]+' as const;"],
        ]),
      ).keys(),
    ];
    expect(
      found(
        "import { D } from './b/c.ts';\nconst Z = /z/i;\nconst f = () => [new RegExp('^' + '[x]+$'), new RegExp(D), new RegExp(Z, 'g')];",
      ),
    ).toEqual(['/z/i', '/^[x]+$/', '/[x]+/', '/z/g']);
    expect(found(`const A = ['b', 'c'];\nexport const E = new RegExp(String.raw\`\\d\${A.join('|')}\`, 'g');`)).toEqual(
      ['/\\db|c/g'],
    );
    expect(found('const f = (x: string) => new RegExp(RegExp.escape(x));')).toEqual(['/escaped/']);
    for (const text of ['new RegExp(x)', "RegExp(x + 'a')", "'a'.match('b')", 'x.search(`b`)', 'new RegExp(A[0])'])
      expect(() => found(`export const f = (x: string) => ${text};`), text).toThrow('src/a.ts');
  });
});
