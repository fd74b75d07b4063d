import type { Redis } from 'ioredis';
import { describe, expect, test, vi } from 'vitest';
import { type Allowance, budgetOf } from '../../src/admit/allowance.ts';
import { type DecisionRequest, NothingDone } from '../../src/admit/ledger.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { banOf, DecisionCalls, gatewayClock } from '../../src/stores/redis/decision-call.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { replyOf } from '../../tools/kit/message-pack.ts';
import { allowance, alsoCharging, BANS, withOwn } from '../support/allowance.ts';

// What the decision script is told and what its numbers are read as, against a Redis of the test's.

interface Sent {
  readonly name: string;
  readonly args: readonly string[];
}

/**
 * @param replies of the calls, one after the other
 * @param deadline rejects as the circuit does when a call takes too long
 */
function callsOf(replies: readonly (string | Error)[], wallMs?: () => number, deadline?: Promise<never>) {
  const sent: Sent[] = [];
  const redis = {
    sendCommand(command: { name: string; args: string[]; resolve(reply: Buffer): void; reject(error: Error): void }) {
      sent.push({ name: command.name, args: command.args });
      const reply = replies[sent.length - 1]!;
      setImmediate(() => (reply instanceof Error ? command.reject(reply) : command.resolve(replyOf(reply))));
    },
  } as unknown as Redis;
  const abouts: unknown[] = [];
  const within =
    (kind: string) =>
    <T>(call: () => Promise<T>, about?: unknown) => {
      abouts.push([kind, about]);
      return deadline === undefined ? call() : Promise.race([call(), deadline]);
    };
  const circuit = { run: within('run'), read: within('read') };
  return { calls: new DecisionCalls({ redis, circuit, holder: 'one', lua: 'return 1', wallMs }), sent, abouts };
}

const T0 = 1_800_000_000_000;
const plain = allowance({ minute: 5, day: 100 }, null);
const ask = (consumerId: string, of: Allowance = plain, cost = 1, n = 1): DecisionRequest => ({
  consumerId,
  allowance: of,
  cost,
  n,
});
const HOURLY = { limits: [windowLimit('hour', 50)], inFlight: 9 };
const OTHERS = [
  budgetOf({ scope: 'customer', ...HOURLY }),
  budgetOf({ scope: 'customer', unit: 'tokens', limits: [windowLimit('day', 500)] }),
];
const BOUNDED = withOwn(plain, { inFlight: 3 });
const SHARED: Allowance = { ...alsoCharging(BOUNDED, OTHERS), history: 'all', bansIn: 1, inUnits: ['tokens'] };
const outcomes = async (reply: string, ...requests: readonly DecisionRequest[]) =>
  callsOf([reply]).calls.decide(requests);

