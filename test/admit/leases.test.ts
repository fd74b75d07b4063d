import { expect, test } from 'vitest';
import { Admitter } from '../../src/admit/admit.ts';
import { budgetOf } from '../../src/admit/allowance.ts';
import type { RecallFeed } from '../../src/admit/leases.ts';
import { NothingDone } from '../../src/admit/ledger.ts';
import type { AdmissionResult } from '../../src/admit/verdict.ts';
import { allowance, alsoCharging } from '../support/allowance.ts';
import { holdTime } from '../support/hold-time.ts';
import { kindOf } from './admitter.ts';
import { FakeLedger } from './fake-ledger.ts';

/** Gateways on one store, all on one clock that the test moves. */
function fleetOf(size: number, storeMs = 1_800_000_000_000) {
  const hold = holdTime();
  const ledger = new FakeLedger();
  ledger.nowMs = storeMs;
  const startedAtMs = performance.now();
  const gateways = Array.from({ length: size }, () => gatewayOn(ledger));
  /** Time passes for all, in small steps. */
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 5) {
      await hold(Math.min(left, 5));
      ledger.nowMs = storeMs + performance.now() - startedAtMs;
    }
  };
  return { ledger, gateways, pass, hold };
}

/** @param recalls null: leases are off */
function gatewayOn(ledger: FakeLedger, recalls: RecallFeed | null = ledger.recalls) {
  const admitter = new Admitter({
    ledger,
    recalls,
    onFailure: 'local',
    timeoutMs: 5_000,
    monotonicMs: () => performance.now(),
    wallMs: () => ledger.nowMs,
    remembered: 1_000,
  });
  return {
    admitter,
    send: (plan = PLAN, n = 1, cost = 1) =>
      Promise.all(Array.from({ length: n }, () => admitter.admit('a', plan, cost))),
  };
}

const PLAN = allowance({ minute: 1_000 }, { after: 3 });
const OF_CUSTOMER = alsoCharging(PLAN, [budgetOf({ ...PLAN.budgets[0], scope: 'customer' })]);
const SAME_BUT_RELOADED = allowance({ minute: 1_000 }, { after: 3 });

const sourceOf = (result: AdmissionResult | undefined) => (result?.kind === 'decided' ? result.source : null);
const remainingOf = (result: AdmissionResult) =>
  result.kind === 'decided' ? result.verdict.binding?.remaining : undefined;
const usedIn = async (ledger: FakeLedger) => (await ledger.present('a', PLAN)).accounts[0].windows.minute?.used;

test('a busy consumer costs few calls, and is told what it would be told without leases', async () => {
  const { gateways, ledger, pass } = fleetOf(1);
  const [gateway] = gateways;
  const remaining: (number | undefined)[] = [];
  for (let i = 0; i < 100; i++) {
    for (const result of await gateway!.send(PLAN, 2)) remaining.push(remainingOf(result));
    await pass(5);
  }
  expect(remaining).toEqual(Array.from({ length: 200 }, (_, i) => 999 - i));
  expect(ledger.calls.length).toBeLessThan(20);
});

test.each([
  ['three', 333, 5],
  ['fourteen', 71, 9],
])('a consumer with %s requests a second costs a call for several', async (_pace, everyMs, least) => {
  const { gateways, ledger, pass } = fleetOf(1);
  const remaining: unknown[] = [];
  for (let i = 0; i < 60; i++) {
    for (const result of await gateways[0]!.send()) remaining.push(remainingOf(result));
    await pass(everyMs);
  }
  expect(remaining).toEqual(Array.from({ length: 60 }, (_, i) => 999 - i));
  // The first calls have to learn the pace.
  expect(ledger.calls.length).toBeLessThanOrEqual(3 + 60 / least);
});

test('of a limit that is close, nothing is lent for longer than a quarter of a second', async () => {
  const { gateways, ledger, pass } = fleetOf(1);
  const plan = allowance({ minute: 300 });
  for (let i = 0; i < 20; i++) {
    await gateways[0]!.send(plan);
    await pass(71);
  }
  expect(ledger.lent.length).toBeGreaterThan(0);
  expect(Math.max(...ledger.lent.map(({ forMs }) => forMs))).toBe(250);
});

