import { describe, expect, test } from 'vitest';
import { ERROR_CODES } from '../../src/errors/catalogue.ts';
import { type RefusalFacts, textsOf } from '../../src/operations/live/refusal-text.ts';

const NOW_MS = Date.parse('2026-11-23T12:00:00Z');
const FACTS: RefusalFacts = {
  ...{ requestId: 'r', at: '2026-11-23T11:58:00Z', method: 'GET', path: '/v1/pets', route: '/v1/pets' },
  ...{ consumerId: 'key_1', plan: 'free', clientAddress: '::1', status: 429, code: 'rate_limit_exceeded' },
  ...{ judgement: 'refused', cost: 1, window: 'minute', decidedAt: null, source: null, strike: null, ban: null },
  limits: [{ window: 'minute', form: 'fixed', limit: 10, used: 10, remaining: 0 }],
  ...{ planLimits: {}, imposedBan: false, retryAt: null, policy: null, cause: null },
  ...{ costExceedsLimit: false, bansOfCustomer: false, upstream: 'store', target: 'http://10.0.0.2' },
  ...{ totalMs: 177, endedBy: 'gateway' },
};

test.each(ERROR_CODES)('%s has a text of its own', (code) => {
  const unknown = textsOf({ ...FACTS, code: 'of_a_later_version' }, NOW_MS);
  const { sentence, advice } = textsOf({ ...FACTS, code }, NOW_MS);
  expect([sentence, advice]).not.toContain(unknown.sentence);
  expect(advice).not.toBe(unknown.advice);
  for (const text of [sentence, advice]) expect(text).toMatch(/^[A-Z`].*[^.]\.$/);
});

test('a request that the service failed, or whose client left, says what happened, where and after how long', () => {
  const failed = { ...FACTS, code: '', judgement: 'admitted' } as const;
  expect(textsOf({ ...failed, status: 500, endedBy: 'service' }, NOW_MS).sentence).toBe(
    'The service of the upstream store at http://10.0.0.2 answered 500 after 177 ms, and the gateway passed its answer on.',
  );
  expect(textsOf({ ...failed, status: 499, target: null, endedBy: 'client' }, NOW_MS).sentence).toBe(
    'The client left after 177 ms, before the service of the upstream store had answered.',
  );
});

test('a cause ends with one full stop, whether it has one or not', () => {
  for (const cause of ['Redis did not answer within 100 ms', 'Redis did not answer within 100 ms.']) {
    const { sentence } = textsOf({ ...FACTS, code: 'store_unavailable', cause }, NOW_MS);
    expect(sentence).toMatch(/\. The gateway noted: Redis did not answer within 100 ms\.$/);
  }
});

test.each(['rate_limit_exceeded', 'api_key_banned'])('%s: what is over is no longer waited for', (code) => {
  const ban = { number: 2, until: '2026-11-23T12:00:00Z' };
  const adviceAt = (retryAt: string) => textsOf({ ...FACTS, code, ban, retryAt }, NOW_MS).advice;
  expect(adviceAt('2026-11-23T12:00:01Z')).toMatch(
    /^Wait until the time shown below, or (lift the ban|top up the minute)/,
  );
  expect(adviceAt('2026-11-23T12:00:00Z')).toMatch(/^The (wait|ban) is over\./);
  expect(adviceAt('2026-11-23T12:00:00Z')).not.toMatch(/Wait until|lift|top up/);
});

test.each([
  [
    'tokens-minute',
    {},
    'The key had used 820 of 1000 tokens a minute when this request came. The request takes 500 in advance.',
    'the tokens of the minute',
  ],
  [
    'customer-search-tokens-day',
    {},
    'The customer had used 820 of 1000 tokens a day for search (shared by its keys) when this request came. The request takes 500 in advance.',
    "the customer's tokens of the day for search",
  ],
  [
    'tokens-minute',
    { needed: 1 },
    'The key had used 820 of 1000 tokens a minute when this request came.',
    'the tokens of the minute',
  ],
] as const)(
  'a limit of a unit is named with the unit, and with what the request took in advance: %s %j',
  (window, of, sentence, topUp) => {
    const standing = {
      window,
      form: 'fixed',
      unit: 'tokens',
      needed: 500,
      limit: 1000,
      used: 820,
      remaining: 180,
      ...of,
    };
    const limits = [FACTS.limits[0]!, standing];
    expect(textsOf({ ...FACTS, limits, window, retryAt: '2026-11-23T12:00:01Z' }, NOW_MS)).toEqual({
      sentence,
      advice: `Wait until the time shown below, or top up ${topUp}.`,
    });
  },
);

test('a request that takes more of a unit in advance than a limit allows never succeeds', () => {
  const standing = { window: 'tokens-minute' as const, form: 'fixed', unit: 'tokens', needed: 500 };
  const limits = [FACTS.limits[0]!, { ...standing, limit: 400, used: 0, remaining: 400 }];
  expect(textsOf({ ...FACTS, limits, window: 'tokens-minute', costExceedsLimit: true }, NOW_MS)).toEqual({
    sentence:
      'The request takes 500 tokens in advance and the key may use 400 a minute, so it is refused however long the client waits.',
    advice:
      'Raise the limit of the tokens of the minute for this caller, or move it from the plan free to a larger one. Or the client asks for less, or the route takes less in advance.',
  });
});

describe('a limit of a customer or a group is named in plain words, and the advice fits it', () => {
  const textsAt = (window: RefusalFacts['window'], facts: Partial<RefusalFacts> = {}) => {
    const limits = [{ window: window!, form: facts.source ?? 'fixed', limit: 60, used: 60, remaining: 0 }];
    return textsOf({ ...FACTS, limits, window, retryAt: '2026-11-23T12:00:01Z', ...facts }, NOW_MS);
  };

  test.each([
    ['minute', 'The key had used 60 of 60 requests a minute when', 'the minute'],
    [
      'customer-minute',
      'The customer had used 60 of 60 requests a minute (shared by its keys) when',
      "the customer's minute",
    ],
    ['search-minute', 'The key had used 60 of 60 requests a minute for search when', 'the minute for search'],
    [
      'customer-full-text-day',
      'The customer had used 60 of 60 requests a day for full-text (shared by its keys) when',
      "the customer's day for full-text",
    ],
  ] as const)('%s', (window, sentence, topUp) => {
    expect(textsAt(window)).toEqual({
      sentence: `${sentence} this request came.`,
      advice: `Wait until the time shown below, or top up ${topUp}.`,
    });
  });

  test('with the kind of a window that slides', () => {
    expect(textsAt('customer-minute', { source: 'sliding, 12 slices' }).sentence).toContain(
      'a minute (shared by its keys; sliding, 12 slices) when',
    );
  });

  test('where a request costs more than the limit', () => {
    const [ofCustomer, ofGroup] = (['customer-minute', 'customer-search-minute'] as const).map((window) =>
      textsAt(window, { cost: 70, costExceedsLimit: true }),
    );
    expect(ofCustomer).toEqual({
      sentence:
        'The request costs 70 and the customer may use 60 a minute, so it is refused however long the client waits.',
      advice:
        'Raise the limit of the minute for this customer, or move the customer from the plan free to a larger one.',
    });
    expect(ofGroup!.advice).toBe(
      'Raise the limit of the minute for search in the plan free, or move the customer from the plan free to a larger one.',
    );
  });

  test('where it led to a ban, of the key or of all keys of the customer', () => {
    const ban = { number: 2, until: '2026-11-23T12:00:01Z' };
    const strike = { number: 10, of: 10 };
    const sentence = (facts: Partial<RefusalFacts>) =>
      textsAt('customer-minute', { code: 'api_key_banned', ban, strike, ...facts }).sentence;
    expect(sentence({ imposedBan: true })).toBe(
      "The key kept sending requests after its customer's limit of the minute was used up. This request was strike 10 and began ban 2.",
    );
    expect(sentence({ bansOfCustomer: true, imposedBan: true })).toMatch(
      / began ban 2, which is of all keys of the customer\.$/,
    );
    expect(sentence({ bansOfCustomer: true })).toBe(
      'The key was under ban 2, which is of all keys of the customer. A key of the customer had kept sending requests after ' +
        "its customer's limit of the minute was used up.",
    );
  });
});