describe('a reply is read', () => {
  test('with the windows that are open', async () => {
    expect(await outcomes(`${T0} 5 1 4 ${T0 + 50} 0 0`, ask('a', plain, 2, 3))).toEqual([
      {
        ...{ nowMs: T0, cost: 2, n: 3, admitted: 1, bannedFrom: 3 },
        accounts: [{ windows: { minute: { used: 4, endsAtMs: T0 + 50 } } }],
      },
    ]);
  });

  test('for each consumer, also behind one whose hash holds foreign values', async () => {
    const found = await outcomes(`${T0} 0 5 1 1 7 2 8`, ask('a'), ask('b'));
    expect(found[0]).toBeNull();
    expect(found[1]?.accounts[0].windows).toEqual({ minute: { used: 1, endsAtMs: 7 }, day: { used: 2, endsAtMs: 8 } });
  });

  test('with slices, and strikes behind them', async () => {
    const sliding = allowance({ minute: 5, hour: 9 }, null, { minute: { slices: 4 }, hour: { slices: 4 } });
    const [decision] = await outcomes(`${T0} 19 0 2 ${T0} 3 1 2 0 1 0 0 0 0 0 0 2 60 0 0 0`, ask('a', sliding));
    expect(decision).toMatchObject({
      admitted: 0,
      bannedFrom: 1,
      accounts: [{ strikes: { count: 2, endsAtMs: 60 } }],
    });
    expect(decision?.accounts[0].windows).toEqual({
      minute: { used: 3, endsAtMs: T0 + 60_000 + 75_000, slices: { per: 4, startsAtMs: T0, first: 3, counts: [1, 2] } },
    });
    expect(decision).not.toHaveProperty('imposesBan');
    expect(decision?.accounts[0]).not.toHaveProperty('topUps');
    const [quiet] = await outcomes(`${T0} 3 1 0 0`, ask('a', sliding));
    expect(quiet).toMatchObject({ bannedFrom: 1, accounts: [{ windows: {} }] });
    expect(quiet?.accounts[0]).not.toHaveProperty('ban');
  });

  test('with a ban, whether it was imposed, and top-ups', async () => {
    const [decision] = await outcomes(`${T0} 23 0 0 0 0 0 2 1 0 0 0 0 0 3 4 5 6 2 2 10 70 4 20 80`, ask('a'));
    expect(decision).toStrictEqual({
      ...{ nowMs: T0, cost: 1, n: 1, admitted: 0, bannedFrom: 2, imposesBan: true },
      accounts: [
        {
          windows: {},
          strikes: { count: 3, endsAtMs: 4 },
          ban: { number: 5, untilMs: 6, window: 'minute' },
          topUps: { minute: { amount: 10, untilMs: 70 }, day: { amount: 20, untilMs: 80 } },
        },
      ],
    });
  });

  test('with the counts, strikes and top-ups of several accounts, and what is in flight and lent', async () => {
    const windows = `0 5 ${T0 + 50} 6 ${T0 + 60} 7 ${T0 + 70} 0 0 3 9`;
    const rest = `0 0 1 250 1 10 900 1 30 0 0 0 2 60 1 ${T0 + 80} 13 0 0 0 0 0 13 20 ${T0 + 90} 24 30 ${T0 + 91}`;
    const asked = { ...ask('cus_1/key_1', SHARED), amounts: { tokens: 40 } };
    const [decision] = await outcomes(`${T0} 39 ${windows} ${rest}`, asked);
    expect(decision).toEqual({
      ...{ nowMs: T0, cost: 1, n: 1, admitted: 0, amounts: { tokens: 40 }, bannedFrom: 0, isCrowded: true },
      ...{ waitMs: 250, mayReturn: true, lent: { units: 10, forMs: 900 }, inFlight: [3, 9, -1] },
      accounts: [
        {
          windows: { minute: { used: 5, endsAtMs: T0 + 50 }, day: { used: 6, endsAtMs: T0 + 60 } },
          strikes: { count: 1, endsAtMs: 30 },
        },
        {
          windows: { hour: { used: 7, endsAtMs: T0 + 70 } },
          strikes: { count: 2, endsAtMs: 60 },
          ban: { number: 1, untilMs: T0 + 80, window: 'hour', budget: 'customer' },
          topUps: { hour: { amount: 20, untilMs: T0 + 90 } },
        },
        { windows: {}, topUps: { day: { amount: 30, untilMs: T0 + 91 } } },
      ],
    });
    const [calm] = await outcomes(`${T0} 11 1 ${windows.slice(2)}`, ask('cus_1/key_1', SHARED));
    expect(calm).toMatchObject({
      admitted: 1,
      bannedFrom: 1,
      inFlight: [3, 9, -1],
      accounts: [{}, {}, {}],
    });
    for (const name of ['amounts', 'isCrowded', 'waitMs', 'mayReturn', 'lent', 'imposesBan']) {
      expect(calm).not.toHaveProperty(name);
    }
    const unlimited = alsoCharging(plain, [budgetOf({ scope: 'customer', limits: [] })]);
    const [uncounted] = await outcomes(`${T0} 5 1 0 0 0 0`, ask('cus_1/key_1', unlimited));
    expect(uncounted?.accounts[1]).toEqual({ windows: {} });
    const [alone] = await outcomes(`${T0} 6 1 0 0 0 0 2`, ask('a', BOUNDED));
    expect(alone).toMatchObject({ inFlight: [2], accounts: [{ windows: {} }] });
  });

  test('of no consumer is the clock alone', async () => {
    expect(await outcomes(`${T0}`)).toEqual([]);
  });

  test('that ends too early is none', async () => {
    await expect(outcomes(`${T0} 5 1 4`, ask('a'))).rejects.toThrow('that the script does not return');
    await expect(outcomes('OK', ask('a'))).rejects.toThrow('that the script does not return');
  });
});

