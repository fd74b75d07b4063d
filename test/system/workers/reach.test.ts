import { readFile, rename, writeFile } from 'node:fs/promises';
import { connect } from 'node:tls';
import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { newAuthority } from '../../support/encrypted.ts';
import { atEnd } from '../../support/endings.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';
import { caller, callers } from './callers.ts';
import { connectionsOf, linesOf, metricOf, metricsOf, PLANS, pidsOf, startWorkers, untilServing } from './fleet.ts';

// Attack: a change that reaches some of the processes only. A revoked key goes on working for those whose connection is with
// the others, and nobody who tries it once sees that.

const WORKERS = 2;
let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startWorkers(WORKERS, { upstream: (await startUpstream()).origin });
});

const inForce = () => linesOf(gateway, 'settings and plans in force');

test('a revoked key is refused on every worker within a second, on connections that are open', async () => {
  const { id, key } = await gateway.createKey('endless');
  const all = await callers(gateway, key, WORKERS);
  expect(await connectionsOf(gateway)).toEqual([1, 1]);
  expect((await gateway.command('keys', 'revoke', id)).code).toBe(0);
  const statuses = async () => (await Promise.all(all.map((one) => one.ask()))).map(({ status }) => status);
  await eventually(async () => expect(await statuses()).toEqual([401, 401]), { withinMs: 1_000 });
});

test('wrong keys are counted for their address as one, whichever worker they came to', async () => {
  const all = Array.from({ length: 2 }, () => caller(gateway, 'wrong'));
  const remaining: number[] = [];
  for (let i = 0; i < 6; i++) remaining.push((await all[i % 2]!.ask()).remaining);
  const [first] = remaining as [number];
  expect(remaining).toEqual([0, 1, 2, 3, 4, 5].map((asked) => first - asked));
});

test('SIGHUP to the supervisor reaches the workers and ends none of them', async () => {
  const pids = await pidsOf(gateway);
  const file = gateway.env.TOLLGATE_CONFIG!;
  await writeFile(file, `${await readFile(file, 'utf8')}log: { sample2xx: 0.5 }\n`);
  gateway.process.signal('SIGHUP');
  await eventually(() => expect(inForce()).toHaveLength(2), { withinMs: 15_000 });
  expect(await pidsOf(gateway)).toEqual(pids);
});

test('a change of plans.yaml is in force on every worker, and on one that is started behind it', async () => {
  const { key } = await gateway.createKey('free');
  const limitOf = async () => {
    const answer = await gateway.get('/v1/pets', key);
    return Number(answer.headers.get('X-RateLimit-Limit'));
  };
  expect(await limitOf()).toBe(60);
  const before = inForce().length;
  await writeFile(gateway.env.TOLLGATE_PLANS!, PLANS.replace('minute: 60', 'minute: 70'));
  await eventually(() => expect(inForce()).toHaveLength(before + 2), { withinMs: 15_000 });
  expect(linesOf(gateway, 'changed, and take effect at the next start')).toEqual([]);
  // One version only: a worker that ran by another would show as a second line.
  const versions = () => metricsOf(gateway).then((text) => text.match(/^tollgate_settings_info\{.*\} 1$/gm));
  expect(await versions()).toHaveLength(1);
  for (const pid of await pidsOf(gateway)) process.kill(pid, 'SIGKILL');
  await eventually(async () => expect(await metricOf(gateway, 'tollgate_workers_lost_total')).toBe(2));
  await untilServing(gateway, 2);
  // The supervisor reads the files on its own. A worker that it starts before that begins with the earlier settings, and
  // reads the files itself within a second.
  await eventually(async () => expect(await versions()).toHaveLength(1));
  await eventually(async () => expect(await limitOf()).toBe(70), { everyMs: 250 });
});

test('a plan that live keys use goes from no worker, and one that is started behind the refusal has it, too', async () => {
  const plans = gateway.env.TOLLGATE_PLANS!;
  const sound = await readFile(plans, 'utf8');
  const { key } = await gateway.createKey('gentle');
  const refused = () => linesOf(gateway, 'new settings rejected, keeping the old ones');
  await writeFile(plans, sound.replace(/ {2}gentle: .*\n/, ''));
  await eventually(() => expect(refused()).toHaveLength(2), { withinMs: 15_000 });
  for (const pid of await pidsOf(gateway)) process.kill(pid, 'SIGKILL');
  await untilServing(gateway, 2);
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  await eventually(() => expect(refused()).toHaveLength(4), { withinMs: 15_000 });
  await writeFile(plans, sound);
});

test('a new certificate is shown by every worker', async () => {
  const authority = await newAuthority();
  const [old, next] = [await authority.issue('localhost'), await authority.issue('localhost')];
  const upstream = await startUpstream();
  const encrypted = await startWorkers(WORKERS, {
    upstream: upstream.origin,
    listen: { tls: `{ cert: ${old.cert}, key: ${old.key} }` },
  });
  /** The certificate that a new connection, which stays open, is shown. */
  const shown = () =>
    new Promise<string>((resolve, reject) => {
      const socket = connect({ port: encrypted.port, host: '127.0.0.1', rejectUnauthorized: false }, () =>
        resolve(socket.getPeerCertificate().serialNumber),
      );
      atEnd(() => socket.destroy());
      socket.once('error', reject);
    });
  // As many connections as workers: each is another one's.
  const shownByAll = () => Promise.all(Array.from({ length: WORKERS }, shown));
  const [before] = await shownByAll();
  await Promise.all([rename(next.cert, old.cert), rename(next.key, old.key)]);
  await eventually(async () => expect(await metricOf(encrypted, 'tollgate_tls_reloads_total')).toBe(WORKERS), {
    withinMs: 15_000,
  });
  const after = await shownByAll();
  expect(await connectionsOf(encrypted)).toEqual([2, 2]);
  expect(new Set(after).size).toBe(1);
  expect(after).not.toContain(before);
});
