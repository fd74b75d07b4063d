import { readFileSync } from 'node:fs';
import { type Debt, NothingDone, type Returned, type Returns } from '../../admit/ledger.ts';
import { WINDOWS } from '../../admit/plan.ts';
import type { CircuitOptions } from './circuit.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import type { Calls } from './shards.ts';

/** Exported for its test. */
export const GIVE_BACK_LUA = readFileSync(new URL('./give-back.lua', import.meta.url), 'utf8');

interface Scripted {
  tollgateGiveBack(key: string, ...args: number[]): Promise<number[] | string>;
}

/** Brings to Redis what this gateway admitted without it: one script call for each consumer, each sent once. */
export class RedisReturns implements Returns {
  readonly #redis: RedisClient & Scripted;
  readonly #circuit: Calls;

  constructor({ redis, circuit }: { readonly redis: RedisClient; readonly circuit: Calls }) {
    redis.defineCommand('tollgateGiveBack', { lua: GIVE_BACK_LUA, numberOfKeys: 1 });
    this.#redis = redis as RedisClient & Scripted;
    this.#circuit = circuit;
  }

  giveBack(debts: readonly Debt[]): Promise<readonly Returned[]> {
    return Promise.all(debts.map((debt) => this.#bring(debt)));
  }

  async #bring({ consumerId, windows, ownNowMs }: Debt): Promise<Returned> {
    const key = keyspace.account(consumerId);
    const args = windows.flatMap(({ window, lengthMs, spent, endsAtMs }) => {
      return [WINDOWS.indexOf(window) + 1, lengthMs, spent, endsAtMs];
    });
    try {
      const reply = await this.#circuit.run(() => this.#redis.tollgateGiveBack(key, ownNowMs ?? 0, ...args), key);
      // Something foreign in its place: there is nothing that could be added to.
      if (typeof reply === 'string') return { kind: 'lost' };
      return { kind: 'added', added: windows.filter((_, i) => reply[i] === 1).map(({ window }) => window) };
    } catch (error) {
      return { kind: error instanceof NothingDone ? 'refused' : 'lost' };
    }
  }
}

const TRIAL_LUA = `return redis.call('SET', KEYS[1], 1, 'PX', ARGV[1])`;
const TRIAL_LIVES_MS = 1_000;

interface Tried {
  tollgateTrial(key: string, livesMs: number): Promise<unknown>;
}

/**
 * What a server must be able to do before it counts as back: run a script that writes. In a cluster a name lies on one
 * node and says nothing about the others, so there the probe alone decides.
 */
export function trialOn(redis: RedisClient): Pick<CircuitOptions, 'trial'> {
  if (redis instanceof ClusterClient) return {};
  redis.defineCommand('tollgateTrial', { lua: TRIAL_LUA, numberOfKeys: 1 });
  return { trial: () => (redis as RedisClient & Tried).tollgateTrial(keyspace.trial, TRIAL_LIVES_MS) };
}
