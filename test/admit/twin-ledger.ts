import type { Redis } from 'ioredis';
import { expect } from 'vitest';
import { Circuit } from '../../src/stores/redis/circuit.ts';
import { DECIDE_LUA } from '../../src/stores/redis/decision-call.ts';
import { DurableWrites } from '../../src/stores/redis/durable-writes.ts';
import { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { LuaScript } from '../../src/stores/redis/lua-script.ts';
import { USAGE_CHANGES } from '../../src/stores/redis/usage-change-scripts.ts';

/*
 * A ledger whose scripts read the test's clock, so that a test can compare them with their twins in TypeScript.
 */

/** Far in the future: Redis expires keys by its own clock, not by the one that the test moves. */
export const T0 = 4_000_000_000_000;
const CLOCK_LINE = /local time=redis\.call\(['"]TIME['"]\)/;
const CLOCK = 'tg:test:clock';

/** A script with its one line that reads the clock replaced by one that reads the test's. */
export function withClock(lua: string): string {
  expect(lua.split(CLOCK_LINE)).toHaveLength(2);
  return lua.replace(
    CLOCK_LINE,
    `local ms = redis.call('GET', '${CLOCK}')\nlocal time = { math.floor(ms / 1000), ms % 1000 * 1000 }`,
  );
}

/** Sets the clock for what is sent on the same connection from then on. */
export function setClock(redis: Redis, nowMs: number): void {
  void redis.set(CLOCK, nowMs);
}

export function twinLedger(redis: Redis): RedisLedger {
  return new RedisLedger({
    redis,
    circuit: new Circuit({ timeoutMs: 5_000, failures: 3, probeEveryMs: 100, probe: () => redis.ping() }),
    publish: async () => {},
    writes: new DurableWrites({ redis, replicas: 0, timeoutMs: 1_000 }),
    decideLua: withClock(DECIDE_LUA),
    usageChanges: {
      topUp: new LuaScript(withClock(USAGE_CHANGES.topUp.lua)),
      undoTopUp: new LuaScript(withClock(USAGE_CHANGES.undoTopUp.lua)),
      reset: new LuaScript(withClock(USAGE_CHANGES.reset.lua)),
    },
  });
}