test('a consumer below two requests a second borrows nothing', async () => {
  const { gateways, ledger, pass } = fleetOf(1);
  for (let i = 0; i < 40; i++) {
    const [result] = await gateways[0]!.send();
    expect(sourceOf(result)).toBe('store');
    await pass(510);
  }
  expect(ledger.calls).toHaveLength(40);
  expect(ledger.calls.flat().some(({ leaseTerms }) => leaseTerms !== undefined)).toBe(false);
});

test('a consumer whose requests charge 15 sets of limits in turn costs no more calls than without leases (reliability 493)', async () => {
  const plans = Array.from({ length: 15 }, () => allowance({ minute: 100_000 }));
  const { gateways, ledger, pass } = fleetOf(1);
  for (let i = 0; i < 100; i++) {
    await gateways[0]!.send(plans[i % plans.length]);
    await pass(50);
  }
  await pass(2_000);
  expect(ledger.calls.length).toBeLessThanOrEqual(100);
});

test('the leases of many consumers do not all return in the moment in which the hour ends (reliability 494)', async () => {
  const { gateways, ledger, pass } = fleetOf(1, 1_800_003_598_500);
  const { admitter } = gateways[0]!;
  const ids = Array.from({ length: 64 }, (_, i) => `consumer-${i}`);
  await Promise.all(ids.flatMap((id) => Array.from({ length: 5 }, () => admitter.admit(id, PLAN, 1))));
  expect(ledger.lent).toHaveLength(64);
  let most = 0;
  for (let passedMs = 0; passedMs < 1_500; passedMs += 50) {
    const before = ledger.calls.length;
    await pass(50);
    most = Math.max(most, ledger.calls.length - before);
  }
  await pass(5);
  expect(ledger.calls.flat().filter(({ n }) => n === 0)).toHaveLength(64);
  expect(most).toBeLessThan(16);
});

/** A gateway with a lease of a second, of which nothing is used yet. */
async function withLease() {
  const fleet = fleetOf(2);
  const [one] = fleet.gateways;
  await one!.send(PLAN, 10);
  expect(await usedIn(fleet.ledger)).toBeGreaterThan(10);
  return { ...fleet, one: one!, other: fleet.gateways[1]! };
}

test('what is unused returns once, at the end of the lease', async () => {
  const { ledger, one, pass } = await withLease();
  expect(sourceOf((await one.send())[0])).toBe('lease');
  await pass(1_050);
  expect(await usedIn(ledger)).toBe(11);
  const returns = ledger.calls.flat().filter(({ leaseTerms }) => leaseTerms?.returned !== undefined);
  expect(returns.map(({ n }) => n)).toEqual([0]);
  await pass(5_000);
  expect(await usedIn(ledger)).toBe(11);
});

test('a lease whose answer was long on the way is used for as much less', async () => {
  const { gateways, ledger, pass } = fleetOf(1);
  let arrived = () => {};
  ledger.onTheWay = () => new Promise((resolve) => (arrived = resolve));
  const answers = gateways[0]!.send(PLAN, 10);
  await pass(5);
  arrived();
  await pass(200);
  ledger.onTheWay = () => {};
  arrived();
  await answers;
  expect(sourceOf((await gateways[0]!.send())[0])).toBe('lease');
  await pass(600);
  expect(sourceOf((await gateways[0]!.send())[0])).toBe('store');
});

test.each([
  ['of its account', 'a'],
  ['of its customer', 'cus_1'],
  ['of all accounts', null],
] as const)(
  'a lease that is on the way to the gateway during a recall %s returns at once',
  async (_what, accountId) => {
    const { gateways, ledger, pass } = fleetOf(1);
    const { admitter } = gateways[0]!;
    const [consumerId, plan] = accountId === 'cus_1' ? ['cus_1/a', OF_CUSTOMER] : ['a', PLAN];
    const send = () => Promise.all(Array.from({ length: 10 }, () => admitter.admit(consumerId, plan, 1)));
    const used = async () => (await ledger.present(consumerId, plan)).accounts[0].windows.minute?.used;
    let arrived = () => {};
    ledger.onTheWay = () => new Promise((resolve) => (arrived = resolve));
    const answers = send();
    await pass(5);
    arrived();
    await pass(5);
    expect(await used()).toBeGreaterThan(10);
    admitter.forget(accountId);
    ledger.onTheWay = () => {};
    arrived();
    await answers;
    await pass(5);
    expect(await used()).toBe(10);
  },
);

