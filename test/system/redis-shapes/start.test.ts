import { createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { openGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listening.ts';
import { runTollgate, startTollgate, temporaryFolder } from '../../support/processes.ts';
import { privateRedis, redisCommand } from '../../support/redis.ts';
import { ROOM } from '../../support/room.ts';
import { entriesOf } from '../../support/run-command.ts';
import { startUpstream } from '../../support/upstream.ts';

const KEY_PEPPER = 'a pepper that only the tests use';

/** What `tollgate keys list` and the log of a gateway say of a store with which neither may work. */
async function refusalsOf(url: string): Promise<{ command: string; gateway: string }> {
  const env = { REDIS_URL: url, KEY_PEPPER, TOLLGATE_DATA: await temporaryFolder(), PORT: '0', ADMIN_PORT: '0' };
  const [command, gateway] = await Promise.all([
    runTollgate(['keys', 'list'], { env }),
    startTollgate(['serve'], { env }),
  ]);
  expect(command.code).toBe(1);
  expect((await gateway.exit).code).toBe(1);
  return { command: command.stderr, gateway: gateway.stderr };
}

/** Speaks like a Redis of some version. */
async function redisOfVersion(version: string): Promise<string> {
  const info = `redis_version:${version}\r\nredis_mode:standalone\r\nrole:master\r\n`;
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      for (const command of chunk.toString('latin1').split(/(?=\*\d+\r\n)/)) {
        if (/\r\nhello\r\n/i.test(command)) socket.write("-ERR unknown command 'HELLO'\r\n");
        else if (/\r\ninfo\r\n/i.test(command)) socket.write(`$${info.length}\r\n${info}\r\n`);
        else socket.write('+OK\r\n');
      }
    });
    atEnd(() => socket.destroy());
  });
  atEnd(() => server.close());
  return `redis://127.0.0.1:${(await listen(server)).port}`;
}

describe('a store that cannot be right is refused, by commands and gateways, with what to do', () => {
  test('a database that is not there', async () => {
    const { url } = await privateRedis({ configArgs: ['--databases', '2'] });
    const { command, gateway } = await refusalsOf(`${url}/7`);
    for (const said of [command, gateway])
      expect(said).toMatch(/database 7: there is no such database. Choose another/);
  });

  test('a Redis that is too old', async () => {
    const { command, gateway } = await refusalsOf(await redisOfVersion('4.0.14'));
    for (const said of [command, gateway])
      expect(said).toMatch(/is version 4\.0\.14, and Tollgate needs 5\.0 or later/);
  });

  test('a node of a cluster that is taken for a single server, and the other way round', async () => {
    const node = await privateRedis({ asProcess: true, configArgs: ['--cluster-enabled', 'yes'] });
    const one = await refusalsOf(node.url);
    for (const said of Object.values(one)) expect(said).toMatch(/node of a cluster. Write redis\+cluster:\/\/ instead/);
    const single = await privateRedis();
    const other = await refusalsOf(`redis+cluster://${new URL(single.url).host}`);
    for (const said of Object.values(other))
      expect(said).toMatch(/a single server, not a cluster. Write redis:\/\/ instead/);
  });

  test('a Sentinel that is taken for a Redis', async () => {
    const sentinel = await privateRedis({ sentinel: ['sentinel monitor main 127.0.0.1 1 1'] });
    const { command, gateway } = await refusalsOf(sentinel.url);
    for (const said of [command, gateway]) expect(said).toMatch(/is a Sentinel and no Redis. Write redis\+sentinel:/);
  });
});

test('a cluster of which no node can be reached is said, and why', async () => {
  const env = { REDIS_URL: 'redis+cluster://127.0.0.1:1', KEY_PEPPER };
  const { code, stderr } = await runTollgate(['keys', 'list'], { env });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^Redis at 127\.0\.0\.1:1 \(cluster\) does not answer \(ECONNREFUSED\)\. Check REDIS_URL/);
});

test('a cluster that wants another password says so at once', async () => {
  const node = await privateRedis({
    asProcess: true,
    configArgs: ['--cluster-enabled', 'yes', '--requirepass', 'right'],
  });
  const env = { REDIS_URL: `redis+cluster://:wrong@127.0.0.1:${node.port}`, KEY_PEPPER };
  const { code, stderr } = await runTollgate(['keys', 'list'], { env });
  expect(code).toBe(1);
  expect(stderr).toMatch(/refuses us \(WRONGPASS\)/);
  expect(stderr).not.toContain('wrong');
});

