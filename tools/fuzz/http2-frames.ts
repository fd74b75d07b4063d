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
import { Dice } from './dice.ts';
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
    listen: { tls: `{ cert: ${cert}, key: ${key} }`, headersTimeout: '2s', maxBodyBytes: '64KiB' },
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
    let next = 0;
    const walk = async () => {
      for (let i = next++; i < sessions && problems.length === 0; i = next++) {
        const played = await play(stage, new Dice(seed + i * 7_919));
        frames += played;
        onProgress(i + 1);
        if (gateway.ended() !== null) problems.push(`The gateway ended: ${gateway.ended()} (session ${i})`);
        else if (i % LOOK_EVERY === 0) await good(stage).catch((error) => problems.push(`session ${i}: ${error}`));
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, walk));
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
    const late = setTimeout(() => stream.destroy(new Error('an honest client got no answer within 5 s')), 5_000);
    const [head] = await once(stream, 'response').finally(() => clearTimeout(late));
    stream.resume();
    if (head[':status'] !== 200) throw new Error(`an honest client got ${head[':status']}`);
  } finally {
    session.destroy();
  }
}

/** One session: its bytes follow from the dice alone. @returns how many frames it had */
async function play({ gateway, apiKey, ca }: Stage, dice: Dice): Promise<number> {
  const frames = framesOf(dice, apiKey);
  const socket = connect({ port: gateway.port, host: '127.0.0.1', ca, servername: 'localhost', ALPNProtocols: ['h2'] });
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  if (dice.oneIn(8)) socket.pause();
  else socket.resume();
  await Promise.race([once(socket, 'secureConnect').catch(() => {}), closed]);
  const bytes = Buffer.concat(frames);
  // What comes in one write is read in one turn: what one frame does to the session meets the next one at once.
  for (const piece of dice.oneIn(3) ? [bytes] : cut(bytes, dice)) {
    if (socket.destroyed) break;
    socket.write(piece);
    if (dice.oneIn(4)) await (dice.oneIn(8) ? delay(dice.upTo(MAX_PAUSE_MS)) : new Promise(setImmediate));
  }
  if (dice.oneIn(4)) socket.end();
  const impatient = setTimeout(() => socket.destroy(), dice.oneIn(3) ? 0 : PATIENCE_MS);
  await closed;
  clearTimeout(impatient);
  return frames.length;
}

function framesOf(dice: Dice, apiKey: string): Buffer[] {
  const frames = begin(dice);
  const streams: number[] = [];
  const more = (count: number) => {
    for (let i = 0; i < count; i++) frames.push(anyFrame(dice, apiKey, streams));
  };
  const isShort = dice.oneIn(2);
  more(1 + dice.upTo(isShort ? 3 : 40));
  if (!dice.oneIn(3)) return frames;
  // The client says that it goes, and does not (RFC 9113 section 6.8).
  frames.push(goaway(dice, streams));
  more(dice.upTo(isShort ? 3 : 20));
  return frames;
}

/** Of any last stream and code. */
function goaway(dice: Dice, streams: readonly number[]): Buffer {
  const last = dice.of(0, 1, 2 ** 31 - 1, 2 ** 32 - 1, ...streams);
  const code = dice.oneIn(2) ? 0 : dice.of(...Object.values(CODE), 0xff, 2 ** 32 - 1);
  const debug = dice.oneIn(4) ? dice.bytes(dice.upTo(40)) : Buffer.alloc(0);
  const payload = Buffer.concat([uint32(last), uint32(code), debug]);
  // Half of one, or one of a stream, is broken itself.
  return dice.oneIn(12)
    ? frame(TYPE.GOAWAY, 0, dice.of(0, 1), payload.subarray(0, dice.upTo(8)))
    : frame(TYPE.GOAWAY, dice.oneIn(12) ? dice.upTo(255) : 0, dice.oneIn(24) ? 1 : 0, payload);
}

function begin(dice: Dice): Buffer[] {
  if (dice.oneIn(30)) return [dice.bytes(24)];
  if (dice.oneIn(30)) return [PREFACE.subarray(0, dice.upTo(24))];
  return [
    PREFACE,
    dice.oneIn(4) ? settings(dice.of(1, 3, 4, 5, 6, 9), dice.of(0, 1, 65_535, 2 ** 31 - 1, 2 ** 32 - 1)) : settings(),
  ];
}