test('a recall of a customer ends the leases of its keys', async () => {
  const { gateways, ledger, pass } = fleetOf(1);
  const { admitter } = gateways[0]!;
  const plan = OF_CUSTOMER;
  await Promise.all(Array.from({ length: 10 }, () => admitter.admit('cus_1/a', plan, 1)));
  const used = async () => (await ledger.present('cus_1/a', plan)).accounts[0].windows.minute?.used;
  expect(await used()).toBeGreaterThan(10);
  admitter.forget('cus_1');
  await pass(5);
  expect(await used()).toBe(10);
});

test('a lease belongs to the allowance under which it was lent, and returns with the next notice of a change', async () => {
  const { ledger, one, pass } = await withLease();
  expect(sourceOf((await one.send(SAME_BUT_RELOADED))[0])).toBe('store');
  expect(sourceOf((await one.send())[0])).toBe('lease');
  one.admitter.forget();
  expect(sourceOf((await one.send())[0])).toBe('store');
  await pass(1_050);
  expect(await usedIn(ledger)).toBe(13);
});

test('what is lent returns before a count moves to another kind of window (reliability 488)', async () => {
  const { ledger, other, pass } = await withLease();
  const sliding = allowance({ minute: 1_000 }, { after: 3 }, { minute: { slices: 4 } });
  const asked = other.send(sliding);
  await pass(20);
  expect((await asked).map(kindOf)).toEqual(['admitted']);
  expect((await ledger.present('a', sliding)).accounts[0].windows.minute?.used).toBe(11);
});

test('nobody is refused while another gateway holds units, and the strikes begin only then', async () => {
  const { ledger, one, other, pass } = await withLease();
  const lent = (await usedIn(ledger))! - 10;
  const asked = other.send(PLAN, 1_000);
  await pass(50);
  const answers = await asked;
  expect(answers.filter((answer) => kindOf(answer) === 'admitted')).toHaveLength(990);
  expect(lent).toBeGreaterThanOrEqual(10);
  expect(kindOf((await one.send())[0]!)).toBe('banned');
  expect(await usedIn(ledger)).toBe(1_000);
  // The 990 that fit, then one refusal, another one, and the ban at the third.
  expect(answers.slice(990, 993).map(kindOf)).toEqual(['refused', 'refused', 'banned']);
});

test('the units of a killed gateway delay a refusal by the rest of its lease, and stay counted (reliability 303)', async () => {
  const { ledger, one, other, pass } = await withLease();
  ledger.stopsHearing();
  const admitted = 1_000 - (await usedIn(ledger))!;
  const asked = other.send(PLAN, admitted + 1);
  let isAnswered = false;
  void asked.then(() => (isAnswered = true));
  await pass(200);
  expect(isAnswered).toBe(false);
  await pass(200);
  expect((await asked).map(kindOf).filter((kind) => kind === 'admitted')).toHaveLength(admitted);
  expect(await usedIn(ledger)).toBe(1_000);
  expect(one).toBeDefined();
});

test('of requests that wait for units, at most a thousand do (reliability 304)', async () => {
  const { ledger, other, pass } = await withLease();
  ledger.stopsHearing();
  const room = 1_000 - (await usedIn(ledger))!;
  expect((await other.send(PLAN, room)).every((answer) => kindOf(answer) === 'admitted')).toBe(true);
  const waiting = other.send(PLAN, 1_000);
  await pass(10);
  const more = await other.send(PLAN, 1);
  expect(more.map(kindOf)).toEqual(['refused']);
  await pass(400);
  expect((await waiting).every((answer) => kindOf(answer) !== 'admitted')).toBe(true);
});

test('in an outage a lease is used to its end, and then the gateway decides alone', async () => {
  const { ledger, one, pass } = await withLease();
  ledger.away = true;
  expect(sourceOf((await one.send())[0])).toBe('lease');
  await pass(1_050);
  expect(sourceOf((await one.send())[0])).toBe('local');
});

