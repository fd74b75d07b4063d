import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { openEncrypted } from '../../support/encrypted.ts';
import { CODE, FLAG, fieldBlock, frame, TYPE } from '../../support/http2-frames.ts';
import { openRawSession } from '../../support/raw-http2.ts';
import { startUpstream } from '../../support/upstream.ts';
import { metricOf } from '../../system/lifecycle/relaunch.ts';

const ROUTES = '\n  - { path: /v1/pets, methods: [POST], upstream: store, body: true }\n';
const head = (key: string) =>
  fieldBlock([
    [':method', 'POST'],
    [':scheme', 'https'],
    [':authority', 'localhost'],
    [':path', '/v1/pets'],
    ['authorization', `Bearer ${key}`],
  ]);

// Attack: a body in frames of one byte, each of which costs the gateway as much as one of kilobytes.
test('a session that sends bodies in tiny frames without end is closed, and one with a few thousand is served (reliability 254)', async () => {
  const upstream = await startUpstream();
  const { gateway, ca } = await openEncrypted({ upstream: upstream.origin, routes: ROUTES });
  const { key } = await gateway.createKey('endless');
  const tiny = frame(TYPE.DATA, 0, 1, 'x');
  const frames = (count: number) => Buffer.concat(Array.from({ length: count }, () => tiny));

  const calm = await openRawSession(gateway.port, { ca });
  calm.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, 1, head(key)), frames(3_000));
  calm.send(frame(TYPE.DATA, FLAG.END_STREAM, 1, 'x'));
  await eventually(() => calm.isAnswered(1));
  expect(upstream.requests.at(-1)!.body).toHaveLength(3_001);

  const hostile = await openRawSession(gateway.port, { ca });
  hostile.send(frame(TYPE.HEADERS, FLAG.END_HEADERS, 1, head(key)), frames(60_000));
  await eventually(() => expect(hostile.closed).toBe(true));
  // The rest of what it sent may have reset the connection before it read the GOAWAY.
  expect([CODE.ENHANCE_YOUR_CALM, null]).toContain(hostile.goaway());
  expect(await metricOf(gateway.adminPort, 'tollgate_http2_sessions_broken_total{reason="overhead"}')).toBe(1);
  expect(calm.closed).toBe(false);
});