test.each([
  [0, 2, null],
  [-1, 2, null],
  [1, 0, null],
  [1, 7, null],
  [1, 2, { number: 1, untilMs: 5, window: 'minute' }],
])('ban %s of window %s is %o', (number, window, ban) => {
  expect(banOf(number, 5, window)).toEqual(ban);
});

describe('the script is told', () => {
  const minute = { window: 'minute', lengthMs: 60_000, limit: 5 };
  const day = { window: 'day', lengthMs: 86_400_000, limit: 100 };
  const own = { name: '', fields: ['m', 'M', 'd', 'D'], limits: [minute, day] };
  const RULE = { budgets: [own], bansIn: 0, histories: 0, recordsAll: false, units: [] };
  const bounded = { ...own, inFlight: 3 };
  const hour = { window: 'hour', lengthMs: 3_600_000, limit: 50 };
  const hourly = { inFlight: 9, fields: ['h', 'H'], limits: [hour] };
  /** What the arguments say, from one on. */
  const told = (args: readonly string[], from: number) => args.slice(from).map((text) => JSON.parse(text));
  test('each rule once, and equal requests in one run', async () => {
    const none = '0 '.repeat(6).trim();
    const { calls, sent, abouts } = callsOf([`${T0} ${none}`]);
    const other = { ...allowance({ second: 3 }, {}, { second: { slices: 7 } }), history: 'all' as const };
    await calls.decide([ask('a'), ask('b'), ask('c', plain, 2), ask('d', plain, 2, 4), ask('e', other), ask('f')]);
    const [digest, count, ...names] = sent[0]!.args;
    expect([sent[0]!.name, digest, count]).toEqual(['evalsha', 'e0e1f9fabfc9d4800c877a703b823ac0578ff8db', '7']);
    expect(abouts).toEqual([['run', names[0]]]);
    const second = { window: 'second', lengthMs: 1_000, limit: 3, slices: 7 };
    expect(told(names, 7)).toEqual([
      [2, 1, 1, 2, 2, 1, 2, 1, 2, 4, 2, 1, 3, 1, 1, 1, 2, 1, 1, 1],
      RULE,
      {
        ...{ ...RULE, bans: BANS, histories: 1, recordsAll: true },
        budgets: [{ name: '', fields: ['s', 'S'], limits: [second] }],
      },
    ]);
  });

  test('the gateway’s clock where a history is kept, in whole seconds', async () => {
    const { calls, sent } = callsOf([`${T0} 0`, `${T0} 0`], () => 5_999);
    await calls.decide([ask('a', { ...plain, history: 'admitted' })]);
    expect(sent[0]!.args.at(-1)).toBe('@5');
    expect(JSON.parse(sent[0]!.args.at(-2)!)).toEqual({ ...RULE, histories: 1 });
    await calls.decide([ask('a')]);
    expect(told(sent[1]!.args, -1)).toEqual([RULE]);
    expect(gatewayClock(undefined)).toEqual([]);
  });

  test('the accounts, histories and bounds of a consumer that has several, what it has in flight and what it takes', async () => {
    const { calls, sent, abouts } = callsOf([`${T0} 0 0 0`, `${T0} 0`, `${T0} 0`, `${T0} 0 0 0`]);
    const asked = ask('cus_1/key_1', SHARED);
    await calls.decide([{ ...asked, amounts: { tokens: 40 } }, { ...asked, inFlight: [1, 2, 0] }, asked], true);
    const histories = ['cus_1/key_1', 'cus_1', 'cus_1/key_1%tokens', 'cus_1%tokens'].map(keyspace.history);
    const keys = [...['cus_1/key_1', 'cus_1', 'cus_1%tokens'].map(keyspace.account), ...histories];
    expect(sent[0]!.args.slice(2, -2)).toEqual([...keys, ...keys, ...keys]);
    const customer = { ...hourly, name: 'customer' };
    const tokens = {
      ...{ name: 'customer-tokens', unit: 'tokens', fields: ['d', 'D'] },
      limits: [{ ...day, limit: 500 }],
    };
    expect(told(sent[0]!.args, -2)).toEqual([
      [2, 1, 1, 1, -1, -1, -1, 40, 2, 1, 1, 1, 1, 2, 0, 0, 2, 1, 1, 1, -1, -1, -1, 0],
      {
        ...{ budgets: [bounded, customer, tokens], bansIn: 1, isBounded: true, holder: 'one' },
        ...{ histories: 2, recordsAll: true, units: ['tokens'] },
      },
    ]);
    expect(abouts).toEqual([['read', keys[0]]]);
    const grouped = alsoCharging({ ...plain, history: 'all' }, [budgetOf({ group: 'search', ...HOURLY })]);
    await calls.decide([ask('key_2', grouped)]);
    const named = [keyspace.account('key_2'), keyspace.account('key_2#search'), keyspace.history('key_2')];
    expect(sent[1]!.args.slice(2, -2)).toEqual(named);
    const ofProcess = { ...RULE, isBounded: true, holder: 'one', histories: 1 };
    expect(told(sent[1]!.args, -2)).toEqual([
      [2, 1, 1, 1, -1, -1],
      { ...ofProcess, budgets: [own, { ...hourly, name: 'search' }], recordsAll: true },
    ]);
    await calls.decide([ask('key_3', { ...BOUNDED, history: 'admitted' })]);
    expect(told(sent[2]!.args, 4)).toEqual([[2, 1, 1, 1, -1], { ...ofProcess, budgets: [bounded] }]);
    const units = ask('cus_1/key_4', { ...alsoCharging(plain, OTHERS.slice(1)), inUnits: ['tokens'] });
    const [forty, fifty] = [{ tokens: 40 }, { tokens: 50 }];
    await calls.decide([forty, forty, fifty].map((amounts) => ({ ...units, amounts })));
    const withoutHistory = ['cus_1/key_4', 'cus_1%tokens'].map(keyspace.account);
    expect(sent[3]!.args.slice(2, 8)).toEqual([...withoutHistory, ...withoutHistory, ...withoutHistory]);
    expect(JSON.parse(sent[3]!.args[8]!)).toEqual([2, 1, 1, 2, 40, 2, 1, 1, 1, 50]);
  });

  test('what a gateway borrows and returns, each consumer apart', async () => {
    const { calls, sent } = callsOf([`${T0} 0 0 0 0 0 0`]);
    const borrows = { borrows: { units: 20, id: 7, forMs: 900 } };
    const returned = { id: 7, unused: 5, places: [[2, 1], [4]] };
    await calls.decide([
      ask('a'),
      { ...ask('a'), leaseTerms: borrows },
      { ...ask('a'), leaseTerms: borrows },
      { ...ask('a'), leaseTerms: { isFinal: true, returned } },
      { ...ask('a'), leaseTerms: { isFinal: true, returned: { ...returned, unused: 0 } } },
      { ...ask('b'), amounts: {} },
    ]);
    const borrowing = [2, 1, 1, 0, 20, 7, 900, 0, 0, 0];
    const returning = [...[2, 1, 1, 0, 0, 0, 0, 1, 7, 5, 2, 1, 4], ...[2, 1, 1, 0, 0, 0, 0, 1, 7, 0]];
    const runs = [...[2, 1, 1, 1], ...borrowing, ...borrowing, ...returning, ...[2, 1, 1, 1]];
    expect(JSON.parse(sent[0]!.args.at(-2)!)).toEqual(runs);
  });

  test('nothing more once the deadline has passed: the request was decided without the store', async () => {
    const monthly = allowance({ month: 9 }, null);
    for (const reply of [new Error('NOSCRIPT No matching script'), '1']) {
      const { calls, sent } = callsOf([reply, `${T0} 0`], undefined, Promise.reject(new Error('late')));
      await expect(calls.decide([ask('a', monthly)])).rejects.toThrow('late');
      // The reply, and what follows it, come in later turns.
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
      expect(sent).toHaveLength(1);
    }
  });

  test('as a whole if Redis does not know it, and other errors are the call’s', async () => {
    const { calls, sent } = callsOf([new Error('NOSCRIPT No matching script'), `${T0} 0`]);
    expect(await calls.decide([ask('a')])).toEqual([null]);
    expect(sent.map(({ name, args }) => [name, args[0]])).toEqual([
      ['evalsha', expect.any(String)],
      ['eval', 'return 1'],
    ]);
    await expect(callsOf([new Error('OOM')]).calls.decide([ask('a')])).rejects.toThrow('OOM');
  });
});

