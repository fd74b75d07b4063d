import { resetUsage, toppedUp, undoTopUp } from '../../src/admit/account-changes.ts';
import { accountIdsOf } from '../../src/admit/account-id.ts';
import type { Allowance } from '../../src/admit/allowance.ts';
import { accountsAfter, decide } from '../../src/admit/decision.ts';
import type { RecallFeed } from '../../src/admit/leases.ts';
import {
  type BanInForce,
  type DecisionRequest,
  DURABLE,
  type Durability,
  type Ledger,
  type MadeOnce,
  type Settlement,
  type SettlementOutcome,
} from '../../src/admit/ledger.ts';
import type { WindowLimit } from '../../src/admit/windows.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import { carryBan, lift } from '../../src/engine/operator-changes.ts';
import type { AccountState, Decision } from '../../src/engine/types.ts';
import { Failure } from '../../src/failure.ts';
import type { TopUp, TopUpNote } from '../../src/model/account.ts';
import type { WindowName } from '../../src/model/values.ts';

/**
 * A store whose clock, ways and failures a test decides about. It tells whole milliseconds of a clock that has fractions, as
 * Redis does, and keeps every call it was sent.
 */
export class FakeLedger implements Ledger {
  readonly calls: (readonly DecisionRequest[])[] = [];
  /** What it has lent. */
  readonly lent: { readonly units: number; readonly forMs: number }[] = [];
  /** Unix milliseconds, with fractions. */
  nowMs = 1_800_000_000_000;
  away = false;
  /** Awaited before a call is decided, and before its answer is given back. */
  onTheWay: () => Promise<void> | void = () => {};
  /** Awaited before a lease is returned without a decision. */
  onReturn: () => Promise<void> | void = () => {};
  readonly #accounts = new Map<string, AccountState>();
  #losesReturns = false;
  #recalls: ((accountId: string) => void)[] = [];
  readonly recalls: RecallFeed = { isHeard: true, subscribe: (listener) => void this.#recalls.push(listener) };

  /** Nobody hears what is called back, and nothing that was lent returns: as after a kill. */
  stopsHearing(): void {
    this.#recalls = [];
    this.#losesReturns = true;
  }

  async reportInFlight(): Promise<void> {}

  async settle(settlements: readonly Settlement[]): Promise<readonly SettlementOutcome[]> {
    return settlements.map(() => 'settled');
  }

  async decide(asks: readonly DecisionRequest[]): Promise<readonly (Decision | null)[]> {
    this.calls.push(asks);
    if (this.#losesReturns && asks.every(({ n }) => n === 0)) throw new Failure('store_unavailable', 'lost');
    if (asks.every(({ n }) => n === 0)) await this.onReturn();
    await this.onTheWay();
    if (this.away) throw new Failure('store_unavailable', 'away');
    const decisions = asks.map(({ consumerId, allowance, cost, n, amounts, leaseTerms }) => {
      const nowMs = Math.floor(this.nowMs);
      const ids = accountIdsOf(consumerId, allowance);
      const before = ids.map((id) => this.#of(id));
      const decision = decide(before, allowance, nowMs, cost, n, [], amounts, leaseTerms);
      const after = accountsAfter(before, decision, allowance);
      for (const [i, id] of ids.entries()) this.#accounts.set(id, after[i]!);
      if (decision.lent !== undefined) this.lent.push(decision.lent);
      if (decision.waitMs !== undefined) for (const listener of this.#recalls) listener(consumerId);
      return decision;
    });
    await this.onTheWay();
    return decisions;
  }

  async present(consumerId: string, allowance: Allowance): Promise<Decision> {
    const before = accountIdsOf(consumerId, allowance).map((id) => this.#of(id));
    return decide(before, allowance, Math.floor(this.nowMs), 1, 0);
  }

  async lift(consumerId: string): Promise<Durability | null> {
    const before = this.#of(consumerId);
    this.#accounts.set(consumerId, lift(before, this.nowMs));
    return this.#of(consumerId) !== before ? DURABLE : null;
  }

  async topUp(consumerId: string, of: WindowLimit, amount: number): Promise<MadeOnce<TopUp>> {
    const { state, topUp } = toppedUp(this.#of(consumerId), of, amount, Math.floor(this.nowMs));
    this.#accounts.set(consumerId, state);
    return { kind: 'made', value: topUp, durability: DURABLE };
  }

  async undoTopUp(consumerId: string, window: WindowName, topUpId: string | null) {
    const { state, undone } = undoTopUp(this.#of(consumerId), window, topUpId, Math.floor(this.nowMs));
    this.#accounts.set(consumerId, state);
    return { kind: 'made', value: undone, durability: DURABLE } as const;
  }

  async topUpNotes(consumerId: string): Promise<readonly TopUpNote[]> {
    return this.#of(consumerId).topUpNotes ?? [];
  }

  async resetUsage(consumerId: string, windows: readonly WindowName[]) {
    const { state, reset } = resetUsage(this.#of(consumerId), windows, this.nowMs);
    this.#accounts.set(consumerId, state);
    return { kind: 'made', value: reset, durability: DURABLE } as const;
  }

  placeOf(consumerId: string): string {
    return consumerId;
  }

  async carryBan(fromAccountId: string, toAccountId: string): Promise<void> {
    const { ban } = this.#of(fromAccountId);
    if (ban !== undefined) this.#accounts.set(toAccountId, carryBan(this.#of(toAccountId), ban, this.nowMs));
  }

  async forget(consumerId: string): Promise<void> {
    this.#accounts.delete(consumerId);
  }

  async bans(): Promise<readonly BanInForce[]> {
    return [...this.#accounts].flatMap(([consumerId, { ban }]) =>
      ban !== undefined && this.nowMs < ban.untilMs ? [{ consumerId, ban }] : [],
    );
  }

  #of(consumerId: string): AccountState {
    return this.#accounts.get(consumerId) ?? UNSEEN;
  }
}