test('a wrong password is said, and the gateway waits for the right one (reliability 107)', async () => {
  const { url } = await privateRedis({ configArgs: ['--requirepass', 'right'] });
  const { origin } = await startUpstream();
  const env = { REDIS_URL: url.replace('right', 'wrong'), KEY_PEPPER };
  const gateway = await openGateway({ upstream: origin, env });
  await gateway.process.until(/refuses us \(WRONGPASS\)\. Check user and password in REDIS_URL/);
  await redisCommand(url, 'CONFIG', 'SET', 'requirepass', 'wrong');
  await expect
    .poll(async () => (await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`)).status, { timeout: 5_000 * ROOM })
    .toBe(200);
});

describe('why there is no connection is said by /readyz and the line of the outage, without a stack (reliability 377)', () => {
  test.each([
    ['a wrong password', (url: string) => url.replace('right', 'wrong'), 'refuses us (WRONGPASS)'],
    ['no password', (url: string) => url.replace(/[^/]*@/, ''), 'refuses us (NOAUTH)'],
    ['a name without an address', () => 'redis://redis.invalid:6379', 'does not answer (ENOTFOUND)'],
    ['a port where nothing listens', () => 'redis://127.0.0.1:1', 'does not answer (ECONNREFUSED)'],
  ])('%s', async (_what, urlOf, why) => {
    const { url } = await privateRedis({ configArgs: ['--requirepass', 'right'] });
    const { origin } = await startUpstream();
    const gateway = await openGateway({ upstream: origin, env: { REDIS_URL: urlOf(url), KEY_PEPPER } });
    // A call that fails without a connection would be reported as such.
    await eventually(async () => {
      await gateway.get('/v1/pets', 'tg_live_unknown');
      const response = await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`);
      const { outage } = (await response.json()) as { outage?: { reason: string } };
      expect(outage?.reason).toContain(`Redis ${why}.`);
    });
    const [away] = await gateway.process.until(/^.*"msg":"the store is away"}$/m);
    expect(JSON.parse(away).reason).toContain(`Redis ${why}.`);
    const { stdout } = gateway.process;
    expect(stdout).not.toContain('"stack"');
    expect(stdout).not.toMatch(/right|wrong/);
  });

  test('a database that there is not', async () => {
    const { url } = await privateRedis();
    const { gateway } = await refusalsOf(`${url.replace(/\/\d*$/, '')}/99`);
    expect(gateway).toContain('there is no such database');
    expect(gateway).not.toMatch(/^\s+at /m);
  });
});

describe('a Redis that may drop bans to make room', () => {
  const EVICTING = ['--maxmemory', '100mb', '--maxmemory-policy', 'volatile-lru'];

  test('is warned of, by commands on standard error and once by a gateway, with what to set (reliability 108)', async () => {
    const { url } = await privateRedis({ configArgs: EVICTING });
    const { origin } = await startUpstream();
    const gateway = await openGateway({ upstream: origin, env: { REDIS_URL: url, KEY_PEPPER } });
    const { code, stdout, stderr } = await runTollgate(['keys', 'list', '--json'], { env: gateway.env });
    expect([code, entriesOf(stdout)]).toEqual([0, []]);
    expect(stderr).toMatch(
      /^warning: Redis at .* forgets quotas and bans when it is full \(maxmemory-policy volatile-lru\)/,
    );
    // Each connection is inspected. Of what the next one finds only the news is reported.
    await gateway.process.until(/Set `maxmemory-policy noeviction`/);
    await redisCommand(url, 'ACL', 'SETUSER', new URL(url).username, '-getrange', '-bitfield');
    await redisCommand(url, 'CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await gateway.process.until(/no usage history is kept/);
    expect(gateway.process.stdout.match(/Set `maxmemory-policy noeviction`/g)).toHaveLength(1);
  });

  test('is not warned of while it has no bound that it could reach, or keeps all it has', async () => {
    for (const configArgs of [EVICTING.slice(2), [...EVICTING.slice(0, 2), '--maxmemory-policy', 'noeviction']]) {
      const { url } = await privateRedis({ configArgs });
      const { code, stderr } = await runTollgate(['keys', 'list', '--json'], { env: { REDIS_URL: url, KEY_PEPPER } });
      expect([code, stderr]).toEqual([0, '']);
    }
  });
});

test('a user who may ask neither INFO nor CONFIG is served all the same, and told that replicas are not seen', async () => {
  const { url } = await privateRedis();
  await redisCommand(url, 'ACL', 'SETUSER', new URL(url).username, '-info');
  const env = { REDIS_URL: url, KEY_PEPPER };
  const { origin } = await startUpstream();
  const gateway = await openGateway({ upstream: origin, env });
  const { key } = await gateway.createKey('free');
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  const { code, stderr } = await runTollgate(['bans', 'list'], { env });
  expect([code, stderr]).toEqual([0, expect.stringContaining('its replicas are not seen')]);
});

test('under an ACL from before there were histories limits and bans hold, none is kept, and a warning says what to add', async () => {
  const { url } = await privateRedis();
  await redisCommand(url, 'ACL', 'SETUSER', new URL(url).username, '-getrange', '-bitfield');
  const { origin } = await startUpstream();
  const env = { REDIS_URL: url, KEY_PEPPER };
  const gateway = await openGateway({ upstream: origin, env });
  const { id, key } = await gateway.createKey('small');
  const statuses: number[] = [];
  for (let i = 0; i < 14; i++) statuses.push((await gateway.get('/v1/pets', key)).status);
  expect(statuses).toEqual([200, 200, 200, ...Array(11).fill(429)]);
  const usage = await gateway.get('/usage', key);
  expect(await usage.json()).toMatchObject({ windows: { minute: { used: 3 } }, ban: { number: 1 } });
  expect(await (await gateway.get('/usage?history', key)).json()).toEqual({ step: 'hour', buckets: [] });
  await gateway.process.until(/no usage history is kept\. Add `\+getrange \+bitfield`/);
  const { code, stderr } = await runTollgate(['bans', 'list', '--json'], { env: gateway.env });
  expect([code, stderr]).toEqual([
    0,
    expect.stringMatching(
      /^warning: Redis at .* does not let its user call GETRANGE and BITFIELD, so no usage history/,
    ),
  ]);
  // The refusals are noted all the same.
  await expect
    .poll(async () => entriesOf((await gateway.command('now', '--json')).stdout), { timeout: 10_000 * ROOM })
    .toMatchObject([{ id, state: 'banned' }]);
  await redisCommand(url, 'ACL', 'SETUSER', new URL(url).username, '+getrange', '+bitfield');
  expect((await runTollgate(['bans', 'list', '--json'], { env })).stderr).toBe('');
});
