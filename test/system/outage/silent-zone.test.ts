import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { PLANS } from '../../support/gateway.ts';
import { startNameServer } from '../../support/name-server.ts';
import { privateRedis } from '../../support/private-redis.ts';
import { runTollgate, startTollgate } from '../../support/processes.ts';
import { redisCommand } from '../../support/redis-command.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { startUpstream } from '../../support/upstream.ts';

const OTHER_NAME_SERVER = join(import.meta.dirname, '..', '..', 'support', 'other-name-server.ts');

// Attack: one key calls a service whose zone is silent; so are those of the issuer of tokens and of the collector. getaddrinfo
// was run for each new connection, two at a time and for 10 s or more, and every other name of the process waited behind them.
test('a silent zone keeps neither services nor Redis away (reliability 230)', async () => {
  const names = await startNameServer((name) =>
    name.endsWith('.good.test') ? { addresses: ['127.0.0.1'], ttl: 1 } : 'silent',
  );
  const service = await startUpstream((_request, response) => response.setHeader('Connection', 'close').end('[]'));
  const redis = await privateRedis({ asProcess: true });
  const folder = await temporaryFolder();
  const env = {
    TOLLGATE_CONFIG: join(folder, 'gateway.yaml'),
    TOLLGATE_PLANS: join(folder, 'plans.yaml'),
    TOLLGATE_DATA: join(folder, 'data'),
    REDIS_URL: redis.url.replace('127.0.0.1', 'redis.good.test'),
    KEY_PEPPER: 'a-pepper-of-this-test-that-is-long-enough',
    NAME_SERVER: names.address,
    NODE_OPTIONS: `--import ${OTHER_NAME_SERVER}`,
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector.bad.test:4318',
    OTEL_BSP_SCHEDULE_DELAY: '50',
  };
  await writeFile(env.TOLLGATE_PLANS, PLANS);
  await writeFile(
    env.TOLLGATE_CONFIG,
    `listen: { port: 0 }
admin: { port: 0 }
redis: { timeout: 2s }
jwt: { issuer: 'https://id.bad.test/', audience: pets, jwks: 'https://id.bad.test/jwks.json', algorithms: [ES256] }
upstreams:
  good: { targets: ['http://pets.good.test:${service.port}'], health: { path: / } }
  bad: { targets: ['http://pets.bad.test:9'], connectTimeout: 500ms }
routes:
  - { path: /good, methods: [GET], upstream: good }
  - { path: /bad, methods: [GET], upstream: bad }
`,
  );
  const process = await startTollgate(['serve'], { env });
  const [line] = await process.until(/^\{.*"msg":"serving"\}$/m);
  const { port, admin } = JSON.parse(line) as { port: number; admin: number };
  const created = await runTollgate(['keys', 'create', '--plan', 'endless', '--json'], { env });
  const { key } = JSON.parse(created.stdout) as { key: string };
  const statusOf = async (path: string) => {
    const headers = { Authorization: `Bearer ${key}` };
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
    await response.arrayBuffer();
    return response.status;
  };

  let isOver = false;
  const bad: number[] = [];
  const callers = Array.from({ length: 8 }, async () => {
    while (!isOver) bad.push(await statusOf('/bad'));
  });
  await eventually(() => bad.length >= 8);
  for (let i = 0; i < 40; i++) expect(await statusOf('/good')).toBe(200);
  await redisCommand(redis.url, 'CLIENT', 'KILL', 'TYPE', 'normal');
  await eventually(async () => {
    const { store } = (await (await fetch(`http://127.0.0.1:${admin}/readyz`)).json()) as { store: string };
    return store === 'present' && (await statusOf('/good')) === 200;
  });
  isOver = true;
  await Promise.all(callers);

  expect(new Set(bad)).toEqual(new Set([504]));
  await process.until(/the name servers have not answered for pets\.bad\.test/);
  // One at a time, of 3 s each: as many as the test has lasted, however many requests there were.
  expect(names.asked.get('pets.bad.test')).toBeLessThan(bad.length);
  expect(process.stderr).not.toContain('getaddrinfo');
});
