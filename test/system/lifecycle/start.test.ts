import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { freePort } from '../../support/free-port.ts';
import { openGateway, settingsOf } from '../../support/gateway.ts';
import { listen } from '../../support/listening.ts';
import { startTollgate } from '../../support/processes.ts';
import { privateRedis } from '../../support/redis.ts';
import { startUpstream } from '../../support/upstream.ts';

// Attack: the machine starts everything at once and in any order. A gateway that ends because something else is not there
// yet, or that seems to run without the port it was to have, is found out by callers and not by whoever started it.

/** A port that somebody else listens on. */
async function takenPort(): Promise<string> {
  const server = createServer();
  atEnd(() => server.close());
  return String((await listen(server)).port);
}

const readiness = async (adminPort: number) => {
  const answer = await fetch(`http://127.0.0.1:${adminPort}/readyz`);
  return [answer.status, await answer.json()];
};

test.each(['PORT', 'ADMIN_PORT'])(
  'serve with %s in use ends with one sentence and a failure, and leaves the store to the next (reliability 124)',
  async (name) => {
    const env = await settingsOf({ upstream: (await startUpstream()).origin });
    const port = await takenPort();
    const running = await startTollgate(['serve'], { env: { ...env, PORT: '0', ADMIN_PORT: '0', [name]: port } });
    expect(await running.exit).toEqual({ code: 1, signal: null });
    expect(running.stderr).toMatch(
      new RegExp(`^Cannot listen on 127\\.0\\.0\\.1:${port}: it is in use; [^\n]* in ${name}\\.\n$`),
    );
    expect(running.stdout).not.toContain('serving');
    const next = await startTollgate(['serve'], { env });
    await next.until(/"msg":"serving"/);
  },
);

test('an upstream that is not there yet is a 502 and no reason not to start; it is found when it comes (reliability 124)', async () => {
  const port = await freePort();
  const gateway = await openGateway({ upstream: `http://127.0.0.1:${port}` });
  const { key } = await gateway.createKey('free');
  expect(await readiness(gateway.adminPort)).toEqual([200, expect.objectContaining({ status: 'ready' })]);
  expect((await gateway.get('/v1/pets', key)).status).toBe(502);
  await startUpstream(undefined, { port });
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
});

test('a Redis that is not there yet is an unready gateway with one complaint; it is found when it comes (reliability 124, 97)', async () => {
  const { origin } = await startUpstream();
  const redis = await privateRedis();
  await redis.stop();
  const gateway = await openGateway({
    upstream: origin,
    env: { REDIS_URL: redis.url, KEY_PEPPER: 'a pepper that only the tests use' },
  });
  expect(await readiness(gateway.adminPort)).toEqual([503, expect.objectContaining({ store: 'never_reached' })]);
  await redis.restart({ keepData: false });
  await eventually(async () => expect((await readiness(gateway.adminPort))[0]).toBe(200), { withinMs: 5_000 });
  const { key } = await gateway.createKey('free');
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  await gateway.process.stop();
  const complaints = gateway.process.stdout.split('\n').filter((line) => /"level":50,.*ECONNREFUSED/.test(line));
  // That it failed, and that it is away if that is found before Redis comes.
  expect([1, 2]).toContain(complaints.length);
});
