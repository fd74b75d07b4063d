import { beforeAll, describe, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { paced } from '../support/room.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { type RawUpstream, startRawUpstream } from '../support/upstream.ts';

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok';

/** What the upstream does with a request on a connection that had one before; a first one is always answered. */
type Second = 'answer' | 'close' | 'reset' | 'one byte, then reset';

let gateway: TestGateway;
let upstream: RawUpstream;
let second: Second = 'answer';
let seen: { connection: number; request: number; head: string }[] = [];

beforeAll(async () => {
  upstream = await startRawUpstream((socket, bytes, { connection, request }) => {
    seen.push({ connection, request, head: bytes.toString('latin1').split('\r\n')[0]! });
    if (request === 1 || second === 'answer') socket.write(ANSWER);
    else if (second === 'close') socket.end();
    else if (second === 'reset') socket.resetAndDestroy();
    else socket.write('H', () => setTimeout(() => socket.resetAndDestroy(), 50));
  });
  gateway = await openGateway({ upstream: upstream.origin });
});

/** Makes a connection used, lets the upstream break the next request on it, and tells how that request ended. */
async function breakSecond(how: Second, init: RequestInit = {}) {
  const { key } = await gateway.createKey('free');
  second = 'answer';
  expect((await gateway.get('/v1/pets', key)).status).toBe(200);
  second = how;
  seen = [];
  const answer = await gateway.get('/v1/pets', key, init);
  await answer.text();
  return { status: answer.status, remaining: answer.headers.get('x-ratelimit-remaining'), requests: seen.length };
}

describe('a connection that the upstream closes as idle just when a request goes out (reliability 85)', () => {
  test.each(['close', 'reset'] as const)('%s: a GET is sent once more, unseen, and costs one', async (how) => {
    expect(await breakSecond(how)).toEqual({ status: 200, remaining: '58', requests: 2 });
  });

  test('a POST is never sent twice: 502 (reliability 90)', async () => {
    const post = { method: 'POST', body: '{}' };
    expect(await breakSecond('close', post)).toEqual({ status: 502, remaining: '58', requests: 1 });
  });

  test('a POST without a body is never sent twice either (reliability 90)', async () => {
    expect(await breakSecond('reset', { method: 'POST' })).toMatchObject({ status: 502, requests: 1 });
  });

  test('once a byte of an answer has come, nothing is sent again', async () => {
    expect(await breakSecond('one byte, then reset')).toMatchObject({ status: 502, requests: 1 });
  });
});

test('the second time has what is left of responseTimeout, and no deadline of its own', async () => {
  const slow = await startRawUpstream((socket, _bytes, { connection, request }) => {
    if (connection === 1 && request === 1) socket.write(ANSWER);
    else if (connection === 1) setTimeout(() => socket.end(), paced(1_200));
  });
  const other = await openGateway({
    upstream: slow.origin,
    upstreamSettings: { responseTimeout: `${paced(1_500)}ms` },
  });
  const { key } = await other.createKey('free');
  expect((await other.get('/v1/pets', key)).status).toBe(200);
  const took = stopwatch();
  expect((await other.get('/v1/pets', key)).status).toBe(504);
  expect(slow.connections).toBe(2);
  // With a deadline of its own it would end after 2,700.
  expect(took()).toBeLessThan(paced(2_500));
});

test('a request that breaks on a fresh connection is not sent again', async () => {
  let requests = 0;
  const refusing = await startRawUpstream((socket) => {
    requests++;
    socket.resetAndDestroy();
  });
  const other = await openGateway({ upstream: refusing.origin });
  const { key } = await other.createKey('free');
  expect((await other.get('/v1/pets', key)).status).toBe(502);
  expect(requests).toBe(1);
});
