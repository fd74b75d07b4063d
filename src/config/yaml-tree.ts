import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  type Pair,
  Parser,
  type Scalar,
  type YAMLMap,
} from 'yaml';
import type { Path } from './fault.ts';

interface SourcePosition {
  readonly line: number;
  readonly column: number;
}

/** The values of a document with their positions. */
export interface Tree {
  /** Plain objects, arrays, strings, numbers, booleans and null. */
  readonly value: unknown;
  /** The position of a value or its key; if that is missing, the position of the innermost value around it. */
  locate(path: Path, part: 'key' | 'value'): SourcePosition;
  /** The paths whose value is not what the author meant, because of a fault in the YAML: further faults there are noise. */
  readonly unreadable: readonly Path[];
}

/** A fault without the name of its file. */
export interface TreeFault extends SourcePosition {
  readonly path: Path;
  readonly message: string;
}

/** How deep lists and mappings may be nested. The deepest setting has 7 levels. */
const MAX_DEPTH = 32;
/**
 * Names, values and marks (`:`, `,`, `-`, brackets) in one file. The largest readable file of plans or routes has fewer.
 * Each takes half a kilobyte of memory until the file has been checked.
 */
const MAX_PARTS = 200_000;

/** How much of a document is read. */
interface TreeBounds {
  readonly depth: number;
  readonly parts: number;
  /** Whether it was written for other programs: keys may be numbers, which are taken as text, and `${…}` is plain text. */
  readonly isForeign: boolean;
}

export const OF_SETTINGS: TreeBounds = { depth: MAX_DEPTH, parts: MAX_PARTS, isForeign: false };

/**
 * Reads YAML 1.2 text as one document of plain data, with positions.
 *
 * Anchors, aliases, merge keys and tags are refused: a setting stands in full where it applies, and a file without
 * aliases cannot expand to a huge document ("billion laughs").
 * @returns the tree as far as it could be read (null: not at all) and the faults in its YAML
 */
export function readTree(
  text: string,
  bounds: TreeBounds = OF_SETTINGS,
): { readonly tree: Tree | null; readonly faults: readonly TreeFault[] } {
  const control = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/.exec(text);
  if (control !== null) return controlFault(text, control.index);
  const lines = new LineCounter();
  const at = (offset: number): SourcePosition => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const documents = documentsOf(text, lines, bounds);
  if ('excess' in documents) return noTree(documents.excess, at(documents.offset));
  const broken = documents.flatMap((document) => document.errors)[0];
  if (broken !== undefined) {
    // The parser's further errors are mostly consequences of the first.
    return noTree(syntaxMessage(broken, text), at(broken.pos[0]));
  }
  const root = documents[0]?.contents;
  if (!isNode(root) || (isScalar(root) && root.value === null)) {
    return noTree('is empty; it must hold settings as `key: value`.');
  }
  const reader = new Reader(at, bounds.isForeign);
  const second = documents[1];
  if (second !== undefined) {
    reader.unreadableAt(
      isNode(second.contents) ? second.contents : root,
      [],
      'holds several documents; only one is allowed.',
    );
  }
  const value = reader.read(root, []);
  const locate: Tree['locate'] = (path, part) => at(offsetOf(root, reader.pairs, { path, part }));
  return { tree: { value, locate, unreadable: reader.unreadable }, faults: reader.faults };
}

function noTree(message: string, { line, column }: SourcePosition = { line: 1, column: 1 }) {
  return { tree: null, faults: [{ line, column, path: [], message }] };
}

/** Which bound a text exceeds, as the end of a sentence that begins with the name of its file, and where. */
interface Excess {
  readonly excess: string;
  readonly offset: number;
}

/**
 * The first two documents of a text: the second is a fault already.
 *
 * Attack: 512 KiB of `[`. The composer recurses for each level and takes memory for each part, so depth and number of
 * tokens are checked before the composer sees them.
 */
