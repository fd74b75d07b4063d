import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parsePlans } from '../../../src/config/plans-schema.ts';
import { Failure } from '../../../src/failure.ts';
import type { Plans } from '../../../src/model/plan.ts';
import type { StoredKey } from '../../../src/model/record.ts';
import { PlanDrafts, type PlanDraftsOptions } from '../../../src/operations/plans/drafts.ts';
import { PlansFile } from '../../../src/operations/plans/plans-file.ts';
import type { RecentRecord, RecentRequest } from '../../../src/simulate/recent-record.ts';
import { temporaryFolder } from '../../support/processes.ts';

const TEXT = 'plans:\n  free: { limits: { minute: 3 }, bans: off }\n  pro: { limits: { minute: 9 }, bans: off }\n';
const AT_MS = 1_790_000_000_000;

function plansIn(text: string): Plans {
  const parsed = parsePlans(text, 'plans.yaml');
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.value;
}

async function draftsWith(options: Partial<PlanDraftsOptions> = {}): Promise<PlanDrafts> {
  const path = join(await temporaryFolder(), 'plans.yaml');
  await writeFile(path, TEXT);
  return new PlanDrafts({
    file: new PlansFile(path, () => AT_MS),
    inForce: () => ({ plans: plansIn(TEXT), routes: [], hasTokens: false }),
    recent: null,
    nowMs: () => AT_MS,
    monotonicMs: () => performance.now(),
    ...options,
  });
}

const NO_CUSTOMERS = { list: async () => ({ records: [], cursor: null }) };

const body = (members: object) => Buffer.from(JSON.stringify(members));

/** What a gateway remembers of `n` requests of one key, a second apart, as its plan decided. */
function requestsOf(consumerId: string, limit: number, n: number): RecentRequest[] {
  return Array.from({ length: n }, (_, i) => ({
    atMs: AT_MS + i * 1_000,
    consumerId,
    plan: 'free',
    cost: 1,
    judgement: i < limit ? 'admitted' : 'refused',
    imposedBan: 0,
    source: 'store',
    limits: { minute: limit },
    remaining: Math.max(0, limit - i - 1),
  }));
}

function recordOf(requests: readonly RecentRequest[], size: number, isComplete = true): RecentRecord {
  return {
    async read(take) {
      for (let from = 0; from < requests.length; from += size) take(requests.slice(from, from + size));
      return { about: `The last ${requests.length} requests.`, isComplete };
    },
  };
}

describe('the recent record', () => {
  const requests = [...requestsOf('key_1', 3, 5), ...requestsOf('key_🐟"\\', 5, 5)];
  const recent = recordOf(requests.toReversed(), 3);

  test('is replayed as a log is: the plans in force give each verdict again, and own limits stay', async () => {
    const drafts = await draftsWith({ recent: async () => recent });
    const done = await drafts.simulate(body({ text: TEXT, record: 'recent' }));
    expect(done).toMatchObject({
      result: {
        faults: [],
        span: { requests: 10, from: new Date(AT_MS).toISOString(), to: new Date(AT_MS + 4_000).toISOString() },
        report: { differs: { verdicts: 0, bans: 0 }, totals: { recorded: { refused: 2 }, simulated: { refused: 2 } } },
        ...{ kept: 'The last 10 requests.', isComplete: true, baseline: { verdicts: 0 } },
      },
    });
  });

  test('says of each key which limits were its own', async () => {
    const drafts = await draftsWith({ recent: async () => recent });
    const done = await drafts.simulate(body({ text: TEXT.replace('minute: 3', 'minute: 1'), record: 'recent' }));
    const strict = await draftsWith({
      recent: async () => recordOf(requestsOf('key_🐟"\\', 5, 6), 3),
    });
    expect(done).toMatchObject({ result: { report: { keys: [{ id: 'key_1', ownLimits: {} }] } } });
    expect(await strict.simulate(body({ text: TEXT, record: 'recent' }))).toMatchObject({
      result: { report: { keys: [{ id: 'key_🐟"\\', ownLimits: { minute: 5 } }] } },
    });
  });

  test('that lacks requests is told by what the plans in force would say of it', async () => {
    const part = requests.filter((_, i) => i !== 1 && i !== 2);
    const drafts = await draftsWith({ recent: async () => recordOf(part, 3, false) });
    const done = await drafts.simulate(body({ text: TEXT.replace('minute: 3', 'minute: 1'), record: 'recent' }));
    expect(done).toMatchObject({ result: { isComplete: false, baseline: { verdicts: 2 } } });
  });

  test('a raised limit admits what was refused', async () => {
    const drafts = await draftsWith({ recent: async () => recent });
    const done = await drafts.simulate(body({ text: TEXT.replace('minute: 3', 'minute: 4'), record: 'recent' }));
    expect(done).toMatchObject({
      result: { report: { totals: { newlyAdmitted: 1 }, keys: [{ id: 'key_1', newlyAdmitted: 1 }] }, moreKeys: 0 },
    });
  });

  test('without a request there is nothing to simulate, and the sentence says so', async () => {
    const drafts = await draftsWith({ recent: async () => recordOf([], 1) });
    expect(await drafts.simulate(body({ text: TEXT, record: 'recent' }))).toEqual({
      refusal: { code: 'invalid_request', message: expect.stringContaining('remembers no request') },
    });
  });

  test('a record that fails is a failure of the request, not of the process', async () => {
    const broken: RecentRecord = {
      async read(take) {
        take(requests);
        throw new Error('the worker is gone');
      },
    };
    const drafts = await draftsWith({ recent: async () => broken });
    await expect(drafts.simulate(body({ text: TEXT, record: 'recent' }))).rejects.toThrow('the worker is gone');
    expect(await drafts.check(body({ text: TEXT }))).toHaveProperty('result');
  });
});

