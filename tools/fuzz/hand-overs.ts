import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createAuthority } from '../../test/support/certificates.ts';
import { culprit } from '../../test/support/culprit.ts';
import { type ParsedResponse, readResponses } from '../../test/support/http-response.ts';
import { FLAG, fieldBlock, frame, PREFACE, settings, TYPE, uint32 } from '../../test/support/http2-frames.ts';
import { Encryption, type LeavingClient, openLeavingClient } from '../../test/support/leaving-client.ts';
import { leftOpen, type OpenResources, restingResources } from '../../test/support/open-resources.ts';
import { REQUEST_KINDS, type RequestKind } from '../../test/support/request-kinds.ts';
import { LATE_MS, paced } from '../../test/support/room.ts';
import { startTellingUpstream, type TellingUpstream } from '../../test/support/telling-upstream.ts';
import { Chance } from '../kit/chance.ts';
import { inLanes } from '../kit/lanes.ts';
import { startWatchedGateway, type WatchedGateway } from './gateway.ts';
import { readRequests } from './reading.ts';

export interface HandOversOptions {
  readonly connections: number;
  readonly seed: number;
  readonly onProgress?: (done: number) => void;
}

export interface HandOversResult {
  readonly connections: number;
  /** Requests that reached the upstream. */
  readonly forwarded: number;
  /** Answers that clients got whole. */
  readonly answers: number;
  readonly problems: readonly string[];
  /** Resident memory of both gateways, MiB: when they had served a first part of the connections, and at the end. */
  readonly rssMib: { readonly early: number; readonly end: number };
  readonly tookMs: number;
}

const AT_A_TIME = 64;
/** Connections between two looks at what is left of them. */
const LOOK_EVERY = 1_000;
/** Of all deadlines of the gateways: a client that does nothing is waited for in earnest. */
const DEADLINE_MS = paced(3_000);
/** All clients have left: after this long, longer on a busy machine, nothing of them is there. */
const GONE_WITHIN_MS = 5_000;
const MAX_REQUESTS = 6;
const MAX_PIECES = 6;
const LARGE_BYTES = 1024 * 1024;

/**
 * Crosses every hand-over of a connection: fast path to node:http, and from there to CONNECT, an upgrade, HTTP/2 or an error.
 * Clients send requests of all kinds one behind the other, cut anywhere, with pauses anywhere, and leave at any moment in
 * any way. Looked for: an end of the process, a request at the upstream that was not sent as one or not with a key, an
 * answer to another request or a second one, a connection that outlives its deadlines, and whatever is left of any.
 */
export async function runHandOvers({
  connections,
  seed,
  onProgress = () => {},
}: HandOversOptions): Promise<HandOversResult> {
  const startedAtMs = performance.now();
  const stage = await Stage.open();
  const problems: string[] = [];
  let earlyMib = 0;
  try {
    for (let from = 0; from < connections && problems.length === 0; from += LOOK_EVERY) {
      const numbers = Array.from({ length: Math.min(LOOK_EVERY, connections - from) }, (_, i) => from + i);
      const scripts = numbers.map((number) => scriptOf(new Chance(seed + number * 7_919), number));
      const found = await stage.play(scripts, () => onProgress(++stage.played));
      if (earlyMib === 0) earlyMib = stage.rssMib();
      if (found.length === 0) continue;
      const one = await culprit(scripts, async (some) => (await stage.play(some)).length > 0);
      const where = one === null ? `one of the connections from ${from} on, not every time` : told(one);
      problems.push(`${found.join('\n')}\nSeed ${seed}: ${where}`);
    }
    return {
      connections,
      forwarded: stage.forwarded,
      answers: stage.answers,
      problems,
      rssMib: { early: earlyMib, end: stage.rssMib() },
      tookMs: performance.now() - startedAtMs,
    };
  } finally {
    await stage.close();
  }
}

