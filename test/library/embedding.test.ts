import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type CreateGatewayOptions, createGateway, Failure, type Policy } from '../../src/library.ts';
import { atEnd } from '../support/endings.ts';
import { textOf } from '../support/guides.ts';
import { temporaryFolder } from '../support/processes.ts';
import { privateRedis } from '../support/redis.ts';
import { startUpstream } from '../support/upstream.ts';

const PLANS: CreateGatewayOptions['plans'] = {
  plans: { small: { limits: { minute: 2 } }, enterprise: { limits: { minute: 'custom' } } },
  bans: { after: 2, within: '1m', first: '1m' },
};

/** Settings of a gateway that no request reaches. */
const SETTINGS: CreateGatewayOptions['gateway'] = {
  upstreams: { store: { targets: ['http://127.0.0.1:9'] } },
  routes: [{ path: '/', methods: ['GET'], upstream: 'store' }],
};

async function startGateway(options: Partial<CreateGatewayOptions> = {}) {
  const { origin } = await startUpstream();
  const gateway = await createGateway({
    gateway: {
      upstreams: { store: { targets: [origin] } },
      routes: [{ path: '/v1/pets', methods: ['GET'], upstream: 'store' }],
    },
    plans: PLANS,
    ...options,
  });
  atEnd(() => gateway.close());
  const call = async (key: string) => {
    const response = await fetch(`${gateway.url}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });
    await response.arrayBuffer();
    return response.status;
  };
  return { gateway, call };
}

/** The folders of `createGateway` that are there. */
const temporaries = async () => (await readdir(tmpdir())).filter((name) => name.startsWith('tollgate-embedded-'));

afterEach(() => {
  vi.useRealTimers();
});

describe('policies of a gateway in the process of its caller', () => {
  const upstreams = { store: { targets: ['http://127.0.0.1:9'] } };
  const routes = [{ path: '/v1/pets', methods: ['GET'], upstream: 'store', policies: ['tenant'] }];

  test('are functions that the routes name', async () => {
    const seen: (string | null)[] = [];
    const tenant: Policy = (request, caller) => {
      seen.push(`${request.method} ${request.path}`, caller.owner);
      return { refuse: { status: 403, code: 'wrong_tenant', message: 'No.' } };
    };
    const { gateway, call } = await startGateway({ gateway: { upstreams, routes }, policies: { tenant } });
    const { key } = await gateway.operations.createKey({ plan: 'small', owner: 'acme' });
    expect([await call(key), seen]).toEqual([403, ['GET /v1/pets', 'acme']]);
  });

  test('that are missing, or no functions, are faults of the settings', async () => {
    const faultsOf = (policies: object) =>
      createGateway({
        gateway: { upstreams, routes },
        plans: PLANS,
        policies: policies as Record<string, Policy>,
      }).then(
        (gateway) => gateway.close(),
        (error: Failure) => [error.code, error.message],
      );
    expect(await faultsOf({})).toEqual([
      'bad_settings',
      'gateway: routes[0].policies[0]: is not one of the `policies` that `createGateway` was given; the program gives none.',
    ]);
    expect(await faultsOf({ tenant: 7 })).toEqual(['bad_settings', 'policies: tenant: must be a function.']);
  });
});

describe('a gateway in the process of its caller', () => {
  test('holds a key to its plan, and says what the key has used', async () => {
    const { gateway, call } = await startGateway();
    const { id, key } = await gateway.operations.createKey({ plan: 'small', name: 'a test' });
    expect([await call(key), await call(key), await call(key)]).toEqual([200, 200, 429]);
    expect(await gateway.operations.showUsage({ id })).toMatchObject({
      id,
      plan: 'small',
      windows: { minute: { limit: 2, used: 2, remaining: 0 } },
    });
    await gateway.operations.resetUsage({ id });
    expect(await call(key)).toBe(200);
  });

  test('offers the operations of the admin API by their names, which are recorded as changes of this process', async () => {
    const { gateway, call } = await startGateway();
    const { operations } = gateway;
    const made = await operations.createKey({ plan: 'small', owner: 'Acme' }, { once: 'name' });
    expect(made).not.toHaveProperty('durability');
    expect(await operations.createKey({ plan: 'small', owner: 'Acme' }, { once: 'name' })).toEqual(made);
    const { id } = made;
    const { topUp } = await operations.topUp({ id, window: 'minute', amount: 9, reason: 'mistyped' });
    expect(await operations.undoTopUp({ id, topUp })).toMatchObject({ id, amount: 9, limit: 2 });
    expect(await operations.topUp({ id, window: 'minute', amount: 1 })).toMatchObject({ id, limit: 3 });
    expect([await call(made.key), await call(made.key), await call(made.key), await call(made.key)]).toEqual([
      ...[200, 200, 200, 429],
    ]);
    const { key } = await operations.rotateKey({ id, overlap: '0s' });
    expect(await operations.resetUsage({ id, windows: ['minute'] })).toEqual({ id, windows: ['minute'], ban: null });
    expect([await call(made.key), await call(key)]).toEqual([401, 200]);
    expect(await operations.suspendKey({ id, until: '1h' })).toMatchObject({ id, suspended: { reason: null } });
    expect(await call(key)).toBe(403);
    expect(await operations.resumeKey({ id })).not.toHaveProperty('suspended');
    expect(await operations.updateKey({ id, name: 'n' })).toMatchObject({ id, name: 'n', owner: 'Acme' });
    expect((await operations.listKeys({ q: 'acm' })).keys.map(({ id }) => id)).toEqual([id]);
    const { changes } = await operations.listChanges({});
    expect(changes.map(({ action, outcome }) => `${action} ${outcome}`)).toEqual([
      ...[
        'key.update done',
        'key.resume done',
        'key.suspend done',
        'usage.reset done',
        'key.rotate done',
        'key.topup done',
        'topup.undo done',
        'key.topup done',
        'key.create repeated',
      ],
      'key.create done',
    ]);
    const wrong = operations.topUp({ id, window: 'year' as 'day', amount: 0 });
    await expect(wrong).rejects.toMatchObject({
      code: 'refused',
      message: expect.stringMatching(/^window must be one of .*\. amount must be a whole number from 1 to \d+\.$/),
    });
    await expect(operations.showUsage({ id: 'key_0' })).rejects.toMatchObject({ code: 'not_found' });
    const reused = operations.createKey({ plan: 'small' }, { once: 'name' });
    await expect(reused).rejects.toThrow(Failure);
  });

  test('reads what JavaScript passes to an operation as JSON would have it, and refuses the rest', async () => {
    const { gateway } = await startGateway();
    const { operations } = gateway;
    const { id } = await operations.createKey({ plan: 'small', limits: { minute: 1 } });
    const untyped = operations as unknown as Record<string, (...given: unknown[]) => Promise<object>>;
    expect(await untyped.updateKey!({ id, name: 'n', limits: { minute: undefined } })).toMatchObject({
      ...{ name: 'n', ownLimits: { minute: 1 } },
    });
    expect(await untyped.listBans!()).toEqual({ bans: [], cursor: null, unreadable: [] });
    for (const [name, ...given] of [
      ...['', {}, [], 5, Number.NaN, Symbol('x'), 'x'.repeat(256)].map((once) => [
        ...['topUp', { id, window: 'minute', amount: 1 }, { once }],
      ]),
      ['showKey'],
      ['showKey', {}],
      ['showKey', { id: [id] }],
      ['revokeKey', { id, dryRun: true }],
      ['listKeys', { cursor: null }],
      ['createKey', 'small'],
      ['createKey', { plan: 5n }],
      ['createKey', { plan: 'small', expiresAt: new Date('nope') }],
      ['updateKey', { id, expiresAt: Number.NaN }],
      ['updateKey', { id, limits: { minute: Number.POSITIVE_INFINITY } }],
      ['updateKey', { id, name: () => 'n' }],
    ] as [string, ...unknown[]][]) {
      const refusal = untyped[name]!(...given);
      await expect(refusal, String(given.map(String))).rejects.toMatchObject({ code: 'refused' });
      await expect(refusal).rejects.not.toThrow(/expected string/);
    }
    expect(await operations.showKey({ id })).toMatchObject({ revokedAt: null, name: 'n', ownLimits: { minute: 1 } });
    await gateway.close();
    for (const after of [operations.listBans({}), operations.revokeKey({ id }), gateway.operations.showUsage({ id })]) {
      await expect(after).rejects.toMatchObject({
        code: 'store_unavailable',
        message: expect.stringContaining('closed'),
      });
    }
  });

  test('sees the time of a faked Date, so that a test need not wait for the end of a window', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'setInterval'] });
    const { gateway, call } = await startGateway();
    // By now the gateway has read the clock of its store.
    await vi.advanceTimersByTimeAsync(1_000);
    const { key } = await gateway.operations.createKey({ plan: 'small', expiresAt: '1h' });
    expect([await call(key), await call(key), await call(key)]).toEqual([200, 200, 429]);
    vi.setSystemTime(Date.now() + 61_000);
    expect(await call(key)).toBe(200);
    vi.setSystemTime(Date.now() + 3_600_000);
    expect(await call(key)).toBe(401);
  });

  test('ends a ban when a faked Date has passed its end, also after the real time was back in between', async () => {
    const { gateway, call } = await startGateway();
    for (const ahead of [3_600_000, 0]) {
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ahead });
      const { id, key } = await gateway.operations.createKey({ plan: 'small' });
      for (let i = 0; i < 5; i += 1) await call(key);
      expect((await gateway.operations.showUsage({ id })).ban).not.toBeNull();
      expect(await call(key)).toBe(429);
      vi.setSystemTime(Date.now() + 61_000);
      expect((await gateway.operations.showUsage({ id })).ban).toBeNull();
      expect(await call(key)).toBe(200);
      vi.useRealTimers();
    }
  });

  test('throws the lines that the guide shows', async () => {
    const [, shown] = /```console\n(gateway: [\s\S]*?)```/.exec(textOf('docs/guides/embed.md'))!;
    const gateway = {
      ...SETTINGS,
      routes: [{ path: 'v1/pets', methods: ['GET' as const], upstream: 'store' }],
    };
    const made = createGateway({ gateway, plans: { plans: { free: { limits: { minute: -1 } } } } });
    await expect(made).rejects.toMatchObject({ code: 'bad_settings', message: shown!.trim() });
  });

  test('throws one Failure with every fault of the objects and of env, each with the path to the value', async () => {
    const faulty = {
      gateway: { upstreams: { store: { targets: ['ftp://x'] } }, routes: [{ path: 'no-slash', upstream: 'other' }] },
      plans: { plans: { small: { limits: { minute: -1 } } } },
      env: { PORT: 'none', ADMIN_TOKEN: 'short' },
    };
    const failure = await createGateway(faulty as unknown as CreateGatewayOptions).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Failure);
    expect((failure as Failure).code).toBe('bad_settings');
    const lines = (failure as Failure).message.split('\n');
    expect(lines.map((line) => line.split(': ').slice(0, 2).join(': ')).sort()).toEqual([
      'environment: ADMIN_TOKEN',
      'environment: PORT',
      'gateway: routes[0].methods',
      'gateway: routes[0].path',
      'gateway: routes[0].upstream',
      'gateway: upstreams.store.targets[0]',
      'plans: plans.small.limits.minute',
    ]);
  });

  test.each([
    ['nothing', undefined, /^gateway: must be an object\.$/m],
    ['a text', 'listen:', /^gateway: must be an object\.$/m],
    ['a circle', circle(), /^gateway: cannot be written as JSON/m],
    ['a number that JSON has not', { listen: { port: Number.NaN } }, /^gateway: listen\.port: must be/m],
  ])('says what is wrong with %s in place of settings', async (_, settings, message) => {
    const options = { gateway: settings, plans: PLANS } as unknown as CreateGatewayOptions;
    await expect(createGateway(options)).rejects.toThrow(message);
  });

  test('refuses what only processes of its own can do', async () => {
    const workers = { env: { WORKERS: '2' } };
    await expect(startGateway(workers)).rejects.toThrow(/^environment: WORKERS: /);
    const editing = startGateway({
      gateway: { ...SETTINGS, admin: { editPlans: true } },
    });
    await expect(editing).rejects.toThrow(/^gateway: admin\.editPlans: /);
  });

  test('leaves nothing behind: no folder, no handler of signals, no open port', async () => {
    // Of its own, because other processes on this machine make and remove such folders too.
    vi.stubEnv('TMPDIR', await temporaryFolder());
    onTestFinished(() => void vi.unstubAllEnvs());
    const handlers = process.eventNames();
    const { gateway, call } = await startGateway();
    const { key } = await gateway.operations.createKey({ plan: 'small' });
    expect(await call(key)).toBe(200);
    expect(process.eventNames()).toEqual(handlers);
    expect(await temporaries()).toHaveLength(1);
    await Promise.all([gateway.close(), gateway.close()]);
    expect(await temporaries()).toEqual([]);
    await expect(fetch(gateway.url)).rejects.toThrow();
    const elsewhere = { ...SETTINGS, listen: { host: '192.0.2.1' } };
    await expect(createGateway({ gateway: elsewhere, plans: PLANS })).rejects.toMatchObject({ code: 'cannot_listen' });
    expect(await temporaries()).toEqual([]);
  });

  test('keeps keys and counts in a folder of the caller, for the next gateway', async () => {
    const dataFolder = await temporaryFolder();
    const first = await startGateway({ dataFolder });
    const { id, key } = await first.gateway.operations.createKey({ plan: 'small' });
    expect([await first.call(key), await first.call(key)]).toEqual([200, 200]);
    await first.gateway.close();
    const second = await startGateway({ dataFolder });
    expect(await second.call(key)).toBe(429);
    expect((await second.gateway.operations.showUsage({ id })).windows.minute?.used).toBe(2);
    expect(existsSync(dataFolder)).toBe(true);
  });

  test('shares a quota with others on one Redis, which it gets from env and never from the process', async () => {
    const { url } = await privateRedis();
    const env = { REDIS_URL: url, KEY_PEPPER: 'a pepper that only the tests use' };
    const [one, other] = [await startGateway({ env }), await startGateway({ env })];
    const { key } = await one.gateway.operations.createKey({ plan: 'small' });
    expect([await one.call(key), await other.call(key), await one.call(key)]).toEqual([200, 200, 429]);
    vi.stubEnv('REDIS_URL', 'redis://127.0.0.1:1');
    atEnd(() => vi.unstubAllEnvs());
    const own = await startGateway();
    expect(await own.call((await own.gateway.operations.createKey({ plan: 'small' })).key)).toBe(200);
  });
});

function circle(): object {
  const settings: Record<string, unknown> = {};
  settings.listen = settings;
  return settings;
}
