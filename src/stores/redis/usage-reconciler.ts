import { type DeferredUsage, NothingDone, type ReconciledUsage, type UsageReconciler } from '../../admit/ledger.ts';
import type { CircuitOptions } from './circuit.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { gatewayClock } from './decision-call.ts';
import { CHANGES_LUA } from './engine-lua.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls, StoreConnection } from './shards.ts';
import type { StoredUsage } from './shell/reconcile-script.ts';

/** Exported for its test. */
export const RECONCILE = new LuaScript<number[] | string>(`${CHANGES_LUA}return reconcile_script()\n`);

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
    const usage: StoredUsage = {
      ownNowMs: ownNowMs ?? 0,
      windows: windows.map(({ window, slices, calendar, spent, endsAtMs }) => {
        return { window, slices, isCalendar: calendar !== undefined, spent, endsAtMs };
      }),
      hours: [...(hours ?? [])],
    };
    const args = [JSON.stringify(usage), ...gatewayClock(this.#wallMs)];
    try {
      const reply = await this.#circuit.run(() => RECONCILE.run(this.#redis, [key, history], ...args), key);
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
