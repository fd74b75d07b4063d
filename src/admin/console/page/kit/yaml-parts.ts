/** A part of a line of YAML. `plain` has no colour of its own. */
interface YamlPart {
  readonly kind: 'key' | 'text' | 'number' | 'comment' | 'sign' | 'plain';
  readonly text: string;
}

/** Longer lines have no colours. */
const MAX_LINE = 2_000;

const SIGNS = '{}[],';
const CONSTANT = /^(?:-?\d[\d_]*(?:\.\d+)?|true|false|null|~)$/;

/** The parts of one line, which together are the line. Each line is read alone, so a text over several lines is read as if it were not one. */
export function yamlParts(line: string): readonly YamlPart[] {
  if (line.length > MAX_LINE) return [{ kind: 'plain', text: line }];
  const parts: YamlPart[] = [];
  let at = 0;
  while (at < line.length) {
    const part = partAt(line, at);
    parts.push(part);
    at += part.text.length;
  }
  return parts;
}

function partAt(line: string, at: number): YamlPart {
  const first = line[at]!;
  if (isSpace(first))
    return {
      kind: 'plain',
      text: line.slice(
        at,
        endOf(line, at, (i) => !isSpace(line[i]!)),
      ),
    };
  if (first === '#' && (at === 0 || isSpace(line[at - 1]!))) return { kind: 'comment', text: line.slice(at) };
  const isEntry = first === '-' && (at + 1 === line.length || isSpace(line[at + 1]!));
  if (isEntry || SIGNS.includes(first) || isColon(line, at)) return { kind: 'sign', text: first };
  if (first === '"' || first === "'") {
    const close = line.indexOf(first, at + 1);
    const end = close < 0 ? line.length : close + 1;
    return { kind: isColon(line, end) ? 'key' : 'text', text: line.slice(at, end) };
  }
  const stop = (i: number) =>
    SIGNS.includes(line[i]!) || isColon(line, i) || (line[i] === '#' && isSpace(line[i - 1]!));
  const end = endOf(line, at + 1, stop);
  const text = line.slice(at, end).trimEnd();
  if (isColon(line, end)) return { kind: 'key', text: line.slice(at, end) };
  return { kind: CONSTANT.test(text) ? 'number' : 'text', text };
}

/** What `trimEnd` removes: a text of which nothing is left would be no part, and the reading would stand still. */
function isSpace(character: string): boolean {
  return character.trim() === '';
}

/** Whether the colon behind a key is at this place. */
function isColon(line: string, at: number): boolean {
  const next = line[at + 1];
  return line[at] === ':' && (next === undefined || isSpace(next) || SIGNS.includes(next));
}

function endOf(line: string, from: number, isEnd: (at: number) => boolean): number {
  let at = from;
  while (at < line.length && !isEnd(at)) at++;
  return at;
}
