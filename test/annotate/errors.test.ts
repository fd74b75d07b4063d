import { expect, test } from 'vitest';
import { type Allowance, allowanceOf } from '../../src/admit/allowance.ts';
import { decide } from '../../src/admit/decision.ts';
import { type Banned, type Refused, verdictOf } from '../../src/admit/verdict.ts';
import * as errors from '../../src/annotate/errors.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { Limits, Plan } from '../../src/model/plan.ts';
import { allowance } from '../support/allowance.ts';

const NOW_MS = 1_700_000_000_123;

test('every plain error is an Error of the interface: code, a sentence, and the status of the answer', () => {
  const codes = [
    'internal_error',
    'upstream_unavailable',
    'upstream_timeout',
    'overloaded',
    'store_unavailable',
    'identity_unavailable',
  ] as const;
  for (const code of codes) {
    const answer = errors.plainError(code);
    expect(JSON.parse(answer.body)).toEqual({
      code,
      message: expect.stringMatching(/^[A-Z].*\.$/),
      status: answer.status,
    });
    expect(answer.fields).toEqual(answer.status === 503 ? ['Retry-After', '1'] : []);
  }
});

test('too many in flight: back in a second, and no window is named, because none refused', () => {
  const answer = errors.tooManyInFlight();
  expect([answer.status, answer.fields, answer.closes]).toEqual([429, ['Retry-After', '1'], false]);
  expect(JSON.parse(answer.body)).toEqual({
    code: 'too_many_in_flight',
    message: expect.stringMatching(/^[A-Z].*\.$/),
    status: 429,
  });
});

test('a message with whatever a client wrote in it stays JSON', () => {
  const { body } = errors.errorResponse('route_not_found', 'There is no "\u2028\n\\ route.');
  expect(JSON.parse(body).message).toBe('There is no "\u2028\n\\ route.');
});

test('a quota: Retry-After is the latest end of the windows that refuse, the details are of the one that ends last (reliability 132)', () => {
  const rules = allowance({ minute: 1, day: 1 });
  const first = decide([UNSEEN], rules, NOW_MS, 1, 1);
  const later = decide(first.accounts, rules, NOW_MS + 10_500, 1, 1);
  const answer = errors.rateLimitExceeded(verdictOf(later, rules, 0) as Refused);
  expect(answer.fields).toEqual(['Retry-After', String(86_400 - 10), 'X-Should-Retry', 'false']);
  expect(JSON.parse(answer.body).details).toEqual({
    window: 'day',
    limit: 1,
    resetAt: Math.ceil((NOW_MS + 86_400_000) / 1000),
  });
});

test("a limit of the key's own is told as the key's, those of the plan as the plan's", () => {
  const plan: Plan = { name: 'pro', limits: { minute: 300, day: 'custom' }, bans: null, enforce: true, shadow: {} };
  const told = (own: Limits, cost: number) => {
    const rules = allowanceOf(plan, own) as Allowance;
    const decision = decide([UNSEEN], rules, NOW_MS, cost, Math.floor(1 / cost) + 1);
    return JSON.parse(errors.rateLimitExceeded(verdictOf(decision, rules, decision.admitted) as Refused).body).message;
  };
  expect(told({ minute: 1, day: 5 }, 1)).toMatch(/^The quota of this API key, 1 per minute, is used up\./);
  expect(told({ day: 1 }, 1)).toMatch(/^The quota of this API key, 1 per day, is used up\./);
  expect(told({ minute: 1, day: 5 }, 3)).toMatch(/^This request costs 3 and this API key allows 1 per minute:/);
  expect(told({ day: 1_000 }, 301)).toMatch(/^This request costs 301 and plan pro allows 300 per minute:/);
});

test('a ban: Retry-After is the end of the ban or of what would refuse after it, whichever is later', () => {
  const rules = allowance({ minute: 1 }, { after: 1, firstMs: 5_000 });
  const decision = decide([UNSEEN], rules, NOW_MS, 1, 2);
  const verdict = verdictOf(decision, rules, 1) as Banned;
  expect(verdict.kind).toBe('banned');
  const answer = errors.apiKeyBanned(verdict);
  expect(answer.fields).toEqual(['Retry-After', '60']);
  expect(JSON.parse(answer.body).details).toEqual({ bannedUntil: Math.ceil((NOW_MS + 5_000) / 1000), ban: 1 });
});

test('what is wrong with a token is told in a sentence of its own, with the challenge of a wrong key', () => {
  const answer = errors.unauthorized('invalid_api_key', 'audience');
  expect(answer.fields).toEqual(errors.unauthorized('invalid_api_key').fields);
  expect(JSON.parse(answer.body)).toEqual({
    code: 'invalid_api_key',
    message: 'This token is meant for another audience (`aud`).',
    status: 401,
  });
});

test('the challenge of a missing key names no error, that of a wrong one does (RFC 6750 section 3)', () => {
  expect(errors.unauthorized('missing_api_key').fields).toEqual(['WWW-Authenticate', 'Bearer realm="tollgate"']);
  for (const code of ['invalid_api_key', 'expired_api_key'] as const) {
    expect(errors.unauthorized(code).fields).toEqual([
      'WWW-Authenticate',
      'Bearer realm="tollgate", error="invalid_token"',
    ]);
  }
});
