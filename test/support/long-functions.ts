import { parseAst } from 'rolldown/parseAst';
import type { Sources } from './imports.ts';

export interface LongFunction {
  readonly path: string;
  readonly line: number;
  readonly name: string;
  readonly lines: number;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [member: string]: unknown;
}

/** The functions of TypeScript files that have more than `max` lines, the longest first. */
export function longFunctions(sources: Sources, max: number): LongFunction[] {
  const found = [...sources]
    .filter(([path]) => path.endsWith('.ts'))
    .flatMap(([path, text]) => inFile(path, text, max));
  return found.sort((a, b) => b.lines - a.lines);
}

function inFile(path: string, text: string, max: number): LongFunction[] {
  const found: LongFunction[] = [];
  const starts = [...text.matchAll(/^/gm)].map(({ index }) => index);
  const lineOf = (offset: number) => starts.findLastIndex((start) => start <= offset) + 1;
  const walk = (node: unknown, name: string): void => {
    if (Array.isArray(node)) for (const item of node) walk(item, name);
    if (!isNode(node)) return;
    // A method and a variable have the names of the functions that they hold.
    const own = [node.id, node.key].find((it) => isNode(it) && typeof it.name === 'string') as
      | { name: string }
      | undefined;
    const known = own?.name ?? name;
    if (/Function/.test(node.type) && node.body !== null) {
      const [line, last] = [lineOf(node.start), lineOf(node.end)];
      if (last - line >= max) found.push({ path, line, name: known, lines: last - line + 1 });
    }
    for (const member of Object.values(node)) walk(member, known);
  };
  if (text.split('\n').length > max) walk(parseAst(text, { lang: 'ts' }), '');
  return found;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value;
}
