import got from 'got';
import { beforeAll, describe, expect, test } from 'vitest';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';
import { createKey, jsonOf } from './command.ts';

const PLANS = `
plans:
  quick: { limits: { second: 6 } }
  brief: { limits: { second: 2 }, bans: { after: 4, first: 1s, factor: 2, longest: 3s } }
`;

describe('a client', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    const { origin } = await startUpstream();
    gateway = await startGateway({ upstream: origin, plans: PLANS });
  });

  test('that obeys Retry-After, with fewer requests in flight than make a ban, gets all of them through', async () => {
    const { id, key } = await createKey(gateway.env, 'quick');
    const refusals: string[] = [];
    const client = got.extend({
      headers: { authorization: `Bearer ${key}` },
      retry: { limit: 20, statusCodes: [429], maxRetryAfter: 5_000 },
      hooks: { beforeRetry: [({ response }) => void refusals.push(JSON.parse(String(response?.body)).code)] },
    });
    let toSend = 18;
    const worker = async () => {
      while (toSend-- > 0) expect((await client.get(`${gateway.origin}/v1/pets`)).statusCode).toBe(200);
    };
    // 9 in flight: one less than the rule's `after` of 10.
    await Promise.all(Array.from({ length: 9 }, worker));
    expect(refusals.length).toBeGreaterThan(0);
    expect(new Set(refusals)).toEqual(new Set(['rate_limit_exceeded']));
    const { bans } = await jsonOf(gateway.env, 'bans', 'list');
    expect(bans.map((ban: { id: string }) => ban.id)).not.toContain(id);
  });

  test('that pays no heed to it climbs the ladder, rung by rung, up to the longest ban (reliability 134)', async () => {
    const { key } = await createKey(gateway.env, 'brief');
    const bans = new Map<number, { readonly most: number; readonly least: number }>();
    for (;;) {
      const askedMs = Date.now();
      const response = await gateway.get('/v1/pets', key);
      const { code, details } = (await response.json()) as { code?: string; details: Record<string, number> };
      if (code !== 'api_key_banned') continue;
      const { ban, bannedUntil } = details as { ban: number; bannedUntil: number };
      const untilMs = bannedUntil * 1_000;
      // It began between the question and the answer.
      if (!bans.has(ban)) bans.set(ban, { most: untilMs - askedMs, least: untilMs - Date.now() });
      if (ban === 3) break;
    }
    expect([...bans.keys()]).toEqual([1, 2, 3]);
    for (const [ban, lengthMs] of [
      [1, 1_000],
      [2, 2_000],
      [3, 3_000],
    ] as const) {
      expect(bans.get(ban)?.most).toBeGreaterThanOrEqual(lengthMs);
      // `until` is told in whole seconds, rounded up.
      expect(bans.get(ban)?.least).toBeLessThanOrEqual(lengthMs + 1_000);
    }
  });
});
