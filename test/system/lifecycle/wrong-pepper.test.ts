import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { digestOf, mint } from '../../../src/identify/api-key.ts';
import { withStore } from '../../../src/serve/open-store.ts';
import { auditLines } from '../../admin/operator.ts';
import { STORES } from '../../cli/ledger-commands.ts';
import { eventually } from '../../support/conditions.ts';
import { openGateway, openReplica, type TestGateway } from '../../support/gateway.ts';
import { runTollgate } from '../../support/processes.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';
import { runCommand as run } from '../../support/run-command.ts';
import { startUpstream } from '../../support/upstream.ts';

const [RIGHT, WRONG, NEXT] = [
  'the right pepper of the tests',
  'a wrong pepper of the tests',
  'the next pepper of the tests',
];
const REFUSAL = 'KEY_PEPPER is missing, or it is not the pepper under which the keys in this store are made';

const readiness = async ({ adminPort }: TestGateway) => {
  const response = await fetch(`http://127.0.0.1:${adminPort}/readyz`);
  return { ...((await response.json()) as object), status: response.status };
};
const metricOf = async ({ adminPort }: TestGateway, name: string) => {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  return Number(new RegExp(`^${RegExp.escape(name)} (\\d)$`, 'm').exec(text)?.[1]);
};
const mismatchOf = (gateway: TestGateway) => metricOf(gateway, 'tollgate_pepper_mismatch');

// Attack by a slip: a gateway or a command gets the pepper of another environment. It answers every good key with 401, or
// makes keys that no gateway knows.
describe.each(Object.keys(STORES))(
  'a KEY_PEPPER that is not that of the store is refused (reliability 157), on %s',
  (name) => {
    test('by every command that reads or makes keys, which then does nothing', async () => {
      const env: NodeJS.ProcessEnv = { ...(await STORES[name]!()), KEY_PEPPER: RIGHT };
      const { id } = JSON.parse((await run(env, 'keys', 'create', '--plan', 'pro', '--json')).stdout);
      const commands = [
        ['keys', 'create', '--plan', 'pro'],
        ['keys', 'list'],
        ['keys', 'show', id],
        ['keys', 'update', id, '--name', 'n'],
        ['keys', 'rotate', id],
        ['keys', 'revoke', id],
        ['keys', 'export'],
        ['usage', id],
      ];
      const before = (await run(env, 'keys', 'export', '--all', '--json')).stdout;
      for (const words of commands) {
        const { code, stdout, stderr } = await run({ ...env, KEY_PEPPER: WRONG }, ...words);
        expect([words, code, stdout, stderr]).toEqual([words, 1, '', expect.stringContaining(REFUSAL)]);
      }
      expect((await run(env, 'keys', 'export', '--all', '--json')).stdout).toBe(before);
    });

    test('by a gateway, which does not start; one with the right pepper does, and counts what still needs the old one (reliability 590)', async () => {
      const upstream = await startUpstream();
      const env = { ...(await STORES[name]!()), KEY_PEPPER: RIGHT } as Record<string, string>;
      const gateway = await openGateway({ upstream: upstream.origin, env });
      const { id, key } = await gateway.createKey('free');
      const { id: unused } = await gateway.createKey('free');
      expect(await readiness(gateway)).not.toHaveProperty('pepper');
      expect(await mismatchOf(gateway)).toBe(0);
      await gateway.process.stop();
      const { code, stderr } = await runTollgate(['serve'], { env: { ...gateway.env, KEY_PEPPER: WRONG } });
      expect([code, stderr]).toEqual([1, expect.stringContaining(REFUSAL)]);
      // The change of a pepper goes on working, step by step.
      // The embedded store of the tests has made one in its folder.
      const ownPepper = env.TOLLGATE_DATA !== undefined;
      const steps = [
        [`${RIGHT},${NEXT}`, { current: 2, old: 0, removed: 0 }, 'not_needed', 'current', [id, unused]],
        [`${NEXT},${RIGHT}`, { current: 1, old: 1, removed: 0 }, 'needed', 'old', [unused]],
        [NEXT, { current: 1, old: 0, removed: 1 }, ownPepper ? 'not_needed' : 'none', 'removed', [unused]],
      ] as const;
      for (const [KEY_PEPPER, counts, oldPepper, listed, ids] of steps) {
        const next = await openReplica({ ...gateway, env: { ...gateway.env, KEY_PEPPER } });
        expect((await next.get('/v1/pets', key)).status).toBe(200);
        if (KEY_PEPPER === `${NEXT},${RIGHT}`) {
          // It is put under the newest pepper in the background.
          await withStore({ ...gateway.env, KEY_PEPPER }, ({ keys }) =>
            eventually(async () => expect(await keys.findByDigest(digestOf(key, NEXT))).not.toBeNull()),
          );
        }
        const rehashed = KEY_PEPPER === `${NEXT},${RIGHT}` ? 1 : 0;
        await eventually(async () => expect(await metricOf(next, 'tollgate_rehashed_secrets_total')).toBe(rehashed));
        const told = async (...words: string[]) => {
          const { stdout } = await run({ ...gateway.env, KEY_PEPPER }, 'keys', ...words, '--json');
          return JSON.parse(stdout);
        };
        const peppers = { ...counts, unknown: 0 };
        expect(await told('secrets')).toMatchObject({ peppers, oldPepper, unreadable: [] });
        const { keys } = (await told('list', '--pepper', listed)) as { keys: readonly { id: string }[] };
        expect(keys.map((one) => one.id)).toEqual(ids);
        // The gateway counts when it starts, perhaps before the secret was hashed again.
        if (KEY_PEPPER === NEXT) {
          await eventually(async () => expect(await metricOf(next, 'tollgate_secrets{pepper="removed"}')).toBe(1));
        }
        await next.process.stop();
      }
    });
  },
);

