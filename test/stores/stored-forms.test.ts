import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Allowance, budgetOf } from '../../src/admit/allowance.ts';
import type { LeaseTerms } from '../../src/engine/types.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import type { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { setClock, T0, twinLedger } from '../admit/twin-ledger.ts';
import { allowance, alsoCharging, withOwn } from '../support/allowance.ts';
import { testRedis } from '../support/redis.ts';

/*
 * The fields of an account in Redis, as this version and earlier ones write and read them. While an operator upgrades or rolls back,
 * gateways of two versions share the accounts. If a case here has to change, the earlier version must have read the new form already.
 */

let redis: Redis;
let ledger: RedisLedger;

beforeAll(async () => {
  redis = new Redis((await testRedis()).url);
  ledger = twinLedger(redis);
});

afterAll(() => redis.disconnect());

/** An account with its fields; those of slices in hexadecimal. */
type Fields = Readonly<Record<string, string | number>>;

interface Case {
  readonly plan: Allowance;
  readonly stored: Fields;
  readonly n: number;
  readonly leaseTerms?: LeaseTerms;
  readonly decided: Readonly<Record<string, unknown>>;
  /** Only the fields that change. */
  readonly changed: Fields;
}

const FIELDS = [...'sSmMhHdDkKnNxXbBwWtTlf'];
const minute = allowance({ minute: 5 }, { after: 3 });
const sliding = (slices: number) => allowance({ minute: 1_000 }, {}, { minute: { slices } });
const grouped = alsoCharging(minute, [budgetOf({ scope: 'key', group: 'g0', limits: [] })]);

const cases: Readonly<Record<string, Case>> = {
  'counts and strikes': {
    plan: minute,
    stored: { m: 3, M: T0 + 30_000, d: 7, D: T0 + 900_000, x: 2, X: T0 + 20_000 },
    n: 1,
    decided: { admitted: 1, accounts: [{ strikes: { count: 2, endsAtMs: T0 + 20_000 } }] },
    changed: { m: 4 },
  },
  'a window that has ended': {
    plan: minute,
    stored: { m: 5, M: T0, x: 2, X: T0 },
    n: 2,
    decided: { admitted: 2 },
    changed: { m: 2, M: T0 + 60_000, x: 0, X: 0 },
  },
  'a window without a count': {
    plan: minute,
    stored: { m: 0, M: 0, x: 0, X: 0 },
    n: 1,
    decided: { admitted: 1 },
    changed: { m: 1, M: T0 + 60_000 },
  },
  'slices with counts of one byte': {
    plan: sliding(4),
    stored: { m: '84010902', M: T0 - 30_000 },
    n: 1,
    decided: { admitted: 1, accounts: [{ windows: { minute: { used: 12 } } }] },
    changed: { m: '84010903' },
  },
  'slices with counts of two bytes, of which the first has left': {
    plan: sliding(4),
    stored: { m: '8423012c0002', M: T0 - 120_000 },
    n: 1,
    decided: { admitted: 1, accounts: [{ windows: { minute: { used: 3 } } }] },
    changed: { m: '84000200000001', M: T0 - 60_000 },
  },
  'slices of another number, under a fixed window': {
    plan: minute,
    stored: { m: '84010201', M: T0 - 30_000 },
    n: 1,
    decided: { admitted: 1 },
    changed: { m: 4, M: T0 + 60_000 },
  },
  'a ban of version 0.1.0, which named no budget': {
    plan: minute,
    stored: { b: 1, B: T0 + 50_000, w: 2 },
    n: 1,
    decided: { admitted: 0, bannedFrom: 0, accounts: [{ ban: { number: 1, untilMs: T0 + 50_000, window: 'minute' } }] },
    changed: {},
  },
  'a ban of a group': {
    plan: grouped,
    stored: { b: 1, B: T0 + 50_000, w: 2, W: 'g0' },
    n: 1,
    decided: { bannedFrom: 0, accounts: [{ ban: { number: 1, window: 'minute', budget: 'g0' } }, {}] },
    changed: {},
  },
  'a ban that was lifted': {
    plan: minute,
    stored: { m: 5, M: T0 + 30_000, b: 0, B: 0, w: 2, W: '', x: 0, X: 0 },
    n: 1,
    decided: { admitted: 0, accounts: [{ strikes: { count: 1, endsAtMs: T0 + 30_000 } }] },
    changed: { x: 1, X: T0 + 30_000 },
  },
  'a ban that has ended and is remembered, and the next one': {
    plan: minute,
    stored: { m: 5, M: T0 + 30_000, b: 2, B: T0 - 1, w: 1, W: '', x: 2, X: T0 + 20_000 },
    n: 1,
    decided: { admitted: 0, imposesBan: true, accounts: [{ ban: { number: 3, untilMs: T0 + 240_000 } }] },
    changed: { b: 3, B: T0 + 240_000, w: 2, x: 0, X: 0 },
  },
  'top-ups and their notes': {
    plan: minute,
    stored: { m: 6, M: T0 + 30_000, t: `2 4 ${T0 + 30_000} 4 9 ${T0 + 900_000}`, T: 'as top-ups.lua writes them' },
    n: 4,
    decided: { admitted: 3, accounts: [{ topUps: { minute: { amount: 4, untilMs: T0 + 30_000 } } }] },
    changed: { m: 9, x: 1, X: T0 + 30_000 },
  },
  'units that are lent': {
    plan: allowance({ minute: 90 }),
    stored: { m: 40, M: T0 + 30_000, l: `7 20 ${T0 + 200} 8 5 ${T0 + 210}` },
    n: 1,
    leaseTerms: { returned: { id: 7, unused: 6, places: [[T0 + 30_000]] } },
    decided: { admitted: 1, mayReturn: true },
    changed: { m: 35, l: `8 5 ${T0 + 210}` },
  },
  'a lease, and a recall': {
    plan: allowance({ minute: 900 }),
    stored: { m: 40, M: T0 + 30_000, l: `7 20 ${T0 + 200} 0 0 ${T0 + 240}` },
    n: 1,
    leaseTerms: { borrows: { id: 9, units: 20, forMs: 250 } },
    decided: { admitted: 1, mayReturn: true },
    changed: { m: 41 },
  },
  'requests in flight of another process': {
    plan: withOwn(allowance({ minute: 90 }), { inFlight: 3 }),
    stored: { m: 40, M: T0 + 30_000, f: `other 2 ${T0 + 9_000}` },
    n: 2,
    decided: { admitted: 1, isCrowded: true, inFlight: [3] },
    changed: { m: 41, f: `other 2 ${T0 + 9_000} PROCESS 1 ${T0 + 10_000}` },
  },
};

