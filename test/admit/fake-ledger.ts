import { banned, resetUsage, toppedUp } from '../../src/admit/account-changes.ts';
import { type AccountState, decide, lift, type Outcome, UNSEEN } from '../../src/admit/decide.ts';
import {
  type BanInForce,
  type DecisionRequest,
  DURABLE,
  type Durability,
  type Ledger,
  type MadeOnce,
  type SettlementOutcome,
  type UnitSettlement,
} from '../../src/admit/ledger.ts';
import type { Allowance } from '../../src/admit/plan.ts';
import type { TopUp, WindowLimit, WindowName } from '../../src/admit/windows.ts';
import { Failure } from '../../src/failure.ts';

/**
 * A store whose clock, ways and failures a test decides about. It tells whole milliseconds of a clock that has fractions, as
 * Redis does, and keeps every call it was sent.
 */
export class FakeLedger implements Ledger {
  readonly calls: (readonly DecisionRequest[])[] = [];
  /** Unix milliseconds, with fractions. */
  nowMs = 1_800_000_000_000;
  away = false;
  /** Awaited before a call is decided, and before its answer is given back. */
  onTheWay: () => Promise<void> | void = () => {};
  readonly #accounts = new Map<string, AccountState>();

  async reportInFlight(): Promise<void> {}

  async settle(settlements: readonly UnitSettlement[]): Promise<readonly SettlementOutcome[]> {
    return settlements.map(() => 'settled');
  }

  async decide(asks: readonly DecisionRequest[]): Promise<readonly (Outcome | null)[]> {
    this.calls.push(asks);
    await this.onTheWay();
    if (this.away) throw new Failure('store_unavailable', 'away');
    const outcomes = asks.map(({ consumerId, allowance, cost, n, amounts }) => {
      const outcome = decide(this.#of(consumerId), allowance, Math.floor(this.nowMs), cost, n, [], amounts);
      this.#accounts.set(consumerId, outcome.state);
      return outcome;
    });
    await this.onTheWay();
    return outcomes;
  }

  async present(consumerId: string, allowance: Allowance): Promise<Outcome> {
    return decide(this.#of(consumerId), allowance, Math.floor(this.nowMs), 1, 0);
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

  async resetUsage(consumerId: string, windows: readonly WindowName[]) {
    const { state, reset } = resetUsage(this.#of(consumerId), windows, this.nowMs);
    this.#accounts.set(consumerId, state);
    return { kind: 'made', value: reset, durability: DURABLE } as const;
  }

  async carryBan(fromAccountId: string, toAccountId: string): Promise<void> {
    const { ban } = this.#of(fromAccountId);
    if (ban !== null) this.#accounts.set(toAccountId, banned(this.#of(toAccountId), ban, this.nowMs));
  }

  async forget(consumerId: string): Promise<void> {
    this.#accounts.delete(consumerId);
  }

  async bans(): Promise<readonly BanInForce[]> {
    return [...this.#accounts].flatMap(([consumerId, { ban }]) =>
      ban !== null && this.nowMs < ban.untilMs ? [{ consumerId, ban }] : [],
    );
  }

  #of(consumerId: string): AccountState {
    return this.#accounts.get(consumerId) ?? UNSEEN;
  }
}
