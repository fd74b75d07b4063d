import { isDeepStrictEqual } from 'node:util';
import { isMap, isScalar, isSeq, type Node, type Pair, parseDocument, stringify, type YAMLMap } from 'yaml';

/** A value to write into a file of settings, at the names that lead to it. Null: it is removed. */
export interface YamlEdit {
  readonly path: readonly string[];
  readonly value: string | number | boolean | readonly string[] | null;
}

/**
 * Makes changes in a text of YAML and leaves all else as it is: comments, order, indentation, quotes. A mapping that an edit leaves
 * empty is removed as well; one that an edit needs is added on one line.
 * @param text YAML without faults, as `readTree` reads it
 */
export function editedYaml(text: string, edits: readonly YamlEdit[]): string {
  return edits.reduce(editedOnce, text);
}

function editedOnce(text: string, { path, value }: YamlEdit): string {
  const document = parseDocument(text, { uniqueKeys: false });
  const { contents } = document;
  if (!isMap(contents)) return text;
  const found = walk(contents, path);
  const { map, pair } = found.at(-1)!;
  const depth = value === null ? removedDepth(found, path) : found.length - 1;
  if (depth === null) return text;
  const [at, to] = [path.slice(0, depth + 1), nested(path.slice(depth + 1), value)];
  const cut =
    value === null
      ? removal(text, found[depth]!)
      : pair === null
        ? insertion(text, map, { [at.at(-1)!]: to })
        : replacement(pair, to);
  const after = text.slice(0, cut.from) + cut.text + text.slice(cut.to);
  if (value === null) document.deleteIn(at);
  else document.setIn(at, to);
  // In a layout that the cut does not fit, the whole is written anew: the values are right in any case.
  const read = parseDocument(after, { uniqueKeys: false });
  const isRight = read.errors.length === 0 && isDeepStrictEqual(read.toJS(), document.toJS());
  return isRight ? after : document.toString({ lineWidth: 0 });
}

/** What of a text is replaced by what. */
interface Cut {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

type Entry = Pair<Node, Node | null>;

interface Found {
  readonly map: YAMLMap;
  /** Null if the mapping lacks the name. */
  readonly pair: Entry | null;
}

/** The mappings along a path, each with the entry that the path names in it. */
function walk(root: YAMLMap, path: readonly string[]): readonly Found[] {
  const found: Found[] = [];
  let map: unknown = root;
  for (let depth = 0; depth < path.length && isMap(map); depth++) {
    const pair = entriesOf(map).find(({ key }) => isScalar(key) && String(key.value) === path[depth]) ?? null;
    found.push({ map, pair });
    map = pair?.value;
  }
  return found;
}

function entriesOf(map: YAMLMap): readonly Entry[] {
  return map.items as Entry[];
}

/** At which depth of a path an entry is removed: that of the outermost mapping that would be empty without it. Null if there is no such entry. */
function removedDepth(found: readonly Found[], path: readonly string[]): number | null {
  if (found.length < path.length || found.at(-1)!.pair === null) return null;
  let depth = path.length - 1;
  while (depth > 0 && found[depth]!.map.items.length === 1) depth--;
  return depth;
}

function nested(path: readonly string[], value: YamlEdit['value']): unknown {
  return path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value);
}

/** A value on one line, as it may stand within braces. */
function flowText(value: unknown): string {
  return stringify([value], { collectionStyle: 'flow', lineWidth: 0 }).trim().slice(1, -1).trim();
}

function replacement({ key, value }: Entry, to: unknown): Cut {
  const [, afterKey] = key.range!;
  const [from, end] = value?.range ?? [afterKey, afterKey];
  // Nothing stands there, or a mapping in lines of its own.
  const isBelow = end === from || (isMap(value) && value.flow !== true);
  return { from: isBelow ? afterKey : from, to: end, text: `${isBelow ? ': ' : ''}${flowText(to)}` };
}

function insertion(text: string, map: YAMLMap, entry: object): Cut {
  const line = flowText(entry).slice(1, -1).trim();
  const [start, end] = map.range!;
  const last = entriesOf(map).at(-1);
  if (last === undefined) return { from: start, to: end, text: `{ ${line} }` };
  if (map.flow === true) return { from: endOf(last), to: endOf(last), text: `, ${line}` };
  const at = lineEnd(text, endOf(last));
  const indent = start - (text.lastIndexOf('\n', start - 1) + 1);
  return { from: at, to: at, text: `${text.includes('\r\n') ? '\r\n' : '\n'}${' '.repeat(indent)}${line}` };
}

function removal(text: string, { map, pair }: Found): Cut {
  const [from] = pair!.key.range!;
  const to = endOf(pair!);
  if (map.flow !== true) {
    const start = text.lastIndexOf('\n', from - 1) + 1;
    const feed = text.indexOf('\n', to);
    return { from: start, to: feed === -1 ? text.length : feed + 1, text: '' };
  }
  const after = /^\s*,\s*/.exec(text.slice(to))?.[0].length ?? 0;
  const before = after > 0 ? 0 : (/,\s*$/.exec(text.slice(0, from))?.[0].length ?? 0);
  return { from: from - before, to: to + after, text: '' };
}

/** Where the last value of an entry ends, before the spaces, comments and empty lines behind it. */
function endOf({ key, value }: Entry): number {
  const last = isMap(value) && value.flow !== true ? entriesOf(value).at(-1) : undefined;
  if (last !== undefined) return endOf(last);
  const items = isSeq(value) && value.flow !== true ? value.items : [];
  const [, end] = (items.at(-1) as Node | undefined)?.range ?? value?.range ?? key.range!;
  return end;
}

/** The end of a line, before what ends it. */
function lineEnd(text: string, from: number): number {
  const feed = text.indexOf('\n', from);
  const end = feed === -1 ? text.length : feed;
  return text[end - 1] === '\r' ? end - 1 : end;
}
