import { type Checked, fault, passed } from './checked.ts';

/** One member of a JSON object: its name with escapes resolved, and its value as it was written. */
export interface Member {
  readonly name: string;
  readonly source: string;
}

/**
 * The members of the JSON object in `text`, in their order, duplicates included. `JSON.parse` alone cannot serve here:
 * it keeps the last of two equal names without a word and rounds integers beyond 2^53.
 */
export function membersOf(text: string): Checked<readonly Member[]> {
  let whole: unknown;
  try {
    whole = JSON.parse(text);
  } catch {
    return fault('The body is not valid JSON.');
  }
  if (typeof whole !== 'object' || whole === null || Array.isArray(whole)) {
    return fault('The body must be a JSON object with name and categoryId.');
  }
  return passed(scanObject(text));
}

/** Cuts an object whose syntax is known to be right into its members. One pass, no recursion, no backtracking. */
function scanObject(text: string): Member[] {
  const members: Member[] = [];
  let at = skipSpace(text, text.indexOf('{') + 1);
  while (text[at] !== '}') {
    const nameEnd = endOfString(text, at);
    const valueStart = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const valueEnd = endOfValue(text, valueStart);
    members.push({ name: JSON.parse(text.slice(at, nameEnd)), source: text.slice(valueStart, valueEnd).trimEnd() });
    at = text[valueEnd] === ',' ? skipSpace(text, valueEnd + 1) : valueEnd;
  }
  return members;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at += 1;
  return at;
}

/** The index after the closing quote of the string that opens at `from`. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

/** The index of the comma or brace that ends the value at `from`. */
function endOfValue(text: string, from: number): number {
  let depth = 0;
  let at = from;
  for (;;) {
    const character = text[at];
    if (depth === 0 && (character === ',' || character === '}')) return at;
    if (character === '{' || character === '[') depth += 1;
    if (character === '}' || character === ']') depth -= 1;
    at = character === '"' ? endOfString(text, at) : at + 1;
  }
}
