import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ENGINE_LUA, engineLua, ROOT } from './engine-lua.ts';

/** `npm run engine:lua`: writes the engine as Lua, and the map of its lines. */
const { lua, map } = engineLua();
writeFileSync(join(ROOT, ENGINE_LUA), lua);
writeFileSync(join(ROOT, `${ENGINE_LUA}.map`), map);
