import { expect, test } from 'vitest';
import { ERROR_CODES } from '../../src/errors/catalogue.ts';
import { type RefusalFacts, textsOf } from '../../src/operations/live/refusal-text.ts';

const NOW_MS = Date.parse('2026-11-23T12:00:00Z');
const FACTS: RefusalFacts = {
  ...{ requestId: 'r', at: '2026-11-23T11:58:00Z', method: 'GET', path: '/v1/pets', route: '/v1/pets' },
  ...{ consumerId: 'key_1', plan: 'free', clientAddress: '::1', status: 429, code: 'rate_limit_exceeded' },
  ...{ judgement: 'refused', cost: 1, window: 'minute', decidedAt: null, source: null, strike: null, ban: null },
  limits: [{ window: 'minute', form: 'fixed', limit: 10, used: 10, remaining: 0 }],
  ...{ planLimits: {}, imposedBan: false, retryAt: null, policy: null, cause: null, costExceedsLimit: false },
};

test.each(ERROR_CODES)('%s has a text of its own', (code) => {
  const unknown = textsOf({ ...FACTS, code: 'of_a_later_version' }, NOW_MS);
  const { sentence, advice } = textsOf({ ...FACTS, code }, NOW_MS);
  expect([sentence, advice]).not.toContain(unknown.sentence);
  expect(advice).not.toBe(unknown.advice);
  for (const text of [sentence, advice]) expect(text).toMatch(/^[A-Z`].*[^.]\.$/);
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
