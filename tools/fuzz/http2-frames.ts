import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from 'node:tls';
import { createAuthority } from '../../test/support/certificates.ts';
import { CODE, FLAG, fieldBlock, frame, PREFACE, settings, TYPE, uint32 } from '../../test/support/http2-frames.ts';
import { leftOpen, type OpenResources, restingResources } from '../../test/support/open-resources.ts';
import { LATE_MS, paced } from '../../test/support/room.ts';
import { Chance } from '../kit/chance.ts';
import { inLanes } from '../kit/lanes.ts';
import { startWatchedGateway, type WatchedGateway } from './gateway.ts';

export interface FramesOptions {
  /** Sessions, each with a few dozen frames. */
  readonly sessions: number;
  readonly seed: number;
  readonly onProgress?: (done: number) => void;
}

export interface FramesResult {
  readonly sessions: number;
  readonly frames: number;
  /** Requests that reached the upstream. */
  readonly forwarded: number;
  readonly problems: readonly string[];
  /** Resident memory of the gateway, MiB. */
  readonly rssMib: { readonly before: number; readonly after: number };
  readonly tookMs: number;
}

const AT_A_TIME = 16;
/** Sessions between two looks at a client that does nothing wrong. */
const LOOK_EVERY = 50;
const GROWTH_MIB = 96;
const MAX_PAUSE_MS = 30;
/** A session that the gateway keeps open is cut by the fuzzer after this long. */
const PATIENCE_MS = 150;
/** So long after the last session, closed ones included, nothing of any is there. */
const CLOSED_WITHIN_MS = 8_000;
const SMUGGLED = '0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\nX-Smuggled: 1\r\n\r\n';

/**
 * Sends sessions of frames that are valid, nearly valid and nonsense, and looks for what must never be: an end of the
 * process, a request at the upstream that nobody asked for, something left open, an honest client that is not served.
 */
export async function runFrames({ sessions, seed, onProgress = () => {} }: FramesOptions): Promise<FramesResult> {
  const startedAtMs = performance.now();
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-frames-'));
  const upstream = await startWitness();
  const { cert, key } = await (await createAuthority(folder)).issue('localhost');
  const gateway = await startWatchedGateway({
    listen: { tls: `{ cert: ${cert}, key: ${key} }`, headersTimeout: `${paced(2_000)}ms`, maxBodyBytes: '64KiB' },
    upstreams: `  store: { targets: ['${upstream.origin}'] }`,
    routes: '  - { path: /f/**, methods: [GET, POST, DELETE], upstream: store, body: true }',
    callers: 1,
  });
  const stage = { gateway, apiKey: gateway.callers[0]!.key, ca: await readFile(join(folder, 'ca.crt'), 'utf8') };
  try {
    await good(stage);
    upstream.closeIdle();
    const before = gateway.rssMib();
    const resting = await restingResources(gateway);
    const problems: string[] = [];
    let frames = 0;
    await inLanes(AT_A_TIME, Array(sessions).keys(), async (i) => {
      const played = await play(stage, new Chance(seed + i * 7_919));
      frames += played;
      onProgress(i + 1);
      if (gateway.ended() !== null) problems.push(`The gateway ended: ${gateway.ended()} (session ${i})`);
      else if (i % LOOK_EVERY === 0) await good(stage).catch((error) => problems.push(`session ${i}: ${error}`));
      return problems.length === 0;
    });
    if (gateway.ended() === null) problems.push(...(await leftBehind(stage, resting, before, upstream.closeIdle)));
    problems.push(...upstream.problems, ...gateway.defects);
    const rssMib = { before, after: gateway.ended() === null ? gateway.rssMib() : 0 };
    return {
      sessions,
      frames,
      forwarded: upstream.requests,
      problems,
      rssMib,
      tookMs: performance.now() - startedAtMs,
    };
  } finally {
    await gateway.stop();
    upstream.close();
    await rm(folder, { recursive: true, force: true });
  }
}

interface Stage {
  readonly gateway: WatchedGateway;
  readonly apiKey: string;
  readonly ca: string;
}