test('a ban begins only when nothing lent is in use, however busy others are (reliability 305)', async () => {
  const { ledger, gateways, pass } = fleetOf(3);
  const plan = allowance({ minute: 1_000 }, { after: 1 });
  const [one, two, costly] = gateways;
  await costly!.send(plan, 1, 500);
  let bannedAtMs = Number.POSITIVE_INFINITY;
  let after = 0;
  let isOver = false;
  const load = [one!, two!].map(async (gateway) => {
    while (!isOver) {
      const askedAtMs = ledger.nowMs;
      const answers = await gateway.send(plan, 2);
      if (askedAtMs > bannedAtMs) after += answers.filter((answer) => kindOf(answer) === 'admitted').length;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  });
  await pass(50);
  const refused = costly!.send(plan, 1, 500);
  void refused.then(() => (bannedAtMs = ledger.nowMs));
  await pass(400);
  expect((await refused).map(kindOf)).toEqual(['banned']);
  await pass(300);
  isOver = true;
  await pass(20);
  await Promise.all(load);
  expect(after).toBe(0);
});

test('a request waits no longer because others come, and all of a consumer are answered (reliability 306)', async () => {
  const { ledger, gateways, pass } = fleetOf(1);
  const decided = ledger.decide.bind(ledger);
  // A store that is a little away, where others hold units at all times.
  ledger.decide = async (requests) => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    const decisions = await decided(requests.map((request) => ({ ...request, n: 0 })));
    return decisions.map((decision, i) => {
      const { n, leaseTerms } = requests[i]!;
      return { ...decision!, n, bannedFrom: n, ...(leaseTerms?.isFinal ? {} : { waitMs: 350 }) };
    });
  };
  const waited: number[] = [];
  for (let i = 0; i < 200; i++) {
    const askedAtMs = ledger.nowMs;
    void gateways[0]!.send().then(() => waited.push(ledger.nowMs - askedAtMs));
    await pass(5);
  }
  await pass(400);
  expect(waited).toHaveLength(200);
  expect(Math.max(...waited)).toBeLessThan(400);
});

test('what returns too late for those who waited is there for those who come then', async () => {
  const { ledger, gateways, pass } = fleetOf(2);
  const [one, other] = gateways;
  const plan = allowance({ minute: 1_000 }, null);
  let arrive = () => {};
  ledger.onReturn = () => new Promise((resolve) => (arrive = resolve));
  await one!.send(plan, 10);
  const asked = other!.send(plan, 1_000);
  await pass(400);
  expect((await asked).map(kindOf).filter((kind) => kind === 'refused').length).toBeGreaterThan(10);
  expect((await other!.send(plan)).map(kindOf)).toEqual(['refused']);
  arrive();
  await pass(5);
  expect((await other!.send(plan)).map(kindOf)).toEqual(['admitted']);
});

test('requests that are asked about together borrow once, and alone a gateway reports what is left', async () => {
  const { ledger, gateways, pass } = fleetOf(1);
  const [{ admitter }] = gateways as [(typeof gateways)[0]];
  // Each has waited for its key for another time, so that each is asked about by itself.
  const waits = Array.from({ length: 40 }, (_, i) => admitter.admit('a', PLAN, 1, 1 + i / 100));
  const answers = await Promise.all(waits);
  expect(ledger.calls.flat().filter(({ leaseTerms }) => leaseTerms?.borrows !== undefined)).toHaveLength(1);
  for (let i = 0; i < 10; i++) answers.push(...(await gateways[0]!.send()));
  const told = answers.map((answer) => remainingOf(answer) ?? 0).toSorted((a, b) => b - a);
  expect(told.filter((remaining, i) => remaining > 999 - i)).toEqual([]);
  await pass(1_050);
  expect(await usedIn(ledger)).toBe(50);
});

test('what a gateway reports as left is too high by no more than others have admitted in the last 250 ms (reliability 376)', async () => {
  const plan = allowance({ minute: 4_000 });
  const { gateways, pass } = fleetOf(2);
  const admitted: { readonly atMs: number; readonly by: number }[] = [];
  let tooHigh = 0;
  const send = async (by: number, n: number) => {
    for (const result of await gateways[by]!.send(plan, n)) {
      const atMs = performance.now();
      admitted.push({ atMs, by });
      const excess = remainingOf(result)! - (4_000 - admitted.length);
      const others = admitted.filter((other) => other.by !== by && other.atMs >= atMs - 250).length;
      expect(excess).toBeLessThanOrEqual(others);
      if (excess > 0) tooHigh++;
    }
  };
  // One has a steady pace, and bursts come to the other.
  for (let i = 0; i < 200; i++) {
    await send(0, 1);
    if (i % 80 >= 60) await send(1, 1 + (i % 7));
    await pass(5);
  }
  // Were it none, the contract could promise more.
  expect(tooHigh).toBeGreaterThan(0);
});

