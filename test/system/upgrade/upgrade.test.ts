import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { type CreateGatewayOptions, createGateway } from '../../../src/library.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { privateRedis } from '../../support/redis.ts';
import { startUpstream } from '../../support/upstream.ts';
import { factsOf, PEPPER, restoreRedis } from './fixture.ts';

// Fault: an upgrade after which a revoked key works, a ban or a count is gone, or a key of a customer does not work.

const VERSIONS = ['0.1.0'];
const TOKEN = 'a-token-that-only-the-tests-use';

/** A gateway of this version on the store and the settings of an earlier one, a moment after that one has ended. */
async function upgraded(version: string, store: 'embedded' | 'redis') {
  const facts = factsOf(version, store);
  const settings = (name: string) => parse(readFileSync(join(import.meta.dirname, version, name), 'utf8'));
  const { origin } = await startUpstream();
  const env = { UPSTREAM_URL: origin, KEY_PEPPER: PEPPER, ADMIN_TOKEN: TOKEN };
  // On a busy machine, Redis may be late: what it keeps is tested here, and not what a gateway does without it.
  const patient = { ...settings('gateway.yaml'), redis: { timeout: '1m' } };
  const files = { gateway: patient, plans: settings('plans.yaml') } as CreateGatewayOptions;
  const gateway = await createGateway({ ...files, ...(await opened()), env: { ...env, ...(await redisOf()) } });
  atEnd(() => gateway.close());
  const call = async (key: string, path = '/v1/pets') => {
    const response = await fetch(`${gateway.url}${path}`, { headers: { Authorization: `Bearer ${key}` } });
    return [response.status, ((await response.json().catch(() => null)) as { code?: string } | null)?.code ?? null];
  };
  const ask = async (path: string) => {
    const response = await fetch(`${gateway.adminUrl}/admin${path}`, { headers: { Authorization: `Bearer ${TOKEN}` } });
    return response.json();
  };
  return { gateway, call, ask, facts };

  async function opened() {
    if (store === 'redis') return {};
    const dataFolder = await temporaryFolder();
    copyFileSync(join(import.meta.dirname, version, 'tollgate.db'), join(dataFolder, 'tollgate.db'));
    vi.useFakeTimers({ toFake: ['Date'], now: facts.madeAtMs + 1_000 });
    return { dataFolder };
  }

  async function redisOf() {
    if (store === 'embedded') return {};
    const { url } = await privateRedis();
    await restoreRedis(version, url);
    return { REDIS_URL: url };
  }
}

afterEach(() => {
  vi.useRealTimers();
});

describe.each(VERSIONS)('a store of version %s', (version) => {
  describe.each(['embedded', 'redis'] as const)('%s', (store) => {
    test('keeps its keys: those that worked work, those that were revoked do not', async () => {
      const { call, facts, gateway } = await upgraded(version, store);
      const { used, rotated, revoked, custom } = facts.keys;
      for (const key of [used.key, rotated.key, facts.rotatedTo, custom.key]) {
        await eventually(async () => expect((await call(key))[0]).toBe(200));
      }
      expect(await call(revoked.key)).toEqual([401, 'invalid_api_key']);
      await gateway.operations.revokeKey({ id: rotated.id });
      for (const key of [rotated.key, facts.rotatedTo]) expect((await call(key))[0]).toBe(401);
    });

    test('keeps what was counted, and goes on from there', async () => {
      const { call, facts, gateway } = await upgraded(version, store);
      const { used, custom } = facts.keys;
      const windowsOf = async (id: string) => (await gateway.operations.showUsage({ id })).windows;
      expect(await windowsOf(used.id)).toMatchObject({ minute: { used: 10 }, day: { limit: 1_000, used: 10 } });
      expect((await call(used.key))[0]).toBe(200);
      expect(await windowsOf(used.id)).toMatchObject({ minute: { used: 11 }, day: { used: 11, remaining: 989 } });
      // Four of five before the upgrade.
      expect([await call(custom.key), await call(custom.key)]).toEqual([
        [200, null],
        [429, 'rate_limit_exceeded'],
      ]);
    });

    test('keeps a ban, which can be lifted', async () => {
      const { call, facts, gateway, ask } = await upgraded(version, store);
      const { banned } = facts.keys;
      expect(await call(banned.key)).toEqual([429, 'api_key_banned']);
      expect((await gateway.operations.showUsage({ id: banned.id })).ban).toMatchObject({ number: 1 });
      expect(await ask('/bans')).toMatchObject({ bans: [{ id: banned.id }] });
      await gateway.operations.liftBan({ id: banned.id });
      await gateway.operations.resetUsage({ id: banned.id });
      await eventually(async () => expect((await call(banned.key))[0]).toBe(200));
    });

    test('keeps the record of changes and the calls of deprecated routes', async () => {
      const { ask, facts } = await upgraded(version, store);
      const { changes } = (await ask('/audit')) as { changes: readonly { action: string }[] };
      expect(changes.map(({ action }) => action)).toEqual([
        'key.revoke',
        'key.rotate',
        ...Array.from({ length: 5 }, () => 'key.create'),
      ]);
      expect(JSON.stringify(await ask('/deprecations'))).toContain(facts.keys.used.id);
    });

    test('begins what that version did not keep', async () => {
      const { call, facts, ask } = await upgraded(version, store);
      const { used } = facts.keys;
      await call(used.key);
      expect(await ask(`/keys/${used.id}/history`)).toMatchObject({ step: 'hour', buckets: [{ admitted: 1 }] });
    });
  });
});
