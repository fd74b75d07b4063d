import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { Agent, get, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { settingsOf, startGateway, type TestGateway } from '../../support/gateway.ts';
import { ROOT, startProcess, temporaryFolder } from '../../support/processes.ts';
import { startUpstream } from '../../support/upstream.ts';

async function change({ env, process: { pid }, ...gateway }: TestGateway, from: string | RegExp, to: string) {
  const file = env.TOLLGATE_CONFIG!;
  const before = await readFile(file, 'utf8');
  const after = before.replace(from, to);
  expect(after).not.toBe(before);
  await writeFile(file, after);
  process.kill(pid, 'SIGHUP');
  return gateway;
}

const inForce = /"msg":"settings and plans in force"/;

test('bin/tollgate is the gateway itself: SIGHUP makes it read its files, from whatever folder it was started', async () => {
  const env = await settingsOf({ upstream: (await startUpstream()).origin });
  const running = startProcess(join(ROOT, 'bin', 'tollgate'), ['serve'], { cwd: await temporaryFolder(), env });
  await running.until(/"msg":"serving"/);
  await writeFile(env.TOLLGATE_PLANS!, 'plans: { other: { limits: { minute: 5 } } }\n');
  running.signal('SIGHUP');
  await running.until(inForce);
  running.signal('SIGTERM');
  expect(await running.exit).toEqual({ code: 0, signal: null });
});

test('a route that is added is served and one that is taken away is gone, on connections that stand', async () => {
  const upstream = await startUpstream((_request, response) => response.end('{}'));
  const routes = '\n  - { path: /v1/old, methods: [GET], upstream: store }\n';
  const gateway = await startGateway({ upstream: upstream.origin, routes });
  const { key } = await gateway.createKey('free');
  expect((await gateway.get('/v1/old', key)).status).toBe(200);
  expect((await gateway.get('/v1/new', key)).status).toBe(404);
  await change(gateway, '/v1/old', '/v1/new');
  await gateway.process.until(inForce);
  expect((await gateway.get('/v1/old', key)).status).toBe(404);
  const answer = await gateway.get('/v1/new', key);
  expect([answer.status, answer.headers.get('x-ratelimit-remaining')]).toEqual([200, '56']);
});

test('an upstream that moves gets the next requests, and what it was asked before is answered by where it was (reliability 115)', async () => {
  let release = () => {};
  const asked = new Promise<void>((resolve) => {
    release = resolve;
  });
  let seen = () => {};
  const isAsked = new Promise<void>((resolve) => {
    seen = resolve;
  });
  const old = await startUpstream(async (_request, response) => {
    seen();
    await asked;
    response.end('old');
  });
  const moved = await startUpstream((_request, response) => response.end('new'));
  const gateway = await startGateway({ upstream: old.origin });
  const { key } = await gateway.createKey('free');
  const targetsUp = async () => {
    const text = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
    return text.match(/^tollgate_upstream_target_up.*$/gm);
  };
  expect(await targetsUp()).toEqual([`tollgate_upstream_target_up{upstream="store",target="${old.origin}"} 1`]);
  const waiting = gateway.get('/v1/pets', key, { headers: { 'X-Request-Id': 'before' } });
  await isAsked;
  await change(gateway, old.origin, moved.origin);
  await gateway.process.until(inForce);
  expect(await (await gateway.get('/v1/pets', key)).text()).toBe('new');
  expect(await targetsUp()).toEqual([`tollgate_upstream_target_up{upstream="store",target="${moved.origin}"} 1`]);
  release();
  const answer = await waiting;
  expect([answer.status, await answer.text()]).toEqual([200, 'old']);
  const line = await gateway.process.until(/^.*"requestId":"before".*$/m);
  expect(JSON.parse(line[0])).toMatchObject({ upstream: 'store', target: old.origin });
});

test('a field that is no longer excepted ends here, also on a connection that has sent it before', async () => {
  const upstream = await startUpstream();
  const gateway = await startGateway({ upstream: upstream.origin, more: 'headers: { allow: [X.Custom] }' });
  const { key } = await gateway.createKey('free');
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  atEnd(() => agent.destroy());
  const sent = async () => {
    const headers = { Authorization: `Bearer ${key}`, 'X.Custom': '1' };
    const request = get(`${gateway.origin}/v1/pets`, { agent, headers });
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    await response.toArray();
    return [request.reusedSocket, upstream.requests.at(-1)!.values('x.custom')];
  };
  expect([await sent(), await sent()]).toEqual([
    [false, ['1']],
    [true, ['1']],
  ]);
  await change(gateway, 'headers: { allow: [X.Custom] }', '');
  await gateway.process.until(inForce);
  expect(await sent()).toEqual([true, []]);
});

test('what cannot change while it runs is named in the log, and the rest of the change counts', async () => {
  const upstream = await startUpstream((_request, response) => response.end('{}'));
  const gateway = await startGateway({ upstream: upstream.origin, listen: { maxBodyBytes: '1MiB' } });
  const { key } = await gateway.createKey('free');
  await change(gateway, /maxBodyBytes: 1MiB([\s\S]*)$/, 'maxBodyBytes: 2MiB$1headers: { draft: false }\n');
  const [line] = await gateway.process.until(/^\{.*take effect at the next start.*\}$/m);
  expect((JSON.parse(line) as { settings: string[] }).settings).toEqual(['listen']);
  const answer = await gateway.get('/v1/pets', key);
  expect([answer.status, answer.headers.get('ratelimit')]).toEqual([200, null]);
});

test('new weights divide the next requests, and no request is lost while they come into force (reliability 513)', async () => {
  const [one, two] = await Promise.all(
    ['one', 'two'].map((name) => startUpstream((_request, response) => response.end(name))),
  );
  const given = (weight: number) => `${one!.origin}, { url: '${two!.origin}', weight: ${weight} }`;
  const gateway = await startGateway({ upstream: given(0) });
  const { key } = await gateway.createKey('endless');
  const told: string[] = [];
  let hasEnded = false;
  const client = async () => {
    while (!hasEnded) {
      const answer = await gateway.get('/v1/pets', key);
      told.push(`${answer.status} ${await answer.text()}`);
    }
  };
  const clients = Promise.all(Array.from({ length: 8 }, client));
  await eventually(() => expect(told.length).toBeGreaterThan(40));
  await change(gateway, given(0), given(3));
  await gateway.process.until(inForce);
  const before = told.length;
  await eventually(() => expect(told.length).toBeGreaterThan(before + 200));
  hasEnded = true;
  await clients;
  expect(new Set(told)).toEqual(new Set(['200 one', '200 two']));
  expect(told.slice(0, 40)).not.toContain('200 two');
  const after = told.slice(before + 40);
  const share = after.filter((one) => one === '200 two').length / after.length;
  expect(Math.abs(share - 0.75)).toBeLessThan(0.05);
});

test('a change that cannot be brought into force leaves all as it was', async () => {
  const upstream = await startUpstream((_request, response) => response.end('{}'));
  const gateway = await startGateway({ upstream: upstream.origin });
  const { key } = await gateway.createKey('free');
  await change(
    gateway,
    `targets: [${upstream.origin}]`,
    'targets: [https://127.0.0.1:9]\n    tls: { ca: /there/is/no/such/file.pem }',
  );
  const [line] = await gateway.process.until(/^\{.*new settings rejected.*\}$/m);
  expect((JSON.parse(line) as { fault: string }).fault).toContain('/there/is/no/such/file.pem cannot be read');
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
});