test('a gateway does not wait for what it has borrowed itself, for other requests of the caller', async () => {
  const { ledger, one, pass } = await withLease();
  const left = 1_000 - (await usedIn(ledger))!;
  const answers = one.send(SAME_BUT_RELOADED, left + 5);
  await pass(15);
  expect((await answers).every((answer) => kindOf(answer) === 'admitted')).toBe(true);
});

test('nothing is borrowed while notices of recalls cannot be heard', async () => {
  const { ledger, gateways } = fleetOf(1);
  Object.assign(ledger.recalls, { isHeard: false });
  await gateways[0]!.send(PLAN, 10);
  expect(await usedIn(ledger)).toBe(10);
});

test('what the store has certainly not got returns when it is back', async () => {
  const { ledger, pass } = await withLease();
  const { onReturn } = ledger;
  ledger.onReturn = () => {
    throw new NothingDone('away');
  };
  await pass(1_050);
  expect(await usedIn(ledger)).toBeGreaterThan(10);
  ledger.onReturn = onReturn;
  await pass(300);
  expect(await usedIn(ledger)).toBe(10);
});

test('a gateway that stops waits until the store has what it returns, also at the second try (reliability 383)', async () => {
  const { ledger, one, pass } = await withLease();
  const { onReturn } = ledger;
  ledger.onReturn = () => {
    throw new NothingDone('away');
  };
  // The lease ends, and its return has failed when the gateway is stopped.
  await pass(1_050);
  let isFlushed = false;
  const flushed = one.admitter.flush().then(() => {
    isFlushed = true;
  });
  await pass(50);
  expect(isFlushed).toBe(false);
  ledger.onReturn = onReturn;
  await pass(300);
  await flushed;
  expect(await usedIn(ledger)).toBe(10);
});

test('a gateway that stops gives up what the store takes no longer', async () => {
  const { ledger, one, pass } = await withLease();
  ledger.onReturn = () => {
    throw new NothingDone('away');
  };
  const flushed = one.admitter.flush();
  await pass(3_000);
  await flushed;
});

test('a request that is certainly not decided leaves the lease, which is used to its end', async () => {
  const { ledger, one } = await withLease();
  const decided = ledger.decide.bind(ledger);
  ledger.decide = async () => {
    throw new NothingDone('away');
  };
  expect(sourceOf((await one.send(PLAN, 1, 900))[0])).toBe('local');
  expect(sourceOf((await one.send())[0])).toBe('lease');
  ledger.decide = decided;
});

test('limits that are only watched borrow nothing', async () => {
  const { gateways, ledger } = fleetOf(1);
  await gateways[0]!.send({ ...PLAN, isWatched: true }, 10);
  expect(await usedIn(ledger)).toBe(10);
});

test('what is decided beside a lease that comes back unused is not reported as left', async () => {
  const { ledger, one } = await withLease();
  const bounded = { ...PLAN, boundsInFlight: true } as const;
  await one.send(bounded, 5, 100);
  const decided = ledger.decide.bind(ledger);
  ledger.decide = async () => {
    throw new NothingDone('away');
  };
  await one.send(PLAN, 1, 200);
  ledger.decide = decided;
  const [answer] = await one.send();
  expect(sourceOf(answer)).toBe('lease');
  expect(remainingOf(answer!)).toBeLessThanOrEqual(1_000 - 10 - 500 - 1);
});

test('a gateway whose leases are off borrows nothing, and waits for the units of others no longer than others', async () => {
  const { ledger, one, pass } = await withLease();
  const off = gatewayOn(ledger, null);
  ledger.calls.length = 0;
  const fitting = 1_000 - (await usedIn(ledger))!;
  const asked = off.send(PLAN, fitting + 5);
  await pass(10);
  expect((await asked).every((answer) => kindOf(answer) === 'admitted')).toBe(true);
  expect(ledger.calls.flat().some(({ leaseTerms }) => leaseTerms?.borrows !== undefined)).toBe(false);
  expect(one.admitter).toBeDefined();
});

test('a gateway whose leases are off gives up a wait as well', async () => {
  const { ledger, pass } = await withLease();
  ledger.stopsHearing();
  const off = gatewayOn(ledger, null);
  const asked = off.send(PLAN, 1, 999);
  await pass(340);
  const atMs = ledger.nowMs;
  expect((await asked).map(kindOf)).toEqual(['refused']);
  expect(ledger.nowMs - atMs).toBe(0);
});