function documentsOf(text: string, lines: LineCounter, bounds: TreeBounds): readonly Document.Parsed[] | Excess {
  // The composer's own search for duplicate keys takes quadratic time; Reader finds them.
  const composer = new Composer({ uniqueKeys: false, intAsBigInt: bounds.isForeign });
  const documents: Document.Parsed[] = [];
  try {
    for (const document of composer.compose(tokensOf(text, lines, bounds), false, text.length)) {
      documents.push(document as Document.Parsed);
      if (documents.length === 2) break;
    }
  } catch (error) {
    if (error instanceof ExcessError) return error;
    throw error;
  }
  return documents;
}

class ExcessError extends Error implements Excess {
  readonly excess: string;
  readonly offset: number;

  constructor(excess: string, offset: number) {
    super(excess);
    this.excess = excess;
    this.offset = offset;
  }
}

/** @throws ExcessError */
function* tokensOf(text: string, lines: LineCounter, bounds: TreeBounds): Generator<CST.Token, void> {
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  let parts = 0;
  for (const lexeme of new Lexer().lex(text)) {
    if (!isInsignificant(lexeme)) parts++;
    if (parts > bounds.parts) {
      throw new ExcessError(
        `has more than ${bounds.parts} names, values and marks, the most that are read.`,
        parser.offset,
      );
    }
    for (const token of parser.next(lexeme)) {
      yield token;
      // Further errors are mostly consequences of the first; a hostile file has a hundred thousand.
      if (token.type === 'error') return yield* parser.end();
    }
    // The stack also holds the document itself and the scalar that is being read.
    if (parser.stack.length > bounds.depth + 2) {
      throw new ExcessError(`is nested deeper than ${bounds.depth} levels.`, parser.offset);
    }
  }
  yield* parser.end();
}

/** Whether a lexeme is white space, a line ending, a comment, or the lexer's own mark before a scalar. */
function isInsignificant(lexeme: string): boolean {
  const first = lexeme.charCodeAt(0);
  // Space, tab, line feed, carriage return, `#`, and 0x1f before a scalar.
  return first === 0x20 || first === 0x09 || first === 0x0a || first === 0x0d || first === 0x23 || first === 0x1f;
}

function syntaxMessage({ code, message, pos }: { code: string; message: string; pos: [number, number] }, text: string) {
  const rest = 'What follows was not checked.';
  if (code === 'TAB_AS_INDENT') return `is not YAML: a tab indents this line; only spaces may. ${rest}`;
  const variable =
    text[pos[0] - 1] === '$' ? VARIABLE.exec(text.slice(pos[0] - 1, pos[0] + MAX_VARIABLE_LENGTH)) : null;
  if (variable?.index === 0) return `${variableMessage(variable)} ${rest}`;
  const braces = text[pos[0]] === '{' ? ' A text with braces inside `{ }` needs quotes.' : '';
  // The parser may quote a line of a file that the operator named by mistake, a password for example.
  const unquoted = message.replace(/:? "(?:[^"\\]|\\.)*[A-Za-z0-9](?:[^"\\]|\\.)*"/g, '').replace(/\.?$/, '.');
  return `is not YAML: ${unquoted}${braces} ${rest}`;
}

