import { expect, test } from 'vitest';
import type { AdmissionResult, Admitted } from '../../src/admit/verdict.ts';
import type { Amounts } from '../../src/engine/types.ts';
import { Payment } from '../../src/gateway/payment.ts';
import type { ProxyResult } from '../../src/gateway/proxy-request.ts';
import type { Head } from '../../src/http1/request-head.ts';
import type { Charge } from '../../src/meter/charge.ts';

const CALLER = { id: 'key_1', shareId: 'customer_1' };
const CHARGES: readonly Charge[] = [
  { unit: 'tokens', reserve: { kind: 'fixed', amount: 300 }, sources: [], refund: ['5xx'] } as unknown as Charge,
];
const HEAD = { body: 'none' } as Head;
const VERDICT = { kind: 'admitted', allowance: {}, cost: 1 } as Admitted;
const WATCHED = { kind: 'admitted', allowance: { shadow: { inUnits: ['tokens'] } }, cost: 2 } as unknown as Admitted;

/** A payment with what it tells the store: each settlement, and each request that is counted in the shadow. */
function payment(
  charges: readonly Charge[] | null,
  watched: Promise<AdmissionResult> = Promise.resolve({} as AdmissionResult),
) {
  const settled: [id: string, amount: number][] = [];
  const asked: [id: string, amounts: Amounts | undefined][] = [];
  const admitter = {
    settle: (id: string, _verdict: Admitted, used: readonly { readonly settled: number }[]) =>
      settled.push([id, used[0]!.settled]),
    settleWatched: (id: string, _verdict: unknown, _amounts: Amounts, used: readonly { readonly settled: number }[]) =>
      settled.push([`${id} watched`, used[0]!.settled]),
    admit: (id: string, _shadow: unknown, _cost: number, _waitedMs: number, amounts: Amounts | undefined) => {
      asked.push([id, amounts]);
      return watched;
    },
  };
  const deps = { admitter, monotonicMs: () => 0, decoders: {}, thread: {} };
  return {
    of: new Payment(deps as unknown as ConstructorParameters<typeof Payment>[0], CALLER, HEAD, charges),
    settled,
    asked,
  };
}

const whole = { kind: 'answered' } as ProxyResult;
const failed = { kind: 'failed', fault: { code: 'upstream_timeout' } } as unknown as ProxyResult;
const tooSlow = { kind: 'failed', fault: { code: 'request_timeout' } } as unknown as ProxyResult;

test.each<[string, (one: Payment) => void, status: number, paid: number | null]>([
  ['is refused by the store', () => {}, 429, null],
  ['was admitted and never sent', (one) => one.taken(VERDICT, false), 503, 0],
  ['was answered whole', (one) => sent(one, whole), 200, 300],
  ['got a status that is refunded', (one) => sent(one, failed), 504, 0],
  ['broke its own body, whatever is refunded', (one) => sent(one, tooSlow), 500, 300],
  ['was answered by its route', replied, 200, 300],
])('a request that %s pays its part once', (_, happens, status, paid) => {
  const { of: one, settled } = payment(CHARGES);
  one.reserve(null);
  expect(one.amounts).toEqual({ tokens: 300 });
  happens(one);
  expect(one.end(status, 1, null)).toBeNull();
  expect(settled).toEqual(paid === null ? [] : [['key_1', paid]]);
  expect(one.units?.[0]?.settled ?? null).toBe(paid);
});

function replied(one: Payment): void {
  one.taken(VERDICT, false);
  one.replied();
}

function sent(one: Payment, result: ProxyResult): void {
  one.taken(VERDICT, false);
  one.metering?.sent(0);
  one.forwarded(result);
}

test('a request that ended while the store was asked gets its reserve back at once, and pays nothing', () => {
  const { of: one, settled } = payment(CHARGES);
  one.reserve(null);
  expect(one.end(499, 1, null)).toBeNull();
  one.taken(VERDICT, true);
  expect([settled, one.units, one.metering]).toEqual([[['key_1', 0]], null, null]);
});

test('limits that are only watched are settled with what was paid, and only their verdict is waited for', async () => {
  const verdict = { kind: 'refused', binding: { name: 'tokens-minute' } };
  const { promise, resolve } = Promise.withResolvers<AdmissionResult>();
  const { of: one, settled, asked } = payment(CHARGES, promise);
  one.reserve(null);
  one.taken(VERDICT, false);
  one.metering?.sent(0);
  one.watch(WATCHED);
  one.forwarded(whole);
  const known = one.end(200, 1, null);
  expect(settled).toEqual([['key_1', 300]]);
  resolve({ kind: 'decided', verdict, source: 'store' } as unknown as AdmissionResult);
  await known;
  const [[id, amounts]] = asked as [[string, Amounts]];
  expect(amounts).toEqual({ tokens: 300 });
  expect(settled).toEqual([
    ['key_1', 300],
    [`${id} watched`, 300],
  ]);
  expect(one.shadow).toEqual({ judgement: 'refused', window: 'tokens-minute' });
});