type Transport = 'plain' | 'encrypted' | 'HTTP/2';
type Leaving = 'reset' | 'close' | 'FIN' | 'bare FIN' | 'not at all';

/** What one client does; all of it follows from its chance. */
interface Script {
  readonly number: number;
  readonly transport: Transport;
  /** Its requests, with the targets that are theirs alone. */
  readonly sent: readonly {
    readonly kind: Pick<RequestKind, 'name' | 'bytes' | 'mayPass' | 'isLast'>;
    readonly target: string;
  }[];
  /** Where the bytes are cut, in parts of all of them. */
  readonly cuts: readonly number[];
  /** Before each piece, in milliseconds; -1: until something has come. */
  readonly pauses: readonly number[];
  readonly reads: boolean;
  /** So many pieces are sent. */
  readonly pieces: number;
  /** And then this pause, like the others. */
  readonly hesitates: number;
  readonly leaving: Leaving;
}

function scriptOf(chance: Chance, number: number): Script {
  const transport = chance.of<Transport>(['plain', 'plain', 'plain', 'encrypted', 'encrypted', 'HTTP/2']);
  const count = 1 + chance.upTo(MAX_REQUESTS - 1);
  const sent = Array.from({ length: count }, (_, i) => {
    const manner = chance.of(['quick', 'quick', 'quick', 'held', chance.of(['quick', 'large', 'broken'])]);
    // Mostly what others may follow, or few connections would get far.
    const kinds =
      transport === 'HTTP/2' && !chance.oneIn(6) ? STREAM_KINDS : chance.oneIn(2) ? REQUEST_KINDS : FOLLOWED;
    return { kind: chance.of(kinds), target: `/${manner}/${number}-${i}` };
  });
  const cuts = Array.from(
    { length: chance.oneIn(2) ? 0 : chance.upTo(MAX_PIECES - 1) },
    () => chance.upTo(1_000) / 1_000,
  );
  const pauses = Array.from({ length: cuts.length + 1 }, () => pauseOf(chance));
  return {
    number,
    transport,
    sent,
    cuts: cuts.toSorted((a, b) => a - b),
    pauses,
    reads: !chance.oneIn(6),
    pieces: chance.oneIn(4) ? chance.upTo(cuts.length) : cuts.length + 1,
    hesitates: pauseOf(chance),
    leaving: chance.oneIn(20) ? 'not at all' : chance.of(['reset', 'reset', 'close', 'FIN', 'FIN', 'bare FIN']),
  };
}

/**
 * How long a connection may stay. Each request may take a deadline of its own, one after another: a held one waits for its
 * answer, a half one for its body.
 */
function withinMsOf({ sent }: Script): number {
  return LATE_MS + DEADLINE_MS * sent.length;
}

function pauseOf(chance: Chance): number {
  if (chance.oneIn(40)) return 300;
  return chance.of([0, 0, -1, -1, chance.upTo(20)]);
}

const FOLLOWED = REQUEST_KINDS.filter(({ isLast }) => !isLast);

/** Frames, as if they were requests of HTTP/1.1. The stream is the number that the target ends with. */
const STREAM_KINDS: readonly RequestKind[] = [
  ...Array.from({ length: 4 }, () => stream('GET on a stream', 'GET', FLAG.END_HEADERS | FLAG.END_STREAM, () => '')),
  stream('half a POST on a stream', 'POST', FLAG.END_HEADERS, (id) => frame(TYPE.DATA, 0, id, 'half')),
  stream('POST on a stream that is reset', 'POST', FLAG.END_HEADERS, (id) => frame(TYPE.RST_STREAM, 0, id, uint32(8))),
  frames('GOAWAY', Buffer.concat([uint32(0), uint32(0)]), TYPE.GOAWAY),
  frames('a broken PING', Buffer.alloc(7), TYPE.PING),
];

