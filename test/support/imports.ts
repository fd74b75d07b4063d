import { posix } from 'node:path';

/** Source texts by path from the checkout's root, with `/`: `src/gateway/gateway.ts`. */
export type Sources = ReadonlyMap<string, string>;

export interface Import {
  readonly from: string;
  /** A path like those of the sources, or the name of a package or of a module of Node.js (`node:http`). */
  readonly to: string;
  /** `import type` and `export type`: gone at run time. `import { type T }` is not: its file is still loaded. */
  readonly typeOnly: boolean;
  /** `import('…')`, loaded when it is reached. */
  readonly dynamic: boolean;
  /** What is imported by name; `*` for a whole module. */
  readonly names: readonly string[];
}

const STATIC = /^import\s+(?<type>type\s+(?!from\b|,))?(?:(?<clause>[^;'"]*?)\bfrom\s*)?['"](?<target>[^'"]+)['"]/gm;
const EXPORTED =
  /^export\s+(?<type>type\s+)?(?<clause>\*(?:\s+as\s+\w+)?|\{[^}]*\})\s*from\s*['"](?<target>[^'"]+)['"]/gm;
// `import('x').Name` is a type, `(await import('x')).name` is not.
const DYNAMIC = /\bimport\(\s*['"`](?<target>[^'"`]+)['"`]\s*\)(?!\.[A-Z])/g;
const RESOLVED = /\bnew URL\(\s*['"`](?<target>\.[^'"`]+\.ts)['"`]\s*,\s*import\.meta\.url/g;

/** All imports of the TypeScript files among the sources, in the form in which the formatter leaves them. */
export function importsOf(sources: Sources): Import[] {
  return [...sources].filter(([path]) => /\.tsx?$/.test(path)).flatMap(([path, text]) => importsIn(path, text));
}

function importsIn(from: string, source: string): Import[] {
  const text = withoutComments(source);
  const found = (pattern: RegExp, dynamic: boolean) =>
    [...text.matchAll(pattern)].map(({ groups = {} }): Import => {
      const to = resolve(from, groups.target ?? '');
      return { from, to, typeOnly: groups.type !== undefined, dynamic, names: namesIn(groups.clause ?? '*') };
    });
  return [...found(STATIC, false), ...found(EXPORTED, false), ...found(DYNAMIC, true), ...found(RESOLVED, true)];
}

function namesIn(clause: string): string[] {
  return [...clause.matchAll(/(?:\btype\s+)?(\*|[\w$]+)(?:\s+as\s+[\w$]+)?/g)].map(([, name]) => name ?? '');
}

function resolve(from: string, target: string): string {
  return target.startsWith('.') ? posix.join(posix.dirname(from), target) : target;
}

/** Comments that have lines of their own, which is where prose may show an import. */
export function withoutComments(text: string): string {
  return text.replace(/^[ \t]*\/\*[\s\S]*?\*\//gm, '').replace(/^[ \t]*\/\/.*$/gm, '');
}
