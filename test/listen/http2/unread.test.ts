import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { askHttp2, metricsOf, openEncrypted, openHttp2 } from '../../support/encrypted.ts';
import { startUpstream } from '../../support/upstream.ts';

// Attack: a client of HTTP/2 asks for much and reads nothing. Node keeps up to 64 KiB for each stream, outside the heap.

const BODY = 'x'.repeat(60_000);
const UPSTREAM = { fairShare: 1, maxConnections: 400 };

async function start() {
  const upstream = await startUpstream((_, response) => void response.writeHead(200).end(BODY));
  const encrypted = await openEncrypted({ upstream: upstream.origin, upstreamSettings: UPSTREAM });
  const { key } = await encrypted.gateway.createKey('endless');
  const metric = async (pattern: RegExp) => Number(pattern.exec(await metricsOf(encrypted.gateway))?.[1] ?? Number.NaN);
  return { ...encrypted, key, metric };
}

/** From now on the client takes this many bytes of each new response, until it says more. */
async function takeOnly(session: ClientHttp2Session, initialWindowSize: number): Promise<void> {
  await new Promise<void>((resolve) => session.settings({ initialWindowSize }, () => resolve()));
}

/** Asks, and waits for the heads of the answers. */
function askMany(session: ClientHttp2Session, key: string, count: number): Promise<ClientHttp2Stream[]> {
  const one = () =>
    new Promise<ClientHttp2Stream>((resolve) => {
      const stream = session.request({ ':path': '/v1/pets', authorization: `Bearer ${key}` });
      stream.on('error', () => {});
      stream.once('response', () => resolve(stream));
      stream.once('close', () => resolve(stream));
    });
  return Promise.all(Array.from({ length: count }, one));
}

const IN_FLIGHT = /^tollgate_in_flight (\d+)$/m;

test('a response that the client has not read is in flight until it is read, or its stream ends (reliability 225)', async () => {
  const { gateway, ca, key, metric } = await start();
  const session = await openHttp2(gateway.port, ca);
  await takeOnly(session, 0);
  const streams = await askMany(session, key, 5);
  // The last bytes come a moment after the heads.
  await eventually(async () => expect(await metric(/^tollgate_upstream_in_flight{.*} (\d+)$/m)).toBe(0));
  expect(await metric(IN_FLIGHT)).toBe(5);
  streams[0]!.close(8);
  await eventually(async () => expect(await metric(IN_FLIGHT)).toBe(4));
  for (const stream of streams) stream.resume();
  await takeOnly(session, 1_000_000);
  await eventually(async () => expect(await metric(IN_FLIGHT)).toBe(0));
});

test('of one address 16 MiB may be unread: sessions that do not read end, and one that reads stays (reliability 225)', async () => {
  const { gateway, ca, key, metric } = await start();
  const reading = await openHttp2(gateway.port, ca);
  const hogs = await Promise.all(Array.from({ length: 4 }, () => openHttp2(gateway.port, ca)));
  for (const hog of hogs) await takeOnly(hog, 0);
  await Promise.all(hogs.map((hog) => askMany(hog, key, 90)));
  // 4 times 90 times 60 KB are 21 MB: without one of the four sessions the rest fits.
  await eventually(() => expect(hogs.filter(({ destroyed }) => destroyed).length).toBeGreaterThanOrEqual(1));
  expect(hogs.some(({ destroyed }) => !destroyed)).toBe(true);
  expect(await metric(/^tollgate_http2_sessions_broken_total{reason="unread"} (\d+)$/m)).toBeGreaterThanOrEqual(1);
  const answer = await askHttp2(reading, { path: '/v1/pets', headers: { authorization: `Bearer ${key}` } });
  expect(answer.body).toBe(BODY);
});
