import { type DeferredUsage, NothingDone, type ReconciledUsage, type UsageReconciler } from '../../admit/ledger.ts';
import { WINDOWS } from '../../model/values.ts';
import type { CircuitOptions } from './circuit.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { gatewayClock, HISTORY_LUA, WINDOWS_LUA } from './decision-call.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript, luaFile } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';

/** Exported for its test. */
export const RECONCILE = new LuaScript<number[] | string>(WINDOWS_LUA + HISTORY_LUA + luaFile('./reconcile-usage.lua'));

/**
 * Adds to Redis the usage that this gateway admitted while Redis was away: one script call per consumer, never sent twice.
 */
export class RedisUsageReconciler implements UsageReconciler {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #wallMs: (() => number) | undefined;

  /** @param wallMs the gateway's own clock; left out: histories follow the store's clock unconditionally */
  constructor({ redis, circuit, wallMs }: StoreConnection & { readonly wallMs?: () => number }) {
    this.#wallMs = wallMs;
    this.#redis = redis;
    this.#circuit = circuit;
  }

  reconcile(deferred: readonly DeferredUsage[]): Promise<readonly ReconciledUsage[]> {
    return Promise.all(deferred.map((usage) => this.#reconcileOne(usage)));
  }

  async #reconcileOne({ consumerId, windows, hours, ownNowMs }: DeferredUsage): Promise<ReconciledUsage> {
    const [key, history] = [keyspace.account(consumerId), keyspace.history(consumerId)];
    const args = windows.flatMap(({ window, slices = 0, calendar, spent, endsAtMs }) => {
      return [WINDOWS.indexOf(window) + 1, slices, calendar === undefined ? 0 : 1, spent, endsAtMs];
    });
    try {
      const all = [ownNowMs ?? 0, windows.length, ...args, ...[...(hours ?? [])].flat(), ...gatewayClock(this.#wallMs)];
      const reply = await this.#circuit.run(() => RECONCILE.run(this.#redis, [key, history], ...all), key);
      // The hash holds values that Tollgate did not write, so nothing was added.
      if (typeof reply === 'string') return { kind: 'lost' };
      return { kind: 'added', added: windows.filter((_, i) => reply[i] === 1).map(({ window }) => window) };
    } catch (error) {
      return { kind: error instanceof NothingDone ? 'refused' : 'lost' };
    }
  }
}

/** Exported for its test. */
export const TRIAL = new LuaScript(`return redis.call('SET', KEYS[1], 1, 'PX', ARGV[1])`);
const TRIAL_TTL_MS = 1_000;

/**
 * The test of a server that may be back: it must run a script that writes. In a cluster one key tests only one node, so the probe
 * alone decides there.
 */
export function trialOn(redis: RedisClient): Pick<CircuitOptions, 'trial'> {
  if (redis instanceof ClusterClient) return {};
  return { trial: () => TRIAL.run(redis, [keyspace.trial], TRIAL_TTL_MS) };
}
