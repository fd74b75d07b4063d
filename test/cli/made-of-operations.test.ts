import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAst } from 'rolldown/parseAst';
import { expect, test } from 'vitest';
import { ALL_COMMANDS } from '../../src/main.ts';
import { ATTRIBUTE_NAMES, SEARCHED } from '../../src/model/attributes.ts';
import { OPERATIONS } from '../../src/operations/catalogue/all.ts';
import { ROOT } from '../support/processes.ts';

// The faces are made of the operations and of the fields of the model, and know nothing else of a store or a record.

const sources = new Map(
  globSync(['src/library.ts', 'src/{cli,admin}/**/*.{ts,tsx}'], { cwd: ROOT, exclude: ['**/*.d.ts'] }).map((path) => [
    path,
    readFileSync(join(ROOT, path), 'utf8'),
  ]),
);

/** The files that open a store, with the commands that are in them. No operation does what these do. */
const OPENERS: Readonly<Record<string, readonly string[]>> = {
  'src/cli/operations-at.ts': [],
  'src/cli/console.ts': ['console'],
  'src/cli/keys/backup.ts': ['keys backup'],
  'src/cli/start.ts': ['start'],
};

test('a command opens a store only for what no operation on the store does', () => {
  const openers = [...sources].filter(
    ([path, text]) => path.startsWith('src/cli/') && /\b(?:withStore|openStore|namedStore)(?:<\w+>)?\(/.test(text),
  );
  expect(openers.map(([path]) => path).toSorted()).toEqual(Object.keys(OPENERS).toSorted());
  expect(ALL_COMMANDS.map(({ name }) => name)).toEqual(expect.arrayContaining(Object.values(OPENERS).flat()));
  // `keys import` would be `importKeys` or `importKey`, and `console` `…/console`.
  const done = OPERATIONS.filter(({ on }) => on === 'store').flatMap(({ name, line }) => {
    const [verb] = /^[a-z]+/.exec(name)!;
    return line
      .split('/')
      .slice(1, 2)
      .map((noun) => `${noun} ${verb}`);
  });
  expect(done).toContain('keys list');
  expect(
    Object.values(OPENERS)
      .flat()
      .filter((command) => done.includes(command)),
  ).toEqual([]);
});

/** What else has the name of an attribute. */
const OTHERS = [
  'src/admin/listener.ts certificates',
  // Of OAuth, and those that routes require.
  'src/admin/oidc.ts scopes',
  'src/admin/console/page/fields.tsx scopes',
  'src/admin/console/page/screens/plans-simulate.tsx notes',
  'src/cli/plans/simulate.ts notes',
];

test('a face names no attribute of a key or a customer: src/model/attributes.ts has all of them', () => {
  // Rows about callers have what callers are searched by, beside their ids.
  const attributes = new Set<string>(ATTRIBUTE_NAMES.filter((name) => !SEARCHED.includes(name)));
  const named = [...sources].flatMap(([path, text]) =>
    membersNamedIn(path, text)
      .filter((name) => attributes.has(name))
      .map((name) => `${path} ${name}`),
  );
  expect([...new Set(named)].toSorted()).toEqual(OTHERS.toSorted());
});

/** The members of objects that a file names: reads, takes apart, writes or declares. Calls of methods and private fields are none. */
function membersNamedIn(path: string, text: string): string[] {
  const names: string[] = [];
  const walk = (node: unknown): void => {
    if (Array.isArray(node)) for (const item of node) walk(item);
    if (!isNode(node)) return;
    const { type, property, key, value, callee, ...rest } = node;
    // A word such as that of `class` in an element.
    if (type === 'JSXAttribute' && isNode(value) && value.type === 'Literal') return;
    const name = type === 'MemberExpression' ? property : /Property(?:Signature)?$/.test(type) ? key : undefined;
    if (isNode(name) && name.type === 'Identifier') names.push(String(name.name));
    if (type === 'Literal') names.push(String(value));
    // The name of a method that is called is no member of a record.
    walk([property, key, value, isNode(callee) && callee.type === 'MemberExpression' ? callee.object : callee]);
    walk(Object.values(rest));
  };
  walk(parseAst(text, { lang: path.endsWith('x') ? 'tsx' : 'ts' }));
  return names;
}

interface Node {
  readonly type: string;
  readonly [member: string]: unknown;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}
