import { expect, test } from 'vitest';
import type { Exchange } from '../../src/gateway/exchange.ts';
import type { Explanation } from '../../src/operations/explanation-store.ts';
import { StoredExplanations } from '../../src/telemetry/stored-explanations.ts';
import { atEnd } from '../support/endings.ts';

const NOW_MS = Date.UTC(2026, 10, 30, 12);

function exchangeOf(members: Partial<Exchange> = {}): Exchange {
  return {
    ...{ requestId: 'r', traceId: null, method: 'GET', path: '/v1/pets', route: '/v1/pets', clientAddress: '10.0.0.1' },
    ...{ consumerId: 'key_a', plan: 'free', cost: 1, limits: [], windows: [], judgement: 'refused', window: 'minute' },
    ...{ imposedBan: null, source: 'store', decidedAtMs: 1, retryAtMs: NOW_MS + 60_000, shadow: null, status: 429 },
    ...{ code: 'rate_limit_exceeded', cause: null, upstream: null, target: null, totalMs: 1, storeMs: 0 },
    ...{ upstreamMs: 0, bytesIn: 0, bytesOut: 0, ...members },
  } as Exchange;
}

/** @param isAway whether the store takes nothing */
function storedIn(isAway = () => false) {
  const kept: Explanation[] = [];
  const keep = async (some: readonly Explanation[]) => {
    if (isAway()) throw new Error('away');
    kept.push(...some);
  };
  const stored = new StoredExplanations({
    store: { keep, of: async () => [] },
    host: 'host-1',
    wallMs: () => NOW_MS,
  });
  atEnd(() => stored.writes.close());
  return { stored, ids: () => kept.map(({ requestId }) => requestId), kept };
}

test('the first refusal of each key and window is kept until the window has room, with the host', async () => {
  const { stored, ids, kept } = storedIn();
  const note = (requestId: string, members: Partial<Exchange>, atMs = NOW_MS) =>
    stored.note(exchangeOf({ requestId, ...members }), atMs);
  note('minute', {});
  note('minute again', {});
  note('day', { window: 'day', retryAtMs: NOW_MS + 3_600_000 });
  note('ban', { judgement: 'banned', code: 'api_key_banned' });
  note('other key', { consumerId: 'key_b' });
  note('not admitted', { judgement: 'unauthenticated', consumerId: null, code: 'invalid_api_key', status: 401 });
  note('minute later', { retryAtMs: NOW_MS + 120_000 }, NOW_MS + 60_000);
  await stored.writes.flush();
  expect(ids()).toEqual(['minute', 'day', 'ban', 'other key', 'minute later']);
  expect(JSON.parse(kept[0]!.text)).toMatchObject({ gatewayHost: 'host-1', requestId: 'minute', window: 'minute' });
});

test('a caller who floods failures, or has refusals in many windows, leaves room for those of others (reliability 499)', async () => {
  const { stored, ids } = storedIn();
  const failed = { code: null, status: 500, judgement: 'admitted' } as const;
  for (let i = 0; i < 1_000; i++) {
    const consumerId = `key_${i}`;
    const of = { consumerId, accountId: `cus_c/${consumerId}`, requestId: `flood ${i}` };
    stored.note(exchangeOf({ ...of, ...failed }), NOW_MS);
    stored.note(exchangeOf({ ...of, requestId: `refused ${i}` }), NOW_MS);
  }
  stored.note(exchangeOf({ requestId: 'mine', ...failed }), NOW_MS);
  await stored.writes.flush();
  const count = (word: string) => ids().filter((id) => id.startsWith(word)).length;
  expect([count('flood'), count('refused'), count('mine')]).toEqual([12, 24, 1]);
});

test('what the store does not take is written when it is back', async () => {
  let isAway = true;
  const { stored, ids } = storedIn(() => isAway);
  stored.note(exchangeOf(), NOW_MS);
  await stored.writes.flush();
  isAway = false;
  await stored.writes.flush();
  expect(ids()).toEqual(['r']);
});