test.each(Object.entries(cases))(
  'an account as an earlier version wrote it has %s: the decision counts on from there, in the same forms (reliability 500)',
  async (name, { plan, stored, n, leaseTerms, decided, changed }) => {
    const key = keyspace.account(name);
    setClock(redis, T0);
    const fields = Object.entries(stored);
    await redis.hset(key, new Map(fields.map(([field, value]) => [field, bytesOf(value)])));
    const request = { consumerId: name, allowance: plan, cost: 1, n };
    const terms = leaseTerms === undefined ? {} : { leaseTerms };
    const inFlight = plan.boundsInFlight ? { inFlight: [0] } : {};
    const [decision] = await ledger.decide([{ ...request, ...terms, ...inFlight }]);
    expect(decision).toMatchObject(decided);
    expect(decision).not.toHaveProperty('lent');
    const values = await redis.hmgetBuffer(key, ...FIELDS);
    const after = FIELDS.flatMap((field, i) => (values[i] == null ? [] : [[field, textOf(values[i])] as const]));
    const expected = Object.entries({ ...stored, ...changed }).map(([field, value]) => [field, String(value)]);
    expect(Object.fromEntries(after)).toEqual(Object.fromEntries(expected));
  },
);

const IS_SLICES = /^[89][0-9a-f]{5,}$/;

function bytesOf(value: string | number): string | Buffer {
  return IS_SLICES.test(String(value)) ? Buffer.from(String(value), 'hex') : String(value);
}

/** The name of this process is chosen at random. */
function textOf(value: Buffer): string {
  if (value[0]! >= 0x80) return value.toString('hex');
  return value.toString().replace(/(?<=^| )(?!other)[\w-]{12} (?=\d+ \d+$)/, 'PROCESS ');
}
