import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type OutgoingHttpHeaders, request } from 'node:http';
import { createConnection } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// Bodies pass untouched, in pieces, each side no faster than the other.

const MiB = 2 ** 20;
const LARGE = 64 * MiB;
/** So much that what is kept of it cannot be taken for garbage that a busy machine has not yet collected. */
const HUGE = 192 * MiB;
const PIECE = Buffer.alloc(64 * 1024, 'x');

let gateway: TestGateway;
let upstream: Upstream;
let key: string;
/** Bytes of the large answer that the upstream's system has taken. */
let sent = 0;

beforeAll(async () => {
  upstream = await startUpstream(async (incoming, response, recorded) => {
    const size = /\?down=(\d+)/.exec(incoming.url ?? '')?.[1];
    if (size === undefined) {
      if (await recorded.whole) response.end(recorded.body);
      return;
    }
    sent = 0;
    let open = true;
    const closed = once(response, 'close').then(() => {
      open = false;
    });
    if (incoming.url?.includes('sized')) response.setHeader('content-length', size);
    while (open && sent < Number(size)) {
      const piece = PIECE.subarray(0, Math.min(PIECE.length, Number(size) - sent));
      sent += piece.length;
      if (!response.write(piece)) await Promise.race([once(response, 'drain'), closed]);
    }
    if (open) response.end();
  });
  gateway = await startGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=1000', '--limit', 'day=1000'));
});

const sha = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const rssBytes = () =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${gateway.process.pid}/status`, 'utf8'))?.[1]) * 1024;

/** Sends a body that the upstream sends back. */
async function echoed(body: Buffer, framing: OutgoingHttpHeaders): Promise<unknown> {
  const outgoing = request(`${gateway.origin}/v1/pets`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, ...framing },
  });
  outgoing.end(body);
  const [answer] = await once(outgoing, 'response');
  const back = Buffer.concat(await answer.toArray());
  return [answer.statusCode, back.length, sha(back)];
}

test.each([0, 1, 65_537, MiB])('%d bytes up and down again are the same bytes, sized and in chunks', async (size) => {
  const body = randomBytes(size);
  for (const framing of [{ 'Transfer-Encoding': 'chunked' }, { 'Content-Length': size }]) {
    expect(await echoed(body, framing)).toEqual([200, size, sha(body)]);
  }
});

test('uploads at the same time keep their bytes, while the memory for reading is used again', async () => {
  for (let round = 0; round < 4; round++) {
    const bodies = Array.from({ length: 8 }, () => randomBytes(MiB));
    const backs = await Promise.all(bodies.map((body) => echoed(body, { 'Content-Length': MiB })));
    expect(backs).toEqual(bodies.map((body) => [200, MiB, sha(body)]));
  }
});

test.each(['sized', 'chunked'])(
  '192 MiB down (%s) pass whole, and the memory of the gateway stays flat (reliability 63, 70)',
  async (how) => {
    const before = rssBytes();
    let most = before;
    const outgoing = request(`${gateway.origin}/v1/pets?down=${HUGE}&${how}`, {
      headers: { Authorization: `Bearer ${key}` },
    });
    outgoing.end();
    const [answer] = await once(outgoing, 'response');
    let length = 0;
    for await (const chunk of answer) {
      length += chunk.length;
      if (length % (4 * MiB) < chunk.length) most = Math.max(most, rssBytes());
    }
    expect(length).toBe(HUGE);
    expect(answer.complete).toBe(true);
    expect(most - before).toBeLessThan(96 * MiB);
  },
);

test('a client that does not read makes the upstream wait, and costs the gateway no memory (reliability 63)', async () => {
  const before = rssBytes();
  const socket = createConnection(gateway.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(`GET /v1/pets?down=${4 * LARGE} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  socket.pause();
  await eventually(() => sent > 0);
  // What the upstream could send stops growing although it has far more.
  let last = -1;
  await eventually(
    async () => {
      const stood = sent === last;
      last = sent;
      await delay(200);
      return stood && sent === last;
    },
    { withinMs: 5_000 },
  );
  // The system's own buffers may hold as much as 33 MiB for a client.
  expect(sent).toBeLessThan(LARGE);
  expect(rssBytes() - before).toBeLessThan(40 * MiB);
  // Reading again lets it go on.
  const stood = sent;
  socket.resume();
  await eventually(() => expect(sent).toBeGreaterThan(stood));
  socket.destroy();
});

test('a client that reads nothing for writeTimeout is given up, and the upstream with it (reliability 63, 96)', async () => {
  const strict = await startGateway({ upstream: upstream.origin, listen: { writeTimeout: '700ms' } });
  const own = await strict.createKey('free');
  const socket = createConnection(strict.port, '127.0.0.1');
  const gone = once(socket, 'close');
  socket.on('error', () => {});
  socket.write(`GET /v1/pets?down=${LARGE} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own.key}\r\n\r\n`);
  socket.pause();
  await strict.process.until(/"status":499.*"cause":"the client does not read".*"msg":"request"/, { withinMs: 4_000 });
  await eventually(async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${strict.adminPort}/metrics`)).text();
    expect(metrics).toMatch(/^tollgate_upstream_in_flight\{upstream="store"\} 0$/m);
    expect(metrics).toMatch(/^tollgate_in_flight 0$/m);
  });
  socket.resume();
  await gone;
  expect(sent).toBeLessThan(LARGE);
});

test('an upload that the upstream does not read is held back', async () => {
  const lazy = await startUpstream(() => {}, { readBody: false });
  const wide = await startGateway({ upstream: lazy.origin, listen: { maxBodyBytes: '64MiB' } });
  const own = await wide.createKey('free');
  const socket = createConnection(wide.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(
    `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${own.key}\r\nContent-Length: ${LARGE}\r\n\r\n`,
  );
  let taken = 0;
  const push = (): void => {
    while (taken < LARGE) {
      taken += PIECE.length;
      if (!socket.write(PIECE)) return;
    }
  };
  socket.on('drain', push);
  push();
  let last = -1;
  await eventually(
    async () => {
      const stood = taken === last;
      last = taken;
      await delay(200);
      return stood && taken === last;
    },
    { withinMs: 5_000 },
  );
  expect(taken).toBeLessThan(LARGE / 2);
  await lazy.close();
  socket.destroy();
});