describe('the periods of calendar windows', () => {
  const monthly = allowance({ month: 9 }, null);
  const month = (text: string) => Date.parse(`${text}-01T00:00:00Z`);
  const around = (...months: readonly string[]) => months.map(month);
  const instantsIn = (args: readonly string[]) => JSON.parse(args.at(-1)!).budgets[0].limits[0].instants;

  test('are those around the store’s clock: if it is elsewhere it says so, and is asked again', async () => {
    const { calls, sent } = callsOf([
      `${month('2040-03') + 5}`,
      `${month('2040-03') + 6} 0`,
      `${month('2040-04') + 6} 0`,
      '1 0',
    ]);
    expect(await calls.decide([ask('a', monthly)])).toEqual([null]);
    expect(sent).toHaveLength(2);
    expect(instantsIn(sent[1]!.args)).toEqual(around('2040-02', '2040-03', '2040-04', '2040-05'));
    // The text is kept while the clock is in its month.
    await calls.decide([ask('a', monthly)]);
    expect(sent[2]!.args.at(-1)).toBe(sent[1]!.args.at(-1));
    // A clock that has jumped asks for another one at once.
    await calls.decide([ask('a', monthly)]);
    expect(instantsIn(sent[3]!.args)).toEqual(around('2040-03', '2040-04', '2040-05', '2040-06'));
  });

  test('are made anew when the store’s clock was set back, and only then', async () => {
    const now = vi.spyOn(performance, 'now').mockReturnValue(5_000);
    try {
      const [late, early] = [month('2040-03') + 5, month('2030-03') + 5];
      const { calls, sent } = callsOf([`${late}`, `${late} 0`, `${early}`, `${early} 0`, `${early} 0`]);
      await calls.decide([ask('a', monthly)]);
      expect(calls.storeNowMs).toBe(late);
      await calls.decide([ask('a', monthly)]);
      expect(instantsIn(sent[3]!.args)).toEqual(around('2030-02', '2030-03', '2030-04', '2030-05'));
      now.mockReturnValue(6_000);
      expect(calls.storeNowMs).toBe(early + 1_000);
      const periods = vi.spyOn(monthly.limits[0]!.calendar!, 'instantsAround');
      await calls.decide([ask('a', monthly)]);
      expect(periods).not.toHaveBeenCalled();
    } finally {
      vi.restoreAllMocks();
    }
  });

  test('are asked for three times: then nothing is done', async () => {
    const { calls, sent } = callsOf(['1', '2', '3', '4']);
    await expect(calls.decide([ask('a', monthly)])).rejects.toThrow(NothingDone);
    expect(sent).toHaveLength(3);
  });
});
