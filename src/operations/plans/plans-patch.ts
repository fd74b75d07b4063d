import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';

/** How long the shortest difference is searched for. */
const SEARCH_MS = 2_000;

/**
 * The difference between two versions of a file as a unified diff, which `git apply` and `patch -p1` take.
 *
 * Attack: two texts of 100,000 different lines. The search for the shortest difference would take minutes, so it ends after
 * two seconds, and the patch then replaces the whole text.
 * @param path of the file, as the reader of the patch names it, without a leading slash
 * @returns the patch; empty if the texts are the same
 */
export function patchOf(path: string, before: string, after: string, searchMs = SEARCH_MS): string {
  if (before === after) return '';
  const [from, to] = [`a/${path}`, `b/${path}`];
  const options = { context: 3, headerOptions: FILE_HEADERS_ONLY, timeout: searchMs };
  const patch = createTwoFilesPatch(from, to, before, after, undefined, undefined, options);
  if (patch !== undefined) return patch;
  const [removed, added] = [linesOf(before), linesOf(after)];
  // Only the names of the files are taken from the library: it writes them in quotes if they need it.
  const heads = createTwoFilesPatch(from, to, '', '', undefined, undefined, { headerOptions: FILE_HEADERS_ONLY });
  const [minus, plus] = heads.split('\n');
  const hunk = `@@ -${rangeOf(removed)} +${rangeOf(added)} @@`;
  return `${[minus, plus, hunk].join('\n')}\n${signed('-', removed)}${signed('+', added)}`;
}

/** The lines with their ends; the last one may have none. */
function linesOf(text: string): readonly string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

function rangeOf(lines: readonly string[]): string {
  return lines.length === 0 ? '0,0' : `1,${lines.length}`;
}

function signed(sign: '-' | '+', lines: readonly string[]): string {
  return lines
    .map((line) => (line.endsWith('\n') ? `${sign}${line}` : `${sign}${line}\n\\ No newline at end of file\n`))
    .join('');
}