describe('a change in the text of a draft', () => {
  const edit = async (text: string, edits: readonly object[], plan?: string) =>
    (await draftsWith()).edit(body({ text, edits, plan }));

  test('returns the text with its comments, the names of the plans, and a plan as it is written', async () => {
    const text = `\uFEFF# Ours.\n${TEXT}`;
    const after = text.replace('minute: 9', 'minute: 12');
    expect(await edit(text, [{ path: ['plans', 'pro', 'limits', 'minute'], value: 12 }], 'pro')).toEqual({
      result: { text: after, isReadable: true, plans: ['free', 'pro'], plan: { limits: { minute: 12 }, bans: 'off' } },
    });
    expect(await edit(TEXT, [])).toMatchObject({ result: { text: TEXT, plan: { limits: { minute: 3 } } } });
    expect(await edit(TEXT, [], 'gold')).toMatchObject({ result: { plan: null } });
  });

  test('a value that is a fault is written as it is; a text that is no YAML stays, and so does one with aliases', async () => {
    const wrong = await edit(TEXT, [{ path: ['plans', 'free', 'limits', 'minute'], value: 'many' }]);
    expect(wrong).toMatchObject({ result: { isReadable: true, plan: { limits: { minute: 'many' } } } });
    for (const text of ['plans: [', 'plans: { a: &a 1, b: *a }', '']) {
      const left = await edit(text, [{ path: ['plans'], value: 1 }]);
      expect(left).toEqual({ result: { text, isReadable: false, plans: [], plan: null } });
    }
  });

  test.each([
    [[{ path: [], value: 1 }], /^edits\.0\.path: /],
    [[{ path: ['a'] }], /^edits\.0\.value: /],
    [Array(51).fill({ path: ['a'], value: 1 }), /^edits: must be a list of up to 50 changes/],
  ])('what is no list of changes is refused in a sentence (%#)', async (edits, message) => {
    const refused = { refusal: { code: 'invalid_request', message: expect.stringMatching(message) } };
    expect(await edit(TEXT, edits)).toEqual(refused);
  });
});

describe('bounds', () => {
  test('a check that takes too long is ended with a sentence, and the next one runs', async () => {
    const drafts = await draftsWith({ bounds: { checkMs: 1 } });
    expect(await drafts.check(body({ text: TEXT }))).toEqual({
      refusal: { code: 'too_costly', message: expect.stringContaining('longer than 0.001 s') },
    });
    expect(await drafts.simulate(body({ text: TEXT, log: 'x' }))).toMatchObject({
      refusal: { code: 'invalid_request' },
    });
  });

  test('a check that takes too much memory ends its thread alone', async () => {
    const plans = Array.from({ length: 10_000 }, (_, i) => `  p${i}: { limits: { minute: 1 } }\n`).join('');
    const drafts = await draftsWith({ bounds: { checkMb: 24 } });
    expect(await drafts.check(body({ text: `plans:\n${plans}` }))).toEqual({
      refusal: { code: 'too_costly', message: expect.stringContaining('more than 24 MB') },
    });
    expect(await drafts.check(body({ text: TEXT }))).toMatchObject({ result: { faults: [] } });
  });

  test('of many checks at once one runs, eight wait and the others are refused as busy', async () => {
    // Each of those that run ends at once.
    const drafts = await draftsWith({ bounds: { checkMs: 1 } });
    const check = async () => {
      const one = await drafts.check(body({ text: TEXT }));
      return 'refusal' in one ? one.refusal.code : 'done';
    };
    expect(await Promise.all(Array.from({ length: 12 }, check))).toEqual([
      ...Array(9).fill('too_costly'),
      ...Array(3).fill('busy'),
    ]);
    expect(await check()).toBe('too_costly');
  });

  test('keys that cannot be counted in time are not counted, and the difference is there all the same', async () => {
    let nowMs = 0;
    const monotonicMs = () => {
      nowMs += 5_000;
      return nowMs;
    };
    const endless = { keys: { list: async () => ({ records: [], cursor: 'more' }) }, customers: NO_CUSTOMERS };
    const done = await (await draftsWith({ monotonicMs })).diff(body({ text: TEXT.replace('3', '4') }), endless);
    expect(done).toMatchObject({
      result: { live: { isComplete: false }, changes: [{ what: 'limits.minute', keys: null }], refused: [] },
    });
  });

  test('while the store is away the difference is there without counts', async () => {
    const away = {
      list: async () => {
        throw new Failure('store_unavailable', 'away');
      },
    };
    const done = await (await draftsWith()).diff(body({ text: TEXT.replace('3', '4') }), {
      keys: away,
      customers: NO_CUSTOMERS,
    });
    expect(done).toMatchObject({
      result: {
        live: { isComplete: false, keysRead: 0 },
        changes: [{ what: 'limits.minute', keys: null }],
        affected: null,
      },
    });
  });

  test('a million keys are counted in turns between which others run', async () => {
    const key = { plan: 'free', limits: {}, revokedAtMs: null, expiresAtMs: null } as StoredKey;
    const page = Array<StoredKey>(1_000).fill(key);
    let pages = 0;
    const keys = { list: async () => ({ records: page, cursor: ++pages < 1_000 ? 'more' : null }) };
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    count();
    const done = await (await draftsWith()).diff(body({ text: TEXT.replace('3', '4') }), {
      keys,
      customers: NO_CUSTOMERS,
    });
    isDone = true;
    expect(done).toMatchObject({
      result: {
        live: { keysRead: 1_000_000 },
        changes: [{ keys: 1_000_000 }],
        affected: [{ plan: 'free', keys: 1_000_000 }],
      },
    });
    expect(turns).toBeGreaterThan(1_000);
  });
});