describe('a gateway that reaches its Redis after it has started', () => {
  test('says that its pepper is wrong, refuses no good key, and serves when it is right', async () => {
    const server = await privateRedis();
    const upstream = await startUpstream();
    const store = { REDIS_URL: server.url, KEY_PEPPER: RIGHT };
    const first = await openGateway({ upstream: upstream.origin, env: store });
    const { key } = await first.createKey('free');
    const record = String(await redisCommand(server.url, 'GET', 'tg:peppers'));
    await first.process.stop();
    await redisCommand(server.url, 'SAVE');
    await server.stop();
    const gateway = await openReplica({
      ...first,
      env: { ...first.env, KEY_PEPPER: WRONG, ADMIN_TOKEN: 'a-token-for-tests' },
    });
    expect(await readiness(gateway)).toMatchObject({ status: 503, store: 'never_reached' });
    // As soon as Redis answers, and before the gateway has compared the peppers, it makes no key either.
    const creation = async () => {
      const response = await fetch(`http://127.0.0.1:${gateway.adminPort}/admin/keys`, {
        method: 'POST',
        headers: { Authorization: 'Bearer a-token-for-tests', 'Content-Type': 'application/json' },
        body: '{"plan":"free"}',
      });
      return [response.status, ((await response.json()) as { code?: string }).code];
    };
    await server.restart({ keepData: true });
    const answers: unknown[] = [];
    await eventually(async () => {
      answers.push(await creation());
      expect(await readiness(gateway)).toMatchObject({ status: 503, store: 'present', pepper: 'mismatch' });
    });
    expect(answers).toEqual(answers.map(() => [503, 'store_unavailable']));
    await eventually(() =>
      expect(auditLines(gateway).map(({ outcome }) => outcome)).toEqual(answers.map(() => 'refused')),
    );
    expect(await mismatchOf(gateway)).toBe(1);
    // A right checksum may be a good key; what cannot be one is told as ever.
    expect((await gateway.get('/v1/pets', key)).status).toBe(503);
    expect((await gateway.get('/v1/pets', 'tg_live_nonsense')).status).toBe(401);
    expect(await creation()).toEqual([503, 'store_unavailable']);
    await gateway.process.until(
      /^\{"level":50.*"pepper":"mismatch","reason":"KEY_PEPPER is missing.*"msg":"the pepper is wrong"\}$/m,
    );

    await redisCommand(server.url, 'DEL', 'tg:peppers');
    await eventually(async () => expect(await readiness(gateway)).toMatchObject({ status: 200, store: 'present' }));
    expect(await mismatchOf(gateway)).toBe(0);
    await gateway.process.until(/"msg":"the pepper is right again"/);
    // Nothing but this gateway's word says so, and it says that.
    await gateway.process.until(/The present KEY_PEPPER is taken for theirs/);
    expect(record).not.toBe(await redisCommand(server.url, 'GET', 'tg:peppers'));
  });
});

test.each(['the embedded store', 'Redis'])(
  'a key with a right checksum and no record has a cause in the log, on %s',
  async (name) => {
    const upstream = await startUpstream();
    const gateway = await openGateway({
      upstream: upstream.origin,
      env: (await STORES[name]!()) as Record<string, string>,
    });
    expect((await gateway.get('/v1/pets', mint(randomBytes))).status).toBe(401);
    const [line] = await gateway.process.until(/^\{.*"code":"invalid_api_key".*"msg":"request"\}$/m);
    expect(JSON.parse(line)).toMatchObject({ cause: 'the key is well-formed, and the store has no record of it' });
  },
);
