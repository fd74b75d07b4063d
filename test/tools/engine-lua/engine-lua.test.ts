import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { DECIDE_LUA } from '../../../src/stores/redis/decision-call.ts';
import { withSource } from '../../../src/stores/redis/engine-lua.ts';
import { engineScripts, ROOT } from '../../../tools/engine-lua/generated-scripts.ts';
import { testRedis } from '../../support/redis.ts';
import { ROOM } from '../../support/room.ts';

const textOf = (path: string) => readFileSync(join(ROOT, path), 'utf8');

test(
  'engine.lua, changes.lua, refusals.lua and their maps are what the sources give (if this fails: npm run engine:lua)',
  () => {
    for (const { path, lua, map } of engineScripts()) {
      expect(textOf(path)).toBe(lua);
      expect(textOf(`${path}.map`)).toBe(map);
    }
  },
  60_000 * ROOM,
);

test('the script of decisions that Redis gets has at most 62 kB', () => {
  expect(DECIDE_LUA.length).toBeLessThan(62_000);
});

test('an error in the script names the line of TypeScript (reliability 490)', async () => {
  const redis = new Redis((await testRedis()).url);
  const error = (await redis.eval(DECIDE_LUA, 0, '[]', '{}').catch((one: Error) => one)) as Error;
  redis.disconnect();
  const message = withSource(error.message, DECIDE_LUA);
  const [, path, line] = /(src\/[\w./-]+\.ts):(\d+) \(line \d+ of the script\)/.exec(message)!;
  expect(path).toBe('src/stores/redis/shell/decision-script.ts');
  expect(textOf(path!).split('\n')[Number(line) - 1]).toContain('of rule.budgets');
});

test('other messages stay as they are', () => {
  const message = 'ERR user_script:1: in a part that was written as Lua';
  expect(withSource(message, DECIDE_LUA)).toBe(message);
  expect(withSource(message, 'return 1')).toBe(message);
  expect(withSource('NOSCRIPT No matching script.', DECIDE_LUA)).toBe('NOSCRIPT No matching script.');
});
