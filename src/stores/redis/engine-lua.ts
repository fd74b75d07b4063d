import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';

/**
 * The engine (src/engine) and the shell around it (shell/) as Lua: `npm run engine:lua` makes these files. Redis gets them without indents
 * and comments, but with all their lines, because the maps count them.
 */
export const ENGINE_LUA = luaOf('engine.lua');
export const CHANGES_LUA = luaOf('changes.lua');

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
  const file = lua.includes(ENGINE_LUA) ? 'engine.lua' : 'changes.lua';
  const before = lua.indexOf(file === 'engine.lua' ? ENGINE_LUA : CHANGES_LUA);
  if (before < 0) return null;
  const at = line - lua.slice(0, before).split('\n').length;
  const entry = new SourceMap(JSON.parse(textOf(`${file}.map`))).findEntry(at, 0);
  if (!('originalSource' in entry) || entry.generatedLine !== at) return null;
  return `${entry.originalSource}:${entry.originalLine + 1}`;
}

function luaOf(name: string): string {
  return textOf(name).replace(/^ *(?:--.*)?/gm, '');
}

function textOf(name: string): string {
  return readFileSync(new URL(name, import.meta.url), 'utf8');
}