/** An upstream that knows which requests there can be. */
async function startWitness() {
  const seen = { requests: 0 };
  const problems: string[] = [];
  const server: Server = createServer((request: IncomingMessage, response) => {
    seen.requests++;
    const wrong = !/^\/f\/[a-z]+$/.test(request.url ?? '') || request.rawHeaders.join().includes('Smuggled');
    if (wrong) problems.push(`The upstream was asked ${request.method} ${request.url} ${request.rawHeaders}`);
    request.resume();
    request.on('error', () => {});
    response.on('error', () => {});
    const length = request.url === '/f/long' ? 300_000 : 20;
    request.on('end', () => response.end(Buffer.alloc(length, 'x')));
  });
  server.on('clientError', (error, socket) => {
    const { code } = error as NodeJS.ErrnoException;
    // A request that was broken off ends in the middle, whatever that was.
    if (code !== 'ECONNRESET' && code !== 'HPE_INVALID_EOF_STATE')
      problems.push(`The upstream could not read: ${code}`);
    socket.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    problems,
    get requests() {
      return seen.requests;
    },
    closeIdle: () => server.closeIdleConnections(),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** A client that does nothing wrong. */
async function good({ gateway, apiKey, ca }: Stage): Promise<void> {
  const session = connectHttp2(`https://127.0.0.1:${gateway.port}`, { ca, servername: 'localhost' });
  session.on('error', () => {});
  try {
    const stream = session.request({ ':path': '/f/good', authorization: `Bearer ${apiKey}` });
    const tooLate = new Error(`an honest client got no answer within ${LATE_MS} ms`);
    const late = setTimeout(() => stream.destroy(tooLate), LATE_MS);
    const [head] = await once(stream, 'response').finally(() => clearTimeout(late));
    stream.resume();
    if (head[':status'] !== 200) throw new Error(`an honest client got ${head[':status']}`);
  } finally {
    session.destroy();
  }
}

/** One session: its bytes follow from the chance alone. @returns how many frames it had */
async function play({ gateway, apiKey, ca }: Stage, chance: Chance): Promise<number> {
  const frames = framesOf(chance, apiKey);
  const socket = connect({ port: gateway.port, host: '127.0.0.1', ca, servername: 'localhost', ALPNProtocols: ['h2'] });
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  if (chance.oneIn(8)) socket.pause();
  else socket.resume();
  await Promise.race([once(socket, 'secureConnect').catch(() => {}), closed]);
  const bytes = Buffer.concat(frames);
  // What comes in one write is read in one turn: what one frame does to the session meets the next one at once.
  for (const piece of chance.oneIn(3) ? [bytes] : cut(bytes, chance)) {
    if (socket.destroyed) break;
    socket.write(piece);
    if (chance.oneIn(4)) await (chance.oneIn(8) ? delay(chance.upTo(MAX_PAUSE_MS)) : new Promise(setImmediate));
  }
  if (chance.oneIn(4)) socket.end();
  const impatient = setTimeout(() => socket.destroy(), chance.oneIn(3) ? 0 : PATIENCE_MS);
  await closed;
  clearTimeout(impatient);
  return frames.length;
}

function framesOf(chance: Chance, apiKey: string): Buffer[] {
  const frames = begin(chance);
  const streams: number[] = [];
  const more = (count: number) => {
    for (let i = 0; i < count; i++) frames.push(anyFrame(chance, apiKey, streams));
  };
  const isShort = chance.oneIn(2);
  more(1 + chance.upTo(isShort ? 3 : 40));
  if (!chance.oneIn(3)) return frames;
  // The client says that it goes, and does not (RFC 9113 section 6.8).
  frames.push(goaway(chance, streams));
  more(chance.upTo(isShort ? 3 : 20));
  return frames;
}

/** Of any last stream and code. */
function goaway(chance: Chance, streams: readonly number[]): Buffer {
  const last = chance.of([0, 1, 2 ** 31 - 1, 2 ** 32 - 1, ...streams]);
  const code = chance.oneIn(2) ? 0 : chance.of([...Object.values(CODE), 0xff, 2 ** 32 - 1]);
  const debug = chance.oneIn(4) ? chance.bytes(chance.upTo(40)) : Buffer.alloc(0);
  const payload = Buffer.concat([uint32(last), uint32(code), debug]);
  // Half of one, or one of a stream, is broken itself.
  return chance.oneIn(12)
    ? frame(TYPE.GOAWAY, 0, chance.of([0, 1]), payload.subarray(0, chance.upTo(8)))
    : frame(TYPE.GOAWAY, chance.oneIn(12) ? chance.upTo(255) : 0, chance.oneIn(24) ? 1 : 0, payload);
}

function begin(chance: Chance): Buffer[] {
  if (chance.oneIn(30)) return [chance.bytes(24)];
  if (chance.oneIn(30)) return [PREFACE.subarray(0, chance.upTo(24))];
  return [
    PREFACE,
    chance.oneIn(4)
      ? settings(chance.of([1, 3, 4, 5, 6, 9]), chance.of([0, 1, 65_535, 2 ** 31 - 1, 2 ** 32 - 1]))
      : settings(),
  ];
}

/** @param streams that have been opened so far: most frames are of one of them, or nothing would get far */
function anyFrame(chance: Chance, apiKey: string, streams: number[]): Buffer {
  const isNew = streams.length === 0 || chance.oneIn(2);
  const next = (streams.at(-1) ?? -1) + 2;
  const stream = chance.oneIn(40) ? chance.of([0, 2, next + 2, 2 ** 31 - 1]) : isNew ? next : chance.of(streams);
  if (isNew && stream === next) streams.push(next);
  const bytes = isNew ? opening(chance, stream, apiKey) : following(chance, stream, apiKey);
  if (chance.oneIn(100)) bytes.writeUIntBE(chance.of([0, 1, bytes.length, 16_385, 0xffffff]), 0, 3);
  if (chance.oneIn(100)) bytes[4] = chance.upTo(255);
  if (chance.oneIn(100)) bytes[chance.upTo(bytes.length - 1)] = chance.upTo(255);
  return bytes;
}

function opening(chance: Chance, stream: number, apiKey: string): Buffer {
  if (chance.oneIn(30)) return frame(TYPE.HEADERS, chance.upTo(255) & 0x2d, stream, chance.bytes(60));
  const flags = FLAG.END_HEADERS | (chance.oneIn(2) ? FLAG.END_STREAM : 0);
  return frame(TYPE.HEADERS, flags, stream, head(chance, apiKey));
}

function following(chance: Chance, stream: number, apiKey: string): Buffer {
  switch (chance.oneIn(3) ? chance.upTo(10) : chance.upTo(3)) {
    case 0:
    case 1:
    case 2:
      return frame(TYPE.DATA, chance.of([0, 0, 1]), stream, chance.of([SMUGGLED, '', 'x'.repeat(3_000), '0\r\n\r\n']));
    case 3:
      return frame(TYPE.RST_STREAM, 0, stream, uint32(chance.upTo(14)));
    case 4:
      return frame(TYPE.WINDOW_UPDATE, 0, chance.of([0, stream]), uint32(chance.of([0, 1, 65_535, 2 ** 31 - 1])));
    case 5:
      return frame(chance.of([TYPE.CONTINUATION, TYPE.HEADERS]), chance.of([0, 4, 5]), stream, head(chance, apiKey));
    case 6:
      return frame(TYPE.PING, chance.upTo(1), chance.oneIn(9) ? stream : 0, chance.bytes(chance.oneIn(9) ? 7 : 8));
    case 7:
      return settings(chance.upTo(10), chance.of([0, 1, 4_096, 65_535, 2 ** 32 - 1]));
    case 8:
      return goaway(chance, [stream]);
    case 9:
      return frame(TYPE.DATA, FLAG.PADDED, stream, chance.bytes(40));
    default:
      return frame(chance.upTo(255), chance.upTo(255), stream, chance.bytes(chance.upTo(50)));
  }
}

const TWISTS: readonly (readonly [string, string])[] = [
  ['content-length', '5'],
  ['content-length', '0'],
  ['content-length', '999999999999999999'],
  ['transfer-encoding', 'chunked'],
  ['connection', 'close'],
  ['host', 'other.test'],
  ['expect', '100-continue'],
  ['te', 'trailers'],
  ['cookie', 'a=b'],
  ['x-smuggled\r\nx', '1'],
  ['x', `1\r\nX-Smuggled: 1`],
  ['x', '\x80\xff'],
  ['X-Upper', '1'],
  ['', ''],
  [':path', '/smuggled'],
  ['x-long', 'y'.repeat(20_000)],
];

function head(chance: Chance, apiKey: string): Buffer {
  const path = chance.oneIn(12)
    ? chance.of(['/f/a b', '/f/a\r\nX-Smuggled: 1', '*', '', '/smuggled HTTP/1.1\r\n'])
    : chance.of(['/f/a', '/f/long']);
  const fields: (readonly [string, string])[] = [
    [
      ':method',
      chance.oneIn(12)
        ? chance.of(['CONNECT', 'get', 'G T', 'TRACE', 'OPTIONS'])
        : chance.of(['GET', 'POST', 'DELETE']),
    ],
    [':scheme', 'https'],
    [':authority', 'gateway.test'],
    [':path', path],
    ['authorization', `Bearer ${apiKey}`],
  ];
  while (chance.oneIn(4)) fields.splice(chance.upTo(fields.length), 0, TWISTS[chance.upTo(TWISTS.length - 1)]!);
  if (chance.oneIn(15)) fields.splice(chance.upTo(fields.length - 1), 1);
  return fieldBlock(fields);
}

function cut(bytes: Buffer, chance: Chance): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + chance.upTo(chance.of([1, 20, 500, 20_000, 60_000]));
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}

async function leftBehind(
  stage: Stage,
  resting: OpenResources,
  beforeMib: number,
  beforeEach: () => void,
): Promise<string[]> {
  const problems: string[] = [];
  // Served when all before it have been accepted.
  await good(stage).catch((error) => problems.push(`At the end: ${error}`));
  const left = await leftOpen(stage.gateway, resting, { withinMs: CLOSED_WITHIN_MS, beforeEach });
  problems.push(...left.map((it) => `Left behind: ${it}`));
  const afterMib = stage.gateway.rssMib();
  if (afterMib > beforeMib + GROWTH_MIB) problems.push(`Memory grew from ${beforeMib} to ${afterMib} MiB`);
  return problems;
}
