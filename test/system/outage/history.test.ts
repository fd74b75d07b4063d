import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { startReplica, type TestGateway } from '../../support/gateway.ts';
import { AT_ONCE, admittedOf, GIVEN_UP, startStand } from './stand.ts';

const DAY_MS = 86_400_000;

async function historyOf({ command }: TestGateway, id: string): Promise<number> {
  const { stdout } = await command('usage', id, '--days', '2', '--json');
  const { buckets } = JSON.parse(stdout) as { buckets: { admitted: number }[] };
  return buckets.reduce((sum, { admitted }) => sum + admitted, 0);
}

test('the history is the sum of what was admitted, over a kill -9 of Redis, an outage and a kill -9 of a gateway', async () => {
  const stand = await startStand({ asProcesses: true, configArgs: ['--appendonly', 'yes', '--appendfsync', 'always'] });
  const [first, second] = stand.gateways as readonly [TestGateway, TestGateway];
  const { id, key } = await first.createKey('plain', '--limit', 'minute=100000');
  const idle = await first.createKey('plain');
  let admitted = admittedOf(await stand.ask(key, 60));
  expect(admitted).toBe(120);
  // What is lent counts as used until it returns.
  await eventually(async () => expect(await historyOf(first, id)).toBe(120));

  await stand.redis.kill();
  admitted += admittedOf(await stand.ask(key, 50));
  expect(admitted).toBe(220);
  await stand.redis.restart({ keepData: true });
  await stand.until('present');
  const givenUp = await stand.metric(GIVEN_UP);
  // A call that was given up counts as applied (contract section 6).
  expect(givenUp).toBeLessThanOrEqual(stand.gateways.length * AT_ONCE);
  await eventually(async () => expect(Math.abs((await historyOf(first, id)) - admitted)).toBeLessThanOrEqual(givenUp));

  // It owes nothing.
  second.process.signal('SIGKILL');
  await second.process.exit;
  const third = await startReplica(first);
  for (let i = 0; i < 30; i++) expect((await third.get('/v1/pets', key)).status).toBe(200);
  await eventually(async () =>
    expect(Math.abs((await historyOf(third, id)) - (admitted + 30))).toBeLessThanOrEqual(givenUp),
  );

  // Its key in Redis: 1.2 KB at most, for 92 days after the last hour of use.
  const name = `tg:h:{${id}}`;
  expect(Number(await stand.redisSays('MEMORY', 'USAGE', name))).toBeLessThanOrEqual(1_200);
  const livesMs = Number(await stand.redisSays('PTTL', name));
  expect(livesMs).toBeGreaterThan(92 * DAY_MS - 60_000);
  expect(livesMs).toBeLessThanOrEqual(92 * DAY_MS + 3_600_000);
  expect(await stand.redisSays('EXISTS', `tg:h:{${idle.id}}`)).toBe(0);

  await third.command('keys', 'revoke', id);
  await third.command('keys', 'delete', id, '--yes');
  expect(await stand.redisSays('EXISTS', name)).toBe(0);
});
