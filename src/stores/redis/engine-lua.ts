import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { luaFile } from './lua-script.ts';

/**
 * The engine (src/engine) and the shell around it as Lua: `npm run engine:lua` makes it. Redis gets it without indents and comments, but
 * with all its lines, because the map counts them.
 */
export const ENGINE_LUA = luaFile('./engine.lua').replace(/^ *(?:--.*)?/gm, '');

/**
 * The message of an error in a script that has ENGINE_LUA, with the line of TypeScript in place of the line of the script, as far as
 * Redis names one.
 */
export function withSource(message: string, lua: string): string {
  return message.replace(/@?user_script:(\d+)(?=:)/, (place, line) => {
    const found = sourceOf(Number(line) - linesBefore(lua));
    return found === null ? place : `${found} (line ${line} of the script)`;
  });
}

function linesBefore(lua: string): number {
  return lua.slice(0, lua.indexOf(ENGINE_LUA)).split('\n').length - 1;
}

/** @param line of ENGINE_LUA, from 1 */
function sourceOf(line: number): string | null {
  const map = new SourceMap(JSON.parse(readFileSync(new URL('./engine.lua.map', import.meta.url), 'utf8')));
  const entry = map.findEntry(line - 1, 0);
  if (!('originalSource' in entry) || entry.generatedLine !== line - 1) return null;
  return `${entry.originalSource}:${entry.originalLine + 1}`;
}