function stream(name: string, method: string, flags: number, after: (id: number) => Buffer | string): RequestKind {
  const bytes = (target: string, key: string) => {
    const id = 2 * Number(target.slice(-1)) + 1;
    const fields: [string, string][] = [
      [':method', method],
      [':scheme', 'https'],
      [':authority', 'gateway.test'],
      [':path', target],
      ['authorization', `Bearer ${key}`],
    ];
    return Buffer.concat([frame(TYPE.HEADERS, flags, id, fieldBlock(fields)), Buffer.from(after(id))]).toString(
      'latin1',
    );
  };
  return { name, bytes, mayPass: true, isLast: false };
}

function frames(name: string, payload: Buffer, type: number): RequestKind {
  return { name, bytes: () => frame(type, 0, 0, payload).toString('latin1'), mayPass: false, isLast: false };
}

function bytesOf({ sent, transport }: Script, key: string): Buffer {
  const begin = transport === 'HTTP/2' ? Buffer.concat([PREFACE, settings()]).toString('latin1') : '';
  return Buffer.from(begin + sent.map(({ kind, target }) => kind.bytes(target, key)).join(''), 'latin1');
}

/** The targets that may reach the upstream, in their order. */
function mayArrive(script: Script, key: string): readonly string[] {
  const { sent, transport } = script;
  if (transport === 'HTTP/2') return sent.filter(({ kind }) => STREAM_KINDS.includes(kind)).map(({ target }) => target);
  const last = sent.findIndex(({ kind }) => kind.isLast);
  const until = last === -1 ? sent : sent.slice(0, last + 1);
  const forbidden = new Set(until.filter(({ kind }) => !kind.mayPass).map(({ target }) => target));
  return readRequests(bytesOf({ ...script, sent: until }, key))
    .requests.map(({ target }) => target)
    .filter((target) => !forbidden.has(target));
}

/** For whoever has to see it again. */
function told(script: Script): string {
  const { number, transport, sent, ...rest } = script;
  const requests = sent.map(({ kind, target }) => `${kind.name} ${target}`).join(', ');
  const bytes = JSON.stringify(bytesOf(script, 'KEY').toString('latin1'));
  return `connection ${number}, ${transport}: ${requests}\n  ${JSON.stringify(rest)}\n  ${bytes}`;
}

interface Side {
  readonly gateway: WatchedGateway;
  readonly resting: OpenResources;
}

/** A gateway that is spoken to in plain and one that is not, before the same upstream. */
class Stage {
  played = 0;
  forwarded = 0;
  answers = 0;
  readonly #folder: string;
  readonly #upstream: TellingUpstream;
  readonly #tls: string;
  readonly #encryption: Readonly<Record<Transport, Encryption | null>>;
  readonly #staying: LeavingClient[] = [];
  #sides: Readonly<Record<Transport, Side>> | null = null;

  private constructor(folder: string, upstream: TellingUpstream, tls: string, ca: string) {
    this.#folder = folder;
    this.#upstream = upstream;
    this.#tls = tls;
    this.#encryption = { plain: null, encrypted: new Encryption(ca, 'http/1.1'), 'HTTP/2': new Encryption(ca, 'h2') };
  }

  static async open(): Promise<Stage> {
    const folder = await mkdtemp(join(tmpdir(), 'tollgate-hand-overs-'));
    const authority = await createAuthority(folder);
    const { cert, key } = await authority.issue('localhost');
    const upstream = await startTellingUpstream({ largeBytes: LARGE_BYTES });
    return new Stage(folder, upstream, `{ cert: ${cert}, key: ${key} }`, authority.pem);
  }

