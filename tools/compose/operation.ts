import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { altered } from '../../test/support/altered.ts';
import { ask, startLoad } from './client.ts';
import { admittedBy, type MadeKey, makeKey, type Stage, statusesOf, usageOf } from './stage.ts';

const MANY = 1_000_000;

/** A key whose limits nothing here reaches. */
export function makeBusyKey(stage: Stage): Promise<MadeKey> {
  return makeKey(stage, '--plan', 'enterprise', '--limit', `minute=${MANY}`, '--limit', `day=${MANY}`);
}

/** A request with a fresh key, through the load balancer and a gateway to the pets, counted in all windows. */
export async function requestIsMetered({ port }: Stage, { key }: MadeKey): Promise<void> {
  const answer = await ask(port, '/v1/pets', { key });
  assert.equal(answer.status, 200, answer.body);
  assert.ok(Array.isArray(JSON.parse(answer.body)));
  assert.equal(answer.headers['x-ratelimit-remaining'], '59');
  assert.match(String(answer.headers['ratelimit-policy']), /"minute";q=60;w=60, "day";q=1000;w=86400/);
}

/** The plan's 60 are used up across both gateways, exactly, and the strikes that follow make one ban. */
export async function limitIsShared(stage: Stage): Promise<MadeKey> {
  const made = await makeKey(stage, '--plan', 'free');
  // A gateway decides together what arrives together: sent all at once, one of them could take nearly everything.
  const statuses: number[] = [];
  for (let i = 0; i < 20; i++) statuses.push(...(await statusesOf(stage, made.key, 1)));
  statuses.push(...(await statusesOf(stage, made.key, 80)));
  assert.equal(statuses.filter((status) => status === 200).length, 60);
  assert.equal(statuses.filter((status) => status === 429).length, 40);
  for (const gateway of ['gateway-1', 'gateway-2']) {
    assert.ok((await admittedBy(stage, gateway)) >= 10, `${gateway} had no share of the requests`);
  }
  const { windows, ban } = await usageOf(stage, made.id);
  assert.equal(windows.minute.used, 60);
  assert.equal(ban?.number, 1);
  return made;
}

/** Attack: a client chooses its address, for a fresh budget of failed attempts or to put it on somebody else. */
export async function addressCannotBeChosen({ port }: Stage): Promise<void> {
  const remaining: number[] = [];
  for (const address of ['203.0.113.1', '203.0.113.2', '10.9.8.7']) {
    const { status, headers } = await ask(port, '/v1/pets', { headers: { 'X-Forwarded-For': address } });
    assert.equal(status, 401);
    remaining.push(Number(headers['x-ratelimit-remaining']));
  }
  assert.deepEqual(
    remaining.slice(1),
    remaining.slice(0, -1).map((it) => it - 1),
    'each address had a budget of its own',
  );
}

/** While the pets are away callers get 502 or 504 at once, and their animals afterwards. */
export async function petsMayBeAway({ composition, port }: Stage, { key }: MadeKey): Promise<void> {
  await composition.compose('stop', 'pets');
  const away = await ask(port, '/v1/pets', { key });
  assert.ok([502, 504].includes(away.status), `${away.status} ${away.body}`);
  await composition.compose('start', 'pets');
  await composition.untilHealthy('pets');
  assert.equal((await ask(port, '/v1/pets', { key })).status, 200);
}

/**
 * One gateway is stopped (SIGTERM) and started again, then the other is made anew as for a new image, under load. No
 * request is lost, and each that was sent is counted once.
 */
export async function rollingRestartLosesNothing(stage: Stage, user: MadeKey): Promise<void> {
  const { composition, port } = stage;
  const load = startLoad(port, user.key, 80);
  try {
    await delay(1_000);
    await composition.compose('stop', 'gateway-1');
    const stopped = (await composition.containers()).get('gateway-1');
    assert.equal(stopped?.State.Running, false);
    assert.equal(stopped?.State.ExitCode, 0, 'gateway-1 did not end by itself');
    await composition.compose('start', 'gateway-1');
    await untilItIsUsed(stage, 'gateway-1');
    await composition.compose('up', '-d', '--no-deps', '--force-recreate', 'gateway-2');
    await untilItIsUsed(stage, 'gateway-2');
  } finally {
    const { sent, lost } = await load.stop();
    assert.equal(lost.length, 0, `of ${sent} requests ${lost.length} were lost, first ${lost.slice(0, 3).join('; ')}`);
    assert.equal((await usageOf(stage, user.id)).windows.day.used, sent, 'counted is not what was sent');
  }
}

async function untilItIsUsed(stage: Stage, gateway: string): Promise<void> {
  await stage.composition.untilHealthy(gateway);
  for (let tries = 0; (await admittedBy(stage, gateway)) < 10; tries++) {
    assert.ok(tries < 400, `the load balancer does not use ${gateway} again`);
    await delay(250);
  }
}

/** The load test in its own container, with keys that it makes in the gateways' store. Exit code 0: promises held. */
export async function loadTestRuns({ composition }: Stage): Promise<void> {
  await composition.build('load');
  const short = ['--target', 'http://haproxy:8080', '--scenario', 'steady', '--duration', '3s'];
  const told = await composition.compose('--profile', 'load', 'run', '--rm', '-T', 'load', ...short);
  assert.match(told, /Every promise held/);
}

/** All containers are removed and made anew; what they knew is in the volumes. */
export async function keysAndCountersSurvive(stage: Stage, user: MadeKey, banned: MadeKey): Promise<void> {
  const { composition, port } = stage;
  const before = await usageOf(stage, user.id);
  // Its ban may have ended meanwhile, so it need not have stopped at the limit of a minute.
  const bannedBefore = await usageOf(stage, banned.id);
  await composition.compose('--profile', 'observe', 'down', '--timeout', '40');
  await composition.compose('up', '-d', 'haproxy');
  await composition.untilHealthy('haproxy');
  assert.deepEqual((await usageOf(stage, user.id)).windows.day, before.windows.day);
  const { status, headers } = await ask(port, '/v1/pets?limit=1', { key: user.key });
  assert.equal(status, 200);
  assert.match(String(headers.ratelimit), new RegExp(`"day";r=${MANY - before.windows.day.used - 1};`));
  assert.deepEqual((await usageOf(stage, banned.id)).windows.day, bannedBefore.windows.day);
  assert.equal((await ask(port, '/v1/pets', { key: altered(banned.key) })).status, 401);
}
