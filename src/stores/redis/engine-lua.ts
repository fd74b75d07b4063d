import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';

/** A string; an indent, with a comment if there is one; what needs no spaces around it; or a name that the compiler or tools/engine-lua gave. */
const SHORTER =
  /("(?:\\.|[^"\\\n])*")|^(?: +(?:--.*)?|--.*)| *([=~<>+*/%#,(){}]+) *|(?<!\.)\b(____\w+|[a-z]+_(?!script\b)\w+(?<!_script)\b)/gm;

/**
 * The engine (src/engine) and the shell around it (shell/) as Lua: `npm run engine:lua` makes these files. Redis gets them without
 * comments, without the spaces that Lua does not need, and with short names for what has none in TypeScript, but with all their lines,
 * because the maps count them.
 */
export const ENGINE_LUA = luaOf('engine.lua');
export const CHANGES_LUA = luaOf('changes.lua');
export const REFUSALS_LUA = luaOf('refusals.lua');
const SENT: Readonly<Record<string, string>> = {
  ...{ 'engine.lua': ENGINE_LUA, 'changes.lua': CHANGES_LUA, 'refusals.lua': REFUSALS_LUA },
};

/**
 * The message of an error in a script that has one of them, with the line of TypeScript in place of the line of the script, as far as
 * Redis names one.
 */
export function withSource(message: string, lua: string): string {
  return message.replace(/@?user_script:(\d+)(?=:)/, (place, line) => {
    const found = sourceOf(lua, Number(line));
    return found === null ? place : `${found} (line ${line} of the script)`;
  });
}

/** @param line of `lua`, from 1 */
function sourceOf(lua: string, line: number): string | null {
  const file = Object.keys(SENT).find((name) => lua.includes(SENT[name]!));
  if (file === undefined) return null;
  const before = lua.indexOf(SENT[file]!);
  const at = line - lua.slice(0, before).split('\n').length;
  const entry = new SourceMap(JSON.parse(textOf(`${file}.map`))).findEntry(at, 0);
  if (!('originalSource' in entry) || entry.generatedLine !== at) return null;
  return `${entry.originalSource}:${entry.originalLine + 1}`;
}

function luaOf(name: string): string {
  const names = new Map<string, string>();
  return textOf(name).replace(SHORTER, (_, string = '', sign = '', long) => {
    if (long === undefined) return string + sign;
    if (!names.has(long)) names.set(long, `_${names.size}`);
    return names.get(long)!;
  });
}

function textOf(name: string): string {
  return readFileSync(new URL(name, import.meta.url), 'utf8');
}
