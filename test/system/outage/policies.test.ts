import { describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { runTollgate } from '../../support/processes.ts';
import { LATE_MS } from '../../support/room.ts';
import {
  admittedOf,
  expectExpiries,
  LIMIT,
  longestOf,
  type Stand,
  startStand,
  statusesOf,
  TIMEOUT_MS,
} from './stand.ts';

const readyz = async ({ gateways }: Stand) => {
  const response = await fetch(`http://127.0.0.1:${gateways[0]!.adminPort}/readyz`);
  return { http: response.status, ...((await response.json()) as object) };
};

async function used(stand: Stand, plan: string) {
  const created = await stand.gateways[0]!.createKey(plan);
  await stand.ask(created.key, 1);
  return created;
}

describe('while Redis is away', () => {
  test('a key that was never seen gets 503, and a revocation made meanwhile binds within a second of its return', async () => {
    const stand = await startStand();
    const [kept, revoked] = [await used(stand, 'plain'), await used(stand, 'plain')];
    const fresh = await stand.gateways[0]!.createKey('plain');
    stand.link.become('cut');
    const unseen = await stand.ask(fresh.key, 2);
    expect(statusesOf(unseen)).toEqual([503]);
    expect(longestOf(unseen)).toBeLessThan(TIMEOUT_MS + LATE_MS);
    await stand.until('away');
    // An operator whose way to Redis is open.
    const env = { ...stand.gateways[0]!.env, REDIS_URL: stand.redis.url };
    expect(await runTollgate(['keys', 'revoke', revoked.id], { env })).toMatchObject({ code: 0 });
    expect(statusesOf(await stand.ask(revoked.key, 2))).toEqual([200]);
    expect(await readyz(stand)).toMatchObject({
      http: 200,
      store: 'away',
      outage: { reason: expect.any(String), lastsMs: expect.any(Number) },
    });
    stand.link.become('passes');
    await stand.until('present');
    expect(await readyz(stand)).not.toHaveProperty('outage');
    await eventually(async () => expect(statusesOf(await stand.ask(revoked.key, 1))).toEqual([401]), {
      withinMs: 1_000,
    });
    expect(statusesOf(await stand.ask(kept.key, 2))).toEqual([200]);
    expect(statusesOf(await stand.ask(fresh.key, 2))).toEqual([200]);
  });

  test('a known key works for staleKeys and no longer', async () => {
    const stand = await startStand({ size: 1, staleKeys: '2s' });
    const { key } = await used(stand, 'plain');
    stand.link.become('cut');
    expect(statusesOf(await stand.ask(key, 2))).toEqual([200]);
    await eventually(async () => expect(statusesOf(await stand.ask(key, 1))).toEqual([503]), {
      withinMs: 4_000,
      everyMs: 200,
    });
    stand.link.become('passes');
    await stand.until('present');
    expect(statusesOf(await stand.ask(key, 1))).toEqual([200]);
  });

  test('`local` strikes and bans as ever, and what it bans alone ends with the outage (reliability 144)', async () => {
    const stand = await startStand({ size: 1 });
    const { id, key } = await used(stand, 'strict');
    stand.link.become('cut');
    await stand.until('away');
    const codes = [];
    for (let i = 0; i < 5; i++) {
      codes.push(((await (await stand.gateways[0]!.get('/v1/pets', key)).json()) as { code?: string }).code);
    }
    // One was admitted before; two strikes, and the third is the ban.
    expect(codes).toEqual([
      undefined,
      'rate_limit_exceeded',
      'rate_limit_exceeded',
      'api_key_banned',
      'api_key_banned',
    ]);
    stand.link.become('passes');
    await stand.until('present');
    const { code } = (await (await stand.gateways[0]!.get('/v1/pets', key)).json()) as { code?: string };
    expect(code).toBe('rate_limit_exceeded');
    expect(await stand.counted(id)).toBe(2);
    await expectExpiries(stand);
  });

  test('`closed` answers 503 and is not ready, and admits what is left when Redis is back', async () => {
    const stand = await startStand({ size: 1, onFailure: 'closed' });
    const { id, key } = await used(stand, 'plain');
    stand.link.become('hangs');
    const during = await stand.ask(key, LIMIT);
    expect(statusesOf(during)).toEqual([503]);
    expect(longestOf(during)).toBeLessThan(TIMEOUT_MS + LATE_MS);
    await stand.until('away');
    expect(await readyz(stand)).toMatchObject({ http: 503, store: 'away' });
    stand.link.become('passes');
    await stand.until('present');
    expect(admittedOf(await stand.ask(key, LIMIT))).toBe(LIMIT - 1);
    expect(await stand.counted(id)).toBe(LIMIT);
  });

  test('`open` lets everything through uncounted, but for a key that is banned', async () => {
    const stand = await startStand({ size: 1, onFailure: 'open' });
    const { id, key } = await used(stand, 'plain');
    const banned = await used(stand, 'strict');
    await stand.ask(banned.key, 5);
    stand.link.become('cut');
    expect(statusesOf(await stand.ask(key, LIMIT))).toEqual([200]);
    expect(statusesOf(await stand.ask(banned.key, 2))).toEqual([429]);
    stand.link.become('passes');
    await stand.until('present');
    expect(await stand.counted(id)).toBe(1);
    expect(admittedOf(await stand.ask(key, LIMIT))).toBe(LIMIT - 1);
  });
});
