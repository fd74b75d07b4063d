import fc from 'fast-check';
import { expect, test } from 'vitest';
import { allowance } from '../support/allowance.ts';
import { admitterOn, kindOf, retryAfterOf } from './admitter.ts';
import { FakeLedger } from './fake-ledger.ts';

/** Milliseconds with fractions. */
const upTo = (ms: number) => fc.integer({ min: 0, max: ms * 1_000 }).map((microseconds) => microseconds / 1_000);
const delay = fc.oneof(fc.constantFrom(0, 0.1, 0.9, 1, 1.5), upTo(90));

const plans = [
  allowance({ minute: 2 }, null),
  allowance({ second: 1, minute: 3 }, null),
  allowance({ second: 2 }, { after: 2, firstMs: 7_300 }),
  allowance({ second: 3, minute: 5 }, { after: 3, firstMs: 1_000, factor: 1.5 }),
];

/** Several gateways on one store; every message takes its time, and time passes for all alike. */
function gateways(delays: readonly number[]) {
  const ledger = new FakeLedger();
  let sent = 0;
  const clocks: ((ms: number) => void)[] = [];
  const pass = (ms: number) => {
    ledger.nowMs += ms;
    for (const advance of clocks) advance(ms);
  };
  ledger.onTheWay = () => pass(delays[sent++ % delays.length]!);
  const nodes = [0, 1, 2].map(() => {
    const { admitter, pass: passBoth } = admitterOn(ledger);
    clocks.push((ms) => {
      passBoth(ms);
      ledger.nowMs -= ms;
    });
    return admitter;
  });
  /** From now on messages take no time, which leaves the client nothing but its waiting. */
  const hurry = () => {
    ledger.onTheWay = () => {};
  };
  return { nodes, pass, hurry };
}

test('whoever waits for Retry-After is admitted, whichever gateway told it and however late, and whichever is asked next', async () => {
  let waits = 0;
  let fromMemory = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...plans),
      fc.array(delay, { minLength: 1, maxLength: 8 }),
      fc.array(
        fc.record({
          node: fc.nat(2),
          n: fc.integer({ min: 1, max: 4 }),
          pauseMs: upTo(400),
        }),
        {
          minLength: 2,
          maxLength: 12,
        },
      ),
      fc.nat(2),
      async (plan, delays, steps, last) => {
        const { nodes, pass, hurry } = gateways(delays);
        let told: number | null = null;
        for (const { node, n, pauseMs } of steps) {
          pass(pauseMs);
          const admissions = await Promise.all(Array.from({ length: n }, () => nodes[node]!.admit('a', plan, 1)));
          const answer = admissions.at(-1)!;
          if (answer.kind === 'decided' && answer.source === 'memory') fromMemory++;
          told = retryAfterOf(answer);
        }
        if (told === null) return;
        waits++;
        hurry();
        pass(told * 1_000);
        expect(kindOf(await nodes[last]!.admit('a', plan, 1))).toBe('admitted');
      },
    ),
    { seed: 20260301, numRuns: 3_000 },
  );
  expect(waits).toBeGreaterThan(1_000);
  expect(fromMemory).toBeGreaterThan(1_000);
});

test('the fraction of a millisecond that the store does not tell is not held against the client', async () => {
  const { nodes, pass } = gateways([0]);
  const [asked, other] = nodes;
  const plan = allowance({ second: 1 }, null);
  // The window opens at the beginning of a millisecond, and the other gateway hears of it at that one's end.
  expect(kindOf(await asked!.admit('a', plan, 1))).toBe('admitted');
  const told = retryAfterOf(await asked!.admit('a', plan, 1))!;
  pass(0.9);
  expect(kindOf(await other!.admit('a', plan, 1))).toBe('refused');
  pass(told * 1_000 - 0.9);
  expect(kindOf(await other!.admit('a', plan, 1))).toBe('admitted');
});
