import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startRawUpstream } from '../support/upstream.ts';
import { metric } from '../support/web-sockets.ts';

// One connection to the upstream, requests of several clients waiting for it: what comes behind an answer must never be
// taken for the answer to the next of them.

const OK = 'HTTP/1.1 200 OK\r\n';
const own = async (upstream: string) => {
  const gateway = await openGateway({ upstream, upstreamSettings: { maxConnections: 1, responseTimeout: '3s' } });
  const { key } = await gateway.createKey('enterprise', '--limit', 'minute=1000', '--limit', 'day=1000');
  return { gateway, key };
};

test('a second answer in the packets of the first is given to nobody, even where the next request waits (reliability 79)', async () => {
  // Head and body together are exactly what is read in one go: what is behind them comes in another.
  const head = (length: number) => `${OK}Content-Length: ${String(length).padStart(6, '0')}\r\n\r\n`;
  const body = 'a'.repeat(65_536 - head(0).length);
  let asked = null as Socket | null;
  const upstream = await startRawUpstream((socket, bytes) => {
    if (bytes.toString('latin1').startsWith('GET /v1/pets?first')) asked = socket;
    else socket.write(`${OK}Content-Length: 4\r\n\r\ngood`);
  });
  const { gateway, key } = await own(upstream.origin);
  for (let i = 0; i < 5; i++) {
    const first = gateway.get('/v1/pets?first', key);
    await eventually(() => expect(asked).not.toBeNull());
    const second = gateway.get('/v1/pets?second', key);
    await eventually(async () => expect(await metric(gateway, 'tollgate_in_flight')).toBe(2));
    asked!.write(`${head(body.length)}${body}${OK}Content-Length: 8\r\n\r\nPOISONED`);
    asked = null;
    expect((await (await first).text()).length).toBe(body.length);
    expect(await (await second).text()).toBe('good');
  }
});

test('early hints without an end fill no memory: a few are passed on, the rest left out (reliability 82)', async () => {
  const hint = `HTTP/1.1 103 Early Hints\r\nLink: </${'x'.repeat(8_000)}>\r\n\r\n`;
  const upstream = await startRawUpstream((socket) =>
    socket.write(`${hint.repeat(200)}${OK}Content-Length: 2\r\n\r\n{}`),
  );
  const { gateway, key } = await own(upstream.origin);
  const bytes = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nSec-Fetch-Mode: navigate\r\n\r\n`;
  const { responses } = await rawExchange(gateway.port, bytes, { until: 1 });
  expect(responses.at(-1)?.status).toBe(200);
  expect(responses.filter(({ status }) => status === 103)).toHaveLength(8);
});
