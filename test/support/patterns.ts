import { posix } from 'node:path';
import { parseAst } from 'rolldown/parseAst';
import type { Sources } from './imports.ts';

/** A RegExp of the source, as `/source/flags`, with the files that have it. */
export type Patterns = ReadonlyMap<string, readonly string[]>;

type Node = { readonly type: string } & Readonly<Record<string, unknown>>;

/** What an expression is when the program runs, as far as its text says; undefined if it does not. */
type Known = string | RegExp | readonly Known[] | undefined;

interface File {
  readonly program: Node;
  readonly constants: ReadonlyMap<string, Node>;
  readonly imports: ReadonlyMap<string, { readonly from: string; readonly name: string }>;
}

/**
 * Every RegExp of TypeScript files: those written between slashes, and those of `new RegExp` whose text follows from
 * constants, also of other files.
 * @param exempt expressions that are left out: `src/a.ts: new RegExp(text)`
 * @throws Error for one that is made of anything else, or that `match` and its like make of a text
 */
export function patternsOf(sources: Sources, exempt: readonly string[] = []): Patterns {
  const files = new Map([...sources].map(([path, text]) => [path, fileOf(path, text)]));
  const found = new Map<string, string[]>();
  for (const [path, { program }] of files) {
    for (const node of nodesIn(program)) {
      const pattern = patternAt(node, (expression) => knownOf(expression, path, files));
      if (pattern === null) continue;
      if (pattern === undefined) {
        const text = sources.get(path)!.slice(node.start as number, node.end as number);
        if (exempt.includes(`${path}: ${text}`)) continue;
        throw new Error(
          `${path}: the pattern of \`${text}\` follows from no constants. Make it of constants and RegExp.escape.`,
        );
      }
      const key = String(pattern);
      found.set(key, [...(found.get(key) ?? []), path]);
    }
  }
  return found;
}

/** The RegExp that a node makes; null if it makes none, undefined if its text is not known. */
function patternAt(node: Node, known: (expression: unknown) => Known): RegExp | null | undefined {
  if (isPatternLiteral(node)) return literalOf(node);
  const { callee, arguments: given = [] } = node as { callee?: Node; arguments?: readonly Node[] };
  if (callee === undefined) return null;
  if (callee.type === 'Identifier' && callee.name === 'RegExp') return built(known(given[0]), given[1], known);
  const method = callee.type === 'MemberExpression' ? (callee.property as Node).name : null;
  // These make a RegExp of a text.
  if (method !== 'match' && method !== 'matchAll' && method !== 'search') return null;
  return given[0]?.type === 'TemplateLiteral' || typeof given[0]?.value === 'string' ? undefined : null;
}

function built(source: Known, flags: Node | undefined, known: (expression: unknown) => Known): RegExp | undefined {
  // Flags that are known only at run time add neither choices nor repetitions.
  const text = flags === undefined ? undefined : known(flags);
  const added = typeof text === 'string' ? text : '';
  if (source instanceof RegExp) return new RegExp(source, added === '' ? source.flags : added);
  return typeof source === 'string' ? new RegExp(source, added) : undefined;
}

function fileOf(path: string, text: string): File {
  const program = parseAst(text, { lang: 'ts' }) as unknown as Node;
  const constants = new Map<string, Node>();
  const imports = new Map<string, { from: string; name: string }>();
  for (const statement of program.body as readonly Node[]) {
    const declared = statement.type === 'ExportNamedDeclaration' ? (statement.declaration as Node | null) : statement;
    if (declared?.type === 'VariableDeclaration' && declared.kind === 'const') {
      for (const { id, init } of declared.declarations as readonly { id: Node; init: Node }[]) {
        if (id.type === 'Identifier') constants.set(id.name as string, init);
      }
    }
    if (statement.type !== 'ImportDeclaration') continue;
    const from = posix.join(posix.dirname(path), (statement.source as Node).value as string);
    for (const { imported, local } of statement.specifiers as readonly { imported?: Node; local: Node }[]) {
      if (imported !== undefined) imports.set(local.name as string, { from, name: imported.name as string });
    }
  }
  return { program, constants, imports };
}

function* nodesIn(value: unknown): Generator<Node> {
  if (typeof value !== 'object' || value === null) return;
  if ('type' in value) yield value as Node;
  for (const inner of Object.values(value)) yield* nodesIn(inner);
}

function knownOf(expression: unknown, path: string, files: ReadonlyMap<string, File>): Known {
  const of = (inner: unknown) => knownOf(inner, path, files);
  const node = expression as Node | undefined;
  switch (node?.type) {
    case 'Literal':
      if (isPatternLiteral(node)) return literalOf(node);
      return typeof node.value === 'string' ? node.value : undefined;
    case 'TemplateLiteral':
      return joined(node, 'cooked', of);
    case 'TaggedTemplateExpression':
      return isMember(node.tag, 'String', 'raw') ? joined(node.quasi as Node, 'raw', of) : undefined;
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
      return of(node.expression);
    case 'ArrayExpression':
      return (node.elements as readonly Node[]).map(of);
    case 'BinaryExpression': {
      const [left, right] = [of(node.left), of(node.right)];
      return node.operator === '+' && typeof left === 'string' && typeof right === 'string' ? left + right : undefined;
    }
    case 'CallExpression':
      return knownOfCall(node, of);
    case 'Identifier':
      return knownOfName(node.name as string, path, files);
    default:
      return undefined;
  }
}

function knownOfCall({ callee, arguments: given }: Node, of: (inner: unknown) => Known): Known {
  // What is escaped is a text without choices and repetitions, whatever it is.
  if (isMember(callee, 'RegExp', 'escape')) return 'escaped';
  const { type, object, property } = callee as Node;
  if (type !== 'MemberExpression' || (property as Node).name !== 'join') return undefined;
  const [list, between] = [of(object), of((given as readonly Node[])[0])];
  if (!Array.isArray(list) || typeof between !== 'string') return undefined;
  return list.every((item) => typeof item === 'string') ? list.join(between) : undefined;
}

function knownOfName(name: string, path: string, files: ReadonlyMap<string, File>): Known {
  const file = files.get(path);
  const imported = file?.imports.get(name);
  if (imported !== undefined) return knownOfName(imported.name, imported.from, files);
  return knownOf(file?.constants.get(name), path, files);
}

function joined(template: Node, form: 'cooked' | 'raw', of: (inner: unknown) => Known): string | undefined {
  const values = (template.expressions as readonly Node[]).map(of);
  if (!values.every((value) => typeof value === 'string')) return undefined;
  const texts = (template.quasis as readonly { value: Record<string, string> }[]).map(({ value }) => value[form]!);
  return texts.map((text, i) => text + (values[i] ?? '')).join('');
}

function isMember(node: unknown, object: string, property: string): boolean {
  const { type, ...rest } = node as Node;
  return (
    type === 'MemberExpression' && (rest.object as Node).name === object && (rest.property as Node).name === property
  );
}

function isPatternLiteral(node: Node): boolean {
  return node.type === 'Literal' && node.regex != null;
}

function literalOf(node: Node): RegExp {
  const { pattern, flags } = node.regex as { pattern: string; flags: string };
  return new RegExp(pattern, flags);
}
