import { createConnection } from 'node:net';
import { beforeAll, expect, test } from 'vitest';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { readResponses } from '../support/http-response.ts';
import { startUpstream } from '../support/upstream.ts';

// Large answers pass through buffers that are used again.
// Attack: a client that reads slowly while others read fast; a buffer that is read into again before its bytes have left
// shows one client what another was sent.

const CLIENTS = 40;
const ROUNDS = 4;
/** More than the system holds for a client that does not read. */
const LARGE = 24 * 1024 * 1024;
const STALLED = 6;

let gateway: TestGateway;
let key: string;

/** A body that says in each of its lines whose it is. */
function bodyFor(id: string, bytes: number): Buffer {
  return Buffer.alloc(bytes, `${id.padEnd(15, '.')}\n`);
}

beforeAll(async () => {
  const upstream = await startUpstream((request, response) => {
    const { searchParams } = new URL(request.url!, 'http://a');
    const body = bodyFor(searchParams.get('id')!, Number(searchParams.get('bytes')));
    if (searchParams.has('chunked')) {
      for (let at = 0; at < body.length; at += 50_000) response.write(body.subarray(at, at + 50_000));
      response.end();
    } else response.writeHead(200, { 'Content-Length': body.length }).end(body);
  });
  gateway = await startGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=100000', '--limit', 'day=100000'));
});

interface Wanted {
  readonly id: string;
  readonly bytes: number;
  /** A POST and a request that closes are read by another reader than one that is kept. */
  readonly method: 'GET' | 'POST';
  readonly closes: boolean;
  readonly chunked: boolean;
}

/** Asks, and reads the answer when it is told to. */
function ask({ id, bytes, method, closes, chunked }: Wanted): () => Promise<void> {
  const socket = createConnection(gateway.port, '127.0.0.1');
  socket.pause();
  socket.write(
    `${method} /v1/pets?id=${id}&bytes=${bytes}${chunked ? '&chunked' : ''} HTTP/1.1\r\nHost: a\r\n` +
      `Authorization: Bearer ${key}\r\n${closes ? 'Connection: close\r\n' : ''}` +
      (method === 'POST' ? 'Content-Length: 2\r\n\r\n{}' : '\r\n'),
  );
  return async () => {
    const pieces: Buffer[] = [];
    for await (const piece of socket) {
      pieces.push(piece as Buffer);
      if (isWhole(pieces)) break;
    }
    socket.destroy();
    const [response] = readResponses(Buffer.concat(pieces), [method], true);
    expect([response?.status, response?.complete]).toEqual([200, true]);
    expect(response?.body.equals(bodyFor(id, bytes))).toBe(true);
  };
}

/** Told by length or by the last chunk, without reading all of it again for each piece. */
function isWhole(pieces: readonly Buffer[]): boolean {
  const head = pieces[0]!.toString('latin1');
  const declared = /content-length: (\d+)/i.exec(head);
  if (declared === null) return Buffer.concat(pieces.slice(-5)).subarray(-5).toString() === '0\r\n\r\n';
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  return length >= head.indexOf('\r\n\r\n') + 4 + Number(declared[1]);
}

function wanted(id: string, i: number, bytes: number): Wanted {
  return { id, bytes, method: i % 4 === 1 ? 'POST' : 'GET', closes: i % 4 === 2, chunked: i % 3 === 1 };
}

test('each of many clients gets its own bytes and no other’s, those too that begin to read when all others are done', async () => {
  const late = Array.from({ length: STALLED }, (_, i) => {
    // Every second one by node:http and in chunks, which it holds back for a moment.
    const how = i % 2 === 0 ? ({ method: 'POST', chunked: true } as const) : {};
    return ask({ ...wanted(`stalled-${i}`, i, LARGE), ...how });
  });
  for (let round = 0; round < ROUNDS; round++) {
    const reads = Array.from({ length: CLIENTS }, (_, i) =>
      ask(wanted(`client-${round}-${i}`, i, 20_000 + 37_003 * (i % 20))),
    );
    await Promise.all(reads.map((read) => read()));
  }
  await Promise.all(late.map((read) => read()));
});