  /** Plays all of them, many at a time. @returns what was wrong; then the next ones meet new gateways */
  async play(scripts: readonly Script[], onPlayed: () => void = () => {}): Promise<string[]> {
    const sides = await this.#running();
    const gateways = [sides.plain.gateway, sides.encrypted.gateway];
    const problems: string[] = [];
    await inLanes(AT_A_TIME, scripts, async (script) => {
      if (!gateways.every(isRunning)) return false;
      problems.push(...(await this.#playOne(script, sides[script.transport].gateway)));
      onPlayed();
    });
    // Those that read nothing and stay are still there: it is the gateway that has to let go of them.
    for (const { gateway, resting } of [sides.plain, sides.encrypted]) {
      const options = { withinMs: GONE_WITHIN_MS, beforeEach: () => this.#upstream.closeIdle() };
      const ended = gateway.ended();
      problems.push(...(ended === null ? await leftOpen(gateway, resting, options) : [`A gateway ended: ${ended}`]));
      problems.push(...gateway.defects.splice(0));
    }
    for (const client of this.#staying.splice(0)) client.reset();
    problems.push(...this.#upstream.problems.splice(0), ...this.#judgeArrivals(scripts, sides));
    if (problems.length > 0) await this.#stop();
    return problems;
  }

  rssMib(): number {
    const { plain, encrypted } = this.#sides ?? {};
    return plain === undefined || encrypted === undefined ? 0 : plain.gateway.rssMib() + encrypted.gateway.rssMib();
  }

  async close(): Promise<void> {
    await this.#stop();
    await this.#upstream.close();
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #running(): Promise<Readonly<Record<Transport, Side>>> {
    if (this.#sides !== null) return this.#sides;
    const deadline = `${DEADLINE_MS}ms`;
    const waits = { headersTimeout: deadline, requestTimeout: deadline, idleTimeout: deadline, writeTimeout: deadline };
    const start = async (listen: Readonly<Record<string, string>>): Promise<Side> => {
      const gateway = await startWatchedGateway({
        listen: { ...waits, ...listen },
        upstreams: `  store: { targets: [${this.#upstream.origin}], responseTimeout: ${deadline}, bodyTimeout: ${deadline} }`,
        routes: ROUTES,
        more: `websockets: { idleTimeout: ${deadline} }`,
        callers: 1,
      });
      return { gateway, resting: await restingResources(gateway) };
    };
    const [plain, encrypted] = await Promise.all([start({}), start({ tls: this.#tls })]);
    this.#sides = { plain, encrypted, 'HTTP/2': encrypted };
    return this.#sides;
  }

  async #stop(): Promise<void> {
    const { plain, encrypted } = this.#sides ?? {};
    this.#sides = null;
    await Promise.all([plain?.gateway.stop(), encrypted?.gateway.stop()]);
  }

  async #playOne(script: Script, gateway: WatchedGateway): Promise<string[]> {
    const client = await openLeavingClient(gateway.port, this.#encryption[script.transport]);
    const received: Buffer[] = [];
    let heard = Promise.withResolvers<void>();
    if (script.reads) {
      client.socket.on('data', (chunk: Buffer) => {
        received.push(chunk);
        heard.resolve();
        heard = Promise.withResolvers();
      });
    }
    const pause = (ms: number) => client.until(ms === -1 ? heard.promise : delay(ms), DEADLINE_MS / 4);
    const key = gateway.callers[0]!.key;
    const bytes = bytesOf(script, key);
    const pieces = cutAt(bytes, script.cuts).slice(0, script.pieces);
    for (const [i, piece] of pieces.entries()) {
      await pause(script.pauses[i]!);
      if (client.isClosed) break;
      client.socket.write(piece);
    }
    await pause(script.hesitates);
    const isGone = await this.#leave(client, script);
    const problems =
      script.transport === 'HTTP/2' ? [] : this.#judgeAnswers(Buffer.concat(pieces), Buffer.concat(received));
    if (!isGone) problems.push(`A connection stayed open for ${withinMsOf(script)} ms (left by ${script.leaving})`);
    return problems.map((problem) => `${problem}: ${told(script)}`);
  }

  /** @returns whether the connection was no more in time */
  async #leave(client: LeavingClient, script: Script): Promise<boolean> {
    const { leaving, reads } = script;
    if (leaving === 'not at all' && !reads) this.#staying.push(client);
    // The end of a connection is seen behind all that came on it.
    else if (leaving === 'reset' || leaving === 'close' || !reads) {
      if (leaving === 'close') client.socket.destroy();
      else client.reset();
    } else {
      if (leaving === 'FIN') client.socket.end();
      if (leaving === 'bare FIN') client.fin();
      await client.until(client.closed, withinMsOf(script));
      const { isClosed } = client;
      client.reset();
      return isClosed;
    }
    return true;
  }

  /** At most one answer for each request, each to its own, in their order, and none behind the one that closes. */
  #judgeAnswers(sent: Buffer, received: Buffer): string[] {
    const { requests, methods } = readRequests(sent);
    const responses = readAs(received, methods);
    if (responses instanceof Error) return [`Something that is no HTTP/1.1: ${responses.message}`];
    const finals = responses.filter(({ status }) => status >= 200 || status === 101);
    this.answers += finals.filter(({ complete }) => complete).length;
    // What is no request is answered too, once.
    if (finals.length > requests.length + 1) return [`${finals.length} answers to ${requests.length} requests`];
    return finals.flatMap((answer, i) => {
      const target = answer.header('X-Target');
      const closes = /\bclose\b/i.test(answer.header('Connection') ?? '');
      if (closes && finals.length > i + 1) return ['An answer behind the one that said close'];
      if (answer.status === 500) return [`A defect: ${answer.body.toString('latin1')}`];
      return target === null || target === requests[i]?.target ? [] : [`The answer to ${target} came as number ${i}`];
    });
  }

  /** Each of those that may come, once and in their order, and nothing else. */
  #judgeArrivals(scripts: readonly Script[], sides: Readonly<Record<Transport, Side>>): string[] {
    const problems: string[] = [];
    const arrived = new Map(this.#upstream.arrived);
    this.#upstream.arrived.clear();
    this.forwarded += arrived.size;
    const places = new Map([...arrived.keys()].map((target, place) => [target, place]));
    for (const script of scripts) {
      const allowed = mayArrive(script, sides[script.transport].gateway.callers[0]!.key);
      let place = -1;
      for (const target of allowed) {
        // One that got no byte of an answer may be sent once more.
        const most = target.includes('/broken/') ? 2 : 1;
        if ((arrived.get(target)?.length ?? 0) > most)
          problems.push(`The upstream got ${target} ${arrived.get(target)?.length} times: ${told(script)}`);
        const own = places.get(target) ?? place;
        // Streams have no order.
        if (own < place && script.transport !== 'HTTP/2') problems.push(`${target} came too early: ${told(script)}`);
        place = own;
        arrived.delete(target);
      }
      for (const { target } of script.sent) {
        for (const own of [target, `/live${target}`]) {
          if (arrived.has(own)) problems.push(`The upstream got ${own}, which was no request: ${told(script)}`);
          arrived.delete(own);
        }
      }
    }
    // Of clients that had left before: they were judged, and come late.
    for (const target of arrived.keys()) problems.push(`The upstream got ${target}, late or unasked`);
    return problems;
  }
}

/** @returns the error where the bytes are no answers to such requests */
function readAs(received: Buffer, methods: readonly string[]): readonly ParsedResponse[] | Error {
  try {
    return readResponses(received, methods, false);
  } catch (error) {
    // What was no whole request yet is refused with a body, whatever its first word was.
    const last = methods.lastIndexOf('HEAD');
    return last === -1 ? (error as Error) : readAs(received, methods.with(last, 'GET'));
  }
}

const ROUTES = `  - { path: /live/**, methods: [GET], upstream: store, websocket: true }
  - { path: /**, methods: [GET, POST], upstream: store }`;

function isRunning(gateway: WatchedGateway): boolean {
  return gateway.ended() === null;
}

function cutAt(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = cuts.map((part) => Math.floor(part * bytes.length));
  return [...places, bytes.length].map((end, i) => bytes.subarray(places[i - 1] ?? 0, end));
}
