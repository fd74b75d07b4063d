import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { ROOT } from './root.ts';

/** The first cell of a row of docs/reliability.md, and all cells but the last. */
const ROW = /^(\| <a id="(\d+)"><\/a>.*\| )[^|]*\|$/gm;
/** "reliability 14", "reliability 1-5, 16-19", "Reliability 99 and 100". */
const CITATION = /\breliability (\d+(?:-\d+)?(?:(?:, | and )\d+(?:-\d+)?)*)/gi;
/** The title of the next test; of a table of tests it stands behind the table. */
const TITLE = /^\s*(?:test|describe)(?:\(|\.[\s\S]*?\)\()\s*(['"`])((?:(?!\1)[^\\]|\\.)+)\1/m;
const QUOTED = /(['"`])((?:(?!\1)[^\\]|\\.)*)\1/g;
const NO_TEST = '**no test**';

/** docs/reliability.md with the tests that cite each number. */
export function reliabilityPage(page: string): string {
  const titles = citedTitles();
  return page.replace(ROW, (_, cells: string, number: string) => {
    const tests = titles.get(Number(number)) ?? [];
    return `${cells}${tests.length === 0 ? NO_TEST : tests.join('<br>')} |`;
  });
}

/** The numbers that tests cite and that no row has. */
export function unknownCitations(page: string): number[] {
  const known = new Set([...page.matchAll(ROW)].map(([, , number]) => Number(number)));
  return [...citedTitles().keys()].filter((number) => !known.has(number));
}

/** The tests that cite a number, each by the name of its file and its title, in the order of the alphabet. */
function citedTitles(): ReadonlyMap<number, readonly string[]> {
  const titles = new Map<number, Set<string>>();
  for (const { file, text, at, numbers } of citations()) {
    const words = [groupAround(text, at), titleAround(text, at)].filter((word) => word !== null);
    const title = `\`${basename(file).split('.')[0]}\`: ${words.map(asCell).join(' › ')}`;
    for (const number of numbers) titles.set(number, (titles.get(number) ?? new Set()).add(title));
  }
  return new Map([...titles].map(([number, found]) => [number, [...found].sort()]));
}

function* citations() {
  const folder = join(ROOT, 'test');
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue;
    const text = readFileSync(join(folder, file), 'utf8');
    for (const match of text.matchAll(CITATION)) {
      yield { file, text, at: match.index, numbers: match[1]!.split(/, | and /).flatMap(numbersOf) };
    }
  }
}

function numbersOf(range: string): number[] {
  const [first, last = first] = range.split('-').map(Number) as [number, number?];
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

/** The title that a citation stands in or, for one in a comment, the title of the test behind it. */
function titleAround(text: string, at: number): string {
  const start = text.lastIndexOf('\n', at) + 1;
  const line = text.slice(start, text.indexOf('\n', at));
  for (const { index, 0: quoted, 2: title } of line.matchAll(QUOTED)) {
    if (index < at - start && at - start < index + quoted.length) return title!;
  }
  const title = TITLE.exec(text.slice(start))?.[2];
  if (title === undefined) throw new Error(`No test follows the citation in: ${line.trim()}`);
  return title;
}

/** The title of the group that a citation stands in; null where it is in none, or in that title itself. */
function groupAround(text: string, at: number): string | null {
  const line = text.lastIndexOf('\n', at) + 1;
  if (/^(?:\/\/| ?\*|\/\*)/.test(text.slice(line))) return null;
  const before = text.slice(0, at);
  const start = [...before.matchAll(/^(?:test|describe)\b/gm)].at(-1);
  if (start?.[0] !== 'describe') return null;
  const group = TITLE.exec(text.slice(start.index));
  return group === null || start.index + group.index + group[0].length > at ? null : group[2]!;
}

/** A title as it stands in a table: without its citation, and with an ellipsis for each value that it is given. */
function asCell(title: string): string {
  return title
    .replace(/\\(.)/g, '$1')
    .replace(/,? ?\(reliability [^)]*\)/gi, '')
    .replace(/\$\{[^}]*\}|%[sijdf]/g, '…')
    .replace(/[|<>*_{}]/g, (character) => `\\${character}`)
    .trim();
}
