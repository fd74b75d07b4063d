import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { startDeafListener } from '../support/deaf-listener.ts';
import { openGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { LATE_MS, paced } from '../support/room.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { startRawUpstream, startUpstream } from '../support/upstream.ts';

test('504 upstream_timeout: no head within responseTimeout; it counts, and the upstream’s connection is closed (reliability 74)', async () => {
  const upstream = await startUpstream(() => {});
  const gateway = await openGateway({ upstream: upstream.origin, upstreamSettings: { responseTimeout: '500ms' } });
  const { key } = await gateway.createKey('free');
  const stop = stopwatch();
  const answer = await gateway.get('/v1/pets', key);
  const took = stop();
  expect(answer.status).toBe(504);
  expect(await answer.json()).toEqual({ code: 'upstream_timeout', message: expect.any(String), status: 504 });
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('59');
  expect(took).toBeGreaterThan(480);
  expect(took).toBeLessThan(500 + LATE_MS);
  await eventually(() => expect(upstream.open).toBe(0), { withinMs: 1_000 });
});

test('504 upstream_timeout: half a head, and a drip of it, are no head', async () => {
  const upstream = await startRawUpstream((socket) => {
    socket.write('HTTP/1.1 200 OK\r\n');
    const drip = setInterval(() => socket.write('X'), 50);
    socket.once('close', () => clearInterval(drip));
  });
  const gateway = await openGateway({ upstream: upstream.origin, upstreamSettings: { responseTimeout: '500ms' } });
  const { key } = await gateway.createKey('free');
  expect((await gateway.get('/v1/pets', key)).status).toBe(504);
  await eventually(() => expect(upstream.open).toBe(0), { withinMs: 1_000 });
});

test('504 upstream_timeout: interim answers do not put the deadline off (reliability 82)', async () => {
  const upstream = await startRawUpstream((socket) => {
    const drip = setInterval(() => socket.write('HTTP/1.1 102 Processing\r\n\r\n'), 100);
    socket.once('close', () => clearInterval(drip));
  });
  const gateway = await openGateway({ upstream: upstream.origin, upstreamSettings: { responseTimeout: '500ms' } });
  const { key } = await gateway.createKey('free');
  expect((await gateway.get('/v1/pets', key)).status).toBe(504);
});

test('504 upstream_timeout: responseTimeout begins when the request has been sent, not while its client is sending it', async () => {
  const upstream = await startUpstream();
  const gateway = await openGateway({
    upstream: upstream.origin,
    upstreamSettings: { responseTimeout: `${paced(400)}ms` },
  });
  const { key } = await gateway.createKey('free');
  const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 6\r\n\r\n`;
  const { responses } = await rawExchange(gateway.port, [head, 'a', 'b', 'c', 'd', 'ef'], { pauseMs: paced(200) });
  expect(responses.map(({ status }) => status)).toEqual([200]);
});

test('504 upstream_timeout: it is the upstream that is late when it does not read what the client sends', async () => {
  const upstream = await startUpstream(() => {}, { readBody: false });
  const gateway = await openGateway({
    upstream: upstream.origin,
    listen: { maxBodyBytes: '64MiB' },
    upstreamSettings: { responseTimeout: '500ms' },
  });
  const { key } = await gateway.createKey('free');
  const length = 32 * 2 ** 20;
  const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: ${length}\r\n\r\n`;
  // The log is asked, because a client that pushes on may lose the answer.
  await rawExchange(gateway.port, [head, Buffer.alloc(length)], { until: 'closed' });
  const [line] = await gateway.process.until(/^.*"msg":"request".*$/m);
  expect(JSON.parse(line)).toMatchObject({ status: 504, code: 'upstream_timeout' });
});

test('504 upstream_timeout: no connection within connectTimeout, to a listener whose backlog is full (reliability 73)', async () => {
  const port = await startDeafListener();
  const gateway = await openGateway({
    upstream: `http://127.0.0.1:${port}`,
    upstreamSettings: { connectTimeout: '700ms' },
  });
  const { key } = await gateway.createKey('free');
  const stop = stopwatch();
  const answer = await gateway.get('/v1/pets', key);
  const took = stop();
  expect(answer.status).toBe(504);
  expect(await answer.json()).toMatchObject({ code: 'upstream_timeout' });
  expect(took).toBeGreaterThan(680);
  expect(took).toBeLessThan(700 + LATE_MS);
});
