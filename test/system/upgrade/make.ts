// Makes the stores of an earlier version, from which test/system/upgrade/upgrade.test.ts goes on:
//
//   git archive COMMIT | tar -x -C FOLDER && ln -s "$PWD/node_modules" FOLDER/node_modules
//   node test/system/upgrade/make.ts FOLDER REDIS_URL test/system/upgrade/VERSION
//
// REDIS_URL names an empty server. Those of 0.1.0 are made by cc9d6b3, the last commit before sliding windows, weeks and months,
// and the usage history.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Redis } from 'ioredis';
import { type Facts, PEPPER, type StoredName } from './fixture.ts';

const [old, redisUrl, target] = process.argv.slice(2) as [string, string, string];
const program = join(old, 'bin', 'tollgate.js');
const service = createServer((_request, response) => response.end('[]')).listen(0, '127.0.0.1');
await once(service, 'listening');
const files = mkdtempSync(join(tmpdir(), 'tollgate-made-'));
writeFileSync(
  join(target, 'gateway.yaml'),
  `listen: { port: 0 }
admin: { port: 0 }
upstreams:
  store: { targets: ['http://127.0.0.1:9000'] }
routes:
  - { path: /v1/pets, methods: [GET], upstream: store }
  - { path: /v1/old, methods: [GET], upstream: store, deprecated: { since: 2025-12-05, sunset: 2035-12-05, successor: /v1/pets } }
`,
);
writeFileSync(
  join(target, 'plans.yaml'),
  `plans:
  free: { limits: { minute: 60, day: 1000 } }
  small: { limits: { minute: 2, day: 1000 } }
  enterprise: { limits: { minute: custom, day: custom } }
bans: { after: 2, within: 1m, first: 6h, factor: 2, longest: 24h, forget: 24h }
`,
);
for (const name of ['embedded', 'redis'] as const) {
  const env = {
    ...process.env,
    UPSTREAM_URL: `http://127.0.0.1:${(service.address() as AddressInfo).port}`,
    TOLLGATE_CONFIG: join(target, 'gateway.yaml'),
    TOLLGATE_PLANS: join(target, 'plans.yaml'),
    TOLLGATE_DATA: join(files, name),
    KEY_PEPPER: PEPPER,
    ...(name === 'redis' ? { REDIS_URL: redisUrl } : {}),
  };
  const gateway = spawn(process.execPath, [program, 'serve'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const port = await portOf(gateway);
  const facts = await fill(port, (...words) =>
    execFileSync(process.execPath, [program, ...words], { env, encoding: 'utf8' }),
  );
  gateway.kill('SIGTERM');
  await once(gateway, 'exit');
  writeFileSync(join(target, `${name}-facts.json`), `${JSON.stringify(facts, null, 2)}\n`);
}
// Everything into the one file, which git keeps.
const database = join(files, 'embedded', 'tollgate.db');
new DatabaseSync(database).exec('PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE; VACUUM');
copyFileSync(database, join(target, 'tollgate.db'));
writeFileSync(join(target, 'redis.json'), `${JSON.stringify(await namesIn(redisUrl), null, 1)}\n`);
service.close();

async function portOf(gateway: ChildProcess): Promise<number> {
  let output = '';
  for await (const chunk of gateway.stdout!) {
    output += chunk;
    const line = /^\{.*"msg":"serving"\}$/m.exec(output);
    if (line !== null) {
      gateway.stdout!.on('data', () => {});
      return (JSON.parse(line[0]) as { port: number }).port;
    }
  }
  throw new Error('The gateway ended before it served.');
}

async function fill(port: number, command: (...words: string[]) => string): Promise<Facts> {
  const make = (...words: string[]) =>
    JSON.parse(command('keys', 'create', '--json', ...words)) as { id: string; key: string };
  const call = async ({ key }: { key: string }, path: string, times: number) => {
    for (let i = 0; i < times; i += 1) {
      await (await fetch(`http://127.0.0.1:${port}${path}`, { headers: { Authorization: `Bearer ${key}` } })).text();
    }
  };
  const keys = {
    used: make('--plan', 'free', '--name', 'used'),
    banned: make('--plan', 'small', '--owner', 'Jo'),
    rotated: make('--plan', 'free'),
    revoked: make('--plan', 'free'),
    custom: make('--plan', 'enterprise', '--limit', 'minute=5', '--limit', 'day=50'),
  };
  await call(keys.used, '/v1/pets', 7);
  await call(keys.used, '/v1/old', 3);
  await call(keys.banned, '/v1/pets', 5);
  await call(keys.custom, '/v1/pets', 4);
  const rotated = JSON.parse(command('keys', 'rotate', keys.rotated.id, '--overlap', '365d', '--json')) as {
    key: string;
  };
  command('keys', 'revoke', keys.revoked.id);
  // A gateway writes its counts of deprecated calls within seconds, and at its end.
  return { madeAtMs: Date.now(), keys, rotatedTo: rotated.key };
}

async function namesIn(url: string): Promise<StoredName[]> {
  const redis = new Redis(url);
  const found: StoredName[] = [];
  for (const name of (await redis.keys('*')).sort()) {
    const [type, expiresAtMs] = [await redis.type(name), await redis.pexpiretime(name)];
    const read: Record<string, () => Promise<string[]>> = {
      string: async () => [(await redis.get(name))!],
      hash: async () => Object.entries(await redis.hgetall(name)).flat(),
      list: () => redis.lrange(name, 0, -1),
      zset: async () => (await redis.zrange(name, '0', '-1', 'WITHSCORES')) as string[],
    };
    found.push({ name, type: type as StoredName['type'], values: await read[type]!(), expiresAtMs });
  }
  redis.disconnect();
  return found;
}
