import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { Admitter } from '../../src/admit/admit.ts';
import { decide } from '../../src/admit/decision.ts';
import { type DecisionRequest, type Ledger, NothingDone } from '../../src/admit/ledger.ts';
import type { AdmissionResult } from '../../src/admit/verdict.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState, Decision } from '../../src/engine/types.ts';
import { allowance } from '../support/allowance.ts';
import { holdTime } from '../support/hold-time.ts';

const TIMEOUT_MS = 100;
const plans = [allowance({ minute: 30 }), allowance({ minute: 40 })];

/** A store that answers when it is told to, and then tells what came of the call. */
class SlowLedger implements Pick<Ledger, 'decide'> {
  readonly open: { asks: readonly DecisionRequest[]; end: (how: 'answered' | 'lost' | 'undone') => void }[] = [];
  readonly counted = new Map<string, number>();
  readonly #accounts = new Map<string, AccountState>();

  decide(asks: readonly DecisionRequest[]): Promise<readonly Decision[]> {
    const busy = new Set(this.open.flatMap((call) => call.asks.map(({ consumerId }) => consumerId)));
    expect(asks.filter(({ consumerId }) => busy.has(consumerId))).toEqual([]);
    return new Promise((resolve, reject) => {
      const end = (how: 'answered' | 'lost' | 'undone') => {
        if (how === 'undone') reject(new NothingDone('away'));
        else if (how === 'lost') reject(new Error('late'));
        else resolve(asks.map((ask) => this.#count(ask)));
      };
      this.open.push({ asks, end });
    });
  }

  #count({ consumerId, allowance, cost, n }: DecisionRequest): Decision {
    const decision = decide([this.#accounts.get(consumerId) ?? UNSEEN], allowance, 1_800_000_000_000, cost, n);
    this.#accounts.set(consumerId, decision.accounts[0]);
    this.counted.set(consumerId, (this.counted.get(consumerId) ?? 0) + decision.admitted * cost);
    return decision;
  }
}

const step = fc.oneof(
  fc.record({
    kind: fc.constant('ask' as const),
    consumerId: fc.constantFrom('a', 'a', 'a', 'b'),
    plan: fc.constantFrom(0, 0, 0, 0, 1),
    cost: fc.constantFrom(1, 1, 1, 1, 2),
    waitedMs: fc.constantFrom(0, 0, 0, 60, 60, 100),
  }),
  fc.record({ kind: fc.constant('pass' as const), ms: fc.constantFrom(0, 40, 60, 100) }),
  fc.constant({ kind: 'turn' as const }),
  fc.record({
    kind: fc.constant('end' as const),
    pick: fc.nat(3),
    how: fc.constantFrom('answered' as const, 'answered' as const, 'lost' as const, 'undone' as const),
  }),
);

test('whatever happens to calls and time, each request is answered once, and what the store admitted is what it counted', async () => {
  const pass = holdTime();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 80 }), async (steps) => {
      const ledger = new SlowLedger();
      const admitter = new Admitter({
        ledger: ledger as unknown as Ledger,
        onFailure: 'closed',
        timeoutMs: TIMEOUT_MS,
        monotonicMs: () => performance.now(),
        wallMs: () => 1_800_000_000_000,
        remembered: 100,
      });
      const answers: { consumerId: string; cost: number; told: AdmissionResult[] }[] = [];
      const end = (at: number, how: 'answered' | 'lost' | 'undone') => ledger.open.splice(at, 1)[0]!.end(how);
      for (const one of steps) {
        if (one.kind === 'ask') {
          const { consumerId, cost } = one;
          const told: AdmissionResult[] = [];
          answers.push({ consumerId, cost, told });
          const asker = { onResult: (result: AdmissionResult) => void told.push(result) };
          const atOnce = admitter.ask(consumerId, plans[one.plan]!, cost, one.waitedMs, asker);
          if (atOnce !== null) told.push(atOnce);
        } else if (one.kind === 'pass') await pass(one.ms);
        else if (one.kind === 'turn') await new Promise(setImmediate);
        else if (ledger.open.length > 0) end(one.pick % ledger.open.length, one.how);
      }
      while (answers.some(({ told }) => told.length === 0)) {
        await pass(0);
        if (ledger.open.length === 0 && vi.getTimerCount() === 0) break;
        if (ledger.open.length > 0) end(0, 'answered');
      }
      await pass(2 * TIMEOUT_MS);
      expect(answers.filter(({ told }) => told.length !== 1)).toEqual([]);
      for (const [consumerId, counted] of ledger.counted) {
        const told = answers.filter((it) => it.consumerId === consumerId && isAdmittedByStore(it.told[0]!));
        // What was given up meanwhile was counted and not told.
        expect(told.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(counted);
      }
    }),
    { numRuns: 3_000 },
  );
});

function isAdmittedByStore(result: AdmissionResult): boolean {
  return result.kind === 'decided' && result.source === 'store' && result.verdict.kind === 'admitted';
}
