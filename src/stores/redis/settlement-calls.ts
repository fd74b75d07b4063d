import { historyBehind } from '../../admit/account-id.ts';
import { NothingDone, type Settlement, type SettlementOutcome } from '../../admit/ledger.ts';
import type { RedisClient } from './connection.ts';
import { gatewayClock, storedLimits } from './decision-call.ts';
import { ENGINE_LUA } from './engine-lua.ts';
import { keyspace } from './keyspace.ts';
import { LuaScript } from './lua-script.ts';
import type { Calls } from './shards.ts';
import type { StoredSettlement } from './shell/settlement-script.ts';
import { windowFields } from './shell/window-fields.ts';
import { holdWrites } from './string-values.ts';

/** Exported for its test. */
export const SETTLE = new LuaScript<number | string>(`${ENGINE_LUA}return settlement_script()\n`);

/** Calls of the script that settles (shell/settlement-script.ts describes its arguments): one for each settlement, never sent twice. */
export class SettlementCalls {
  readonly #redis: RedisClient;
  readonly #circuit: Calls;
  readonly #wallMs: (() => number) | undefined;
  readonly #storeNowMs: () => number;

  /**
   * @param wallMs the gateway's own clock, Unix milliseconds; left out: histories follow the store's clock unconditionally
   * @param storeNowMs the store's clock, by which this class chooses the periods of calendar windows
   */
  constructor(redis: RedisClient, circuit: Calls, wallMs: (() => number) | undefined, storeNowMs: () => number) {
    this.#redis = redis;
    this.#circuit = circuit;
    this.#wallMs = wallMs;
    this.#storeNowMs = storeNowMs;
  }

  /**
   * As `SettlementSink.settle`. Sends all in one socket write for each connection, together with a decision that the caller asks for in
   * the same turn: a write costs as much as ten settlements.
   */
  settle(settlements: readonly Settlement[]): Promise<readonly SettlementOutcome[]> {
    const held = holdWrites(this.#redis);
    const calls = settlements.map((one) => this.#settleOne(one));
    queueMicrotask(held.release);
    return Promise.all(calls);
  }

  async #settleOne(settlement: Settlement): Promise<SettlementOutcome> {
    const { accountId, histories, isRecorded } = settlement;
    const behind = isRecorded ? [accountId, ...histories].map(historyBehind) : [];
    const keys = [keyspace.account(accountId), ...[...histories, ...behind].map(keyspace.history)];
    const settled = settlementOf(settlement, this.#storeNowMs());
    const clock = histories.length === 0 ? [] : gatewayClock(this.#wallMs);
    try {
      const reply = await this.#circuit.run(() => SETTLE.run(this.#redis, keys, settled, ...clock), keys[0]);
      return reply === 0 ? 'settled' : 'lost';
    } catch (error) {
      return error instanceof NothingDone ? 'unsent' : 'lost';
    }
  }
}

/** The argument of the script. Exported for a test. */
export function settlementOf(
  { delta, hour, isRecorded, windows }: Pick<Settlement, 'delta' | 'hour' | 'isRecorded' | 'windows'>,
  nowMs: number,
): string {
  const limits = windows.map(({ of }) => of);
  const settlement: StoredSettlement = {
    ...{
      delta,
      hour,
      isRecorded,
      fields: windowFields(limits.map(({ window }) => window)),
      limits: storedLimits(limits, nowMs),
    },
    places: windows.map(({ placeMs }) => placeMs),
  };
  return JSON.stringify(settlement);
}