/** @param streams that have been opened so far: most frames are of one of them, or nothing would get far */
function anyFrame(dice: Dice, apiKey: string, streams: number[]): Buffer {
  const isNew = streams.length === 0 || dice.oneIn(2);
  const next = (streams.at(-1) ?? -1) + 2;
  const stream = dice.oneIn(40) ? dice.of(0, 2, next + 2, 2 ** 31 - 1) : isNew ? next : dice.of(...streams);
  if (isNew && stream === next) streams.push(next);
  const bytes = isNew ? opening(dice, stream, apiKey) : following(dice, stream, apiKey);
  if (dice.oneIn(100)) bytes.writeUIntBE(dice.of(0, 1, bytes.length, 16_385, 0xffffff), 0, 3);
  if (dice.oneIn(100)) bytes[4] = dice.upTo(255);
  if (dice.oneIn(100)) bytes[dice.upTo(bytes.length - 1)] = dice.upTo(255);
  return bytes;
}

function opening(dice: Dice, stream: number, apiKey: string): Buffer {
  if (dice.oneIn(30)) return frame(TYPE.HEADERS, dice.upTo(255) & 0x2d, stream, dice.bytes(60));
  const flags = FLAG.END_HEADERS | (dice.oneIn(2) ? FLAG.END_STREAM : 0);
  return frame(TYPE.HEADERS, flags, stream, head(dice, apiKey));
}

function following(dice: Dice, stream: number, apiKey: string): Buffer {
  switch (dice.oneIn(3) ? dice.upTo(10) : dice.upTo(3)) {
    case 0:
    case 1:
    case 2:
      return frame(TYPE.DATA, dice.of(0, 0, 1), stream, dice.of(SMUGGLED, '', 'x'.repeat(3_000), '0\r\n\r\n'));
    case 3:
      return frame(TYPE.RST_STREAM, 0, stream, uint32(dice.upTo(14)));
    case 4:
      return frame(TYPE.WINDOW_UPDATE, 0, dice.of(0, stream), uint32(dice.of(0, 1, 65_535, 2 ** 31 - 1)));
    case 5:
      return frame(dice.of(TYPE.CONTINUATION, TYPE.HEADERS), dice.of(0, 4, 5), stream, head(dice, apiKey));
    case 6:
      return frame(TYPE.PING, dice.upTo(1), dice.oneIn(9) ? stream : 0, dice.bytes(dice.oneIn(9) ? 7 : 8));
    case 7:
      return settings(dice.upTo(10), dice.of(0, 1, 4_096, 65_535, 2 ** 32 - 1));
    case 8:
      return goaway(dice, [stream]);
    case 9:
      return frame(TYPE.DATA, FLAG.PADDED, stream, dice.bytes(40));
    default:
      return frame(dice.upTo(255), dice.upTo(255), stream, dice.bytes(dice.upTo(50)));
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

function head(dice: Dice, apiKey: string): Buffer {
  const path = dice.oneIn(12)
    ? dice.of('/f/a b', '/f/a\r\nX-Smuggled: 1', '*', '', '/smuggled HTTP/1.1\r\n')
    : dice.of('/f/a', '/f/long');
  const fields: (readonly [string, string])[] = [
    [
      ':method',
      dice.oneIn(12) ? dice.of('CONNECT', 'get', 'G T', 'TRACE', 'OPTIONS') : dice.of('GET', 'POST', 'DELETE'),
    ],
    [':scheme', 'https'],
    [':authority', 'gateway.test'],
    [':path', path],
    ['authorization', `Bearer ${apiKey}`],
  ];
  while (dice.oneIn(4)) fields.splice(dice.upTo(fields.length), 0, TWISTS[dice.upTo(TWISTS.length - 1)]!);
  if (dice.oneIn(15)) fields.splice(dice.upTo(fields.length - 1), 1);
  return fieldBlock(fields);
}

function cut(bytes: Buffer, dice: Dice): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + dice.upTo(dice.of(1, 20, 500, 20_000, 60_000));
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