const MAX_VARIABLE_LENGTH = 80;
/** The syntax for which shells, Compose and others substitute an environment variable. */
const VARIABLE = /\$\{[A-Za-z_][A-Za-z0-9_]{0,63}(?=[^A-Za-z0-9_])/;

function variableMessage([found]: RegExpExecArray): string {
  const name = found.slice('${'.length);
  return `has \`\${${name}}\`, and no variable is filled in here. Write the value out; addresses and secrets can come from the environment by themselves.`;
}

function controlFault(text: string, offset: number) {
  const before = text.slice(0, offset).split('\n');
  const hex = text.charCodeAt(offset).toString(16).padStart(4, '0').toUpperCase();
  const message = `has the control character U+${hex}, which YAML does not allow.`;
  return noTree(message, { line: before.length, column: before.at(-1)!.length + 1 });
}

type PairsOfMaps = Map<Node, Map<string, Pair>>;

/** Turns nodes into plain values and collects the YAML features that settings files must not use. */
class Reader {
  readonly faults: TreeFault[] = [];
  readonly unreadable: Path[] = [];
  /** The pairs of each map by key: a linear search for every fault would take quadratic time. */
  readonly pairs: PairsOfMaps = new Map();
  readonly #at: (offset: number) => SourcePosition;
  readonly #isForeign: boolean;

  constructor(at: (offset: number) => SourcePosition, isForeign: boolean) {
    this.#at = at;
    this.#isForeign = isForeign;
  }

  /** Adds a fault and marks the value as unreadable. */
  unreadableAt(node: Node, path: Path, message: string): void {
    this.unreadable.push(path);
    this.fault(node, path, message);
  }

  fault(node: Node, path: Path, message: string): void {
    this.faults.push({ ...this.#at(node.range?.[0] ?? 0), path, message });
  }

  read(node: unknown, path: Path): unknown {
    if (!isNode(node)) return null;
    if (isAlias(node)) {
      this.unreadableAt(
        node,
        path,
        `is the alias \`*${node.source}\`; aliases are not supported, write the value out.`,
      );
      return null;
    }
    if (node.anchor)
      this.fault(node, path, `has the anchor \`&${node.anchor}\`; anchors are not supported, leave it out.`);
    if (node.tag) this.unreadableAt(node, path, `has the tag \`${node.tag}\`; tags are not supported, leave it out.`);
    if (isMap(node)) return this.#readMap(node, path);
    if (isSeq(node)) return node.items.map((item, i) => this.read(item, [...path, i]));
    if (!isScalar(node)) return null;
    const variable = typeof node.value === 'string' && !this.#isForeign ? VARIABLE.exec(node.value) : null;
    if (variable !== null) {
      this.unreadableAt(node, path, variableMessage(variable));
      return null;
    }
    // Under a `%YAML 1.1` directive the parser turns dates into Date objects; the settings take dates as text.
    return node.value !== null && typeof node.value === 'object' ? (node.source ?? '') : node.value;
  }

  #readMap(map: YAMLMap, path: Path): Record<string, unknown> {
    const value: Record<string, unknown> = {};
    const pairs = new Map<string, Pair>();
    this.pairs.set(map, pairs);
    for (const pair of map.items) {
      const { key } = pair;
      if (!isScalar(key)) {
        this.unreadableAt(isNode(key) ? key : map, path, 'has a key that is no text.');
        continue;
      }
      const name = String(key.value);
      const fault = this.#faultOfKey(key, pairs.get(name));
      if (fault !== null && ((key.value !== name && !this.#isForeign) || name === '<<'))
        this.unreadableAt(key, [...path, name], fault);
      else if (fault !== null) this.fault(key, [...path, name], fault);
      if (name === '__proto__' || pairs.has(name)) continue;
      pairs.set(name, pair);
      value[name] = this.read(pair.value, [...path, name]);
    }
    return value;
  }

  #faultOfKey(key: Scalar, first: Pair | undefined): string | null {
    if (typeof key.value !== 'string' && !this.#isForeign) return 'is a key that is not text; put it in quotes.';
    if (key.value === '__proto__') return 'is a key that is not allowed.';
    if (key.value === '<<') return 'is a merge key; merging is not supported, write the keys out.';
    if (key.anchor) return 'has an anchor; anchors are not supported, leave it out.';
    if (key.tag) return 'has a tag; tags are not supported, leave it out.';
    if (first === undefined) return null;
    const { line } = this.#at(startOf(first.key) ?? 0);
    return `is given twice, first in line ${line}; each key must be given once.`;
  }
}

function startOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined;
}

/** The offset of the value at a path, or of the innermost value on that path which exists. */
function offsetOf(root: Node, pairs: PairsOfMaps, { path, part }: { path: Path; part: 'key' | 'value' }): number {
  let node = root;
  let offset = startOf(root) ?? 0;
  for (const [i, step] of path.entries()) {
    const pair = typeof step === 'string' ? pairs.get(node)?.get(step) : undefined;
    const item = isSeq(node) && typeof step === 'number' ? node.items[step] : pair?.value;
    offset = startOf(pair?.key) ?? offset;
    if (!isNode(item)) break;
    node = item;
    if (part === 'value' || i < path.length - 1 || pair === undefined) offset = startOf(item) ?? offset;
  }
  return offset;
}
