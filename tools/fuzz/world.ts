import { randomBytes } from 'node:crypto';
import { LATE_MS } from '../../test/support/room.ts';
import type { AnswerCase } from './answers.ts';
import { talk } from './client.ts';
import {
  type AnswerScript,
  type Exchange,
  fillIn,
  KEY_PLACEHOLDER,
  type SeenRequest,
  TAG_PLACEHOLDER,
  Violation,
} from './exchange.ts';
import { type GatewayShape, startWatchedGateway, type WatchedGateway } from './gateway.ts';
import { judgeAnswerTalk, readAnswer } from './judge-answers.ts';
import { answerTo, judgeSeen, judgeTalk } from './judge-requests.ts';
import { cutInto } from './mutate.ts';
import { readRequests } from './reading.ts';
import type { RequestCase } from './requests.ts';
import { type StrictUpstream, startStrictUpstream } from './upstream.ts';

/** A gateway between clients and upstreams of the fuzzer's. */
export interface World {
  /** The gateway that runs now; a new one where the last has died, so that what killed it can be shrunk. */
  gateway(): Promise<WatchedGateway>;
  /**
   * `store` answers well, the others as they are told: what they do to their connections must not touch the first.
   * `talkative` has the answers with bytes behind them, after which the gateway reuses no connection for a minute.
   */
  readonly upstreams: Readonly<Record<UpstreamName, StrictUpstream>>;
  /** Gateways that died so far. */
  readonly deaths: number;
  /** A place of its own for each exchange that runs at the same time. */
  lane(): Lane;
  stop(): Promise<void>;
}

type UpstreamName = 'store' | 'hostile' | 'talkative';

export interface Lane {
  /** @throws Violation */
  request(it: RequestCase): Promise<void>;
  /** @throws Violation */
  answer(it: AnswerCase): Promise<void>;
}

/** Keys that a lane uses in turn: what arrives late for one exchange must not count for the next. */
const KEYS_PER_LANE = 4;
/** Longer than the gateway waits for an upstream. */
const QUIET_MS = 1_000 + LATE_MS;
const METHODS = '[GET, POST, PUT, PATCH, DELETE, OPTIONS]';

/** Starts a world with room for `lanes` exchanges at a time. */
export async function startWorld(lanes: number): Promise<World> {
  const via = `secret-${randomBytes(12).toString('hex')}`;
  const book = new Map<string, Exchange>();
  const upstreams = {
    store: await startStrictUpstream(via, book),
    hostile: await startStrictUpstream(via, book),
    talkative: await startStrictUpstream(via, book),
  };
  const start = () => startWatchedGateway(shapeOf(via, upstreams, lanes * KEYS_PER_LANE));
  const state = { taken: 0, deaths: 0, gateway: start() };
  const gateway = async () => {
    const it = await state.gateway;
    if (it.ended() === null) return it;
    state.deaths++;
    state.gateway = start();
    return state.gateway;
  };
  await gateway();
  return {
    gateway,
    upstreams,
    get deaths() {
      return state.deaths;
    },
    lane: () => new Exchanges({ gateway, upstreams: Object.values(upstreams), book }, state.taken++),
    stop: async () => {
      await (await state.gateway).stop();
      await Promise.all(Object.values(upstreams).map(({ connections }) => connections.close()));
    },
  };
}

function shapeOf(via: string, { store, hostile, talkative }: World['upstreams'], callers: number): GatewayShape {
  const impatient = 'responseTimeout: 1s, bodyTimeout: 1s';
  return {
    listen: { via, maxBodyBytes: '64KiB', maxUrlBytes: '4KiB' },
    upstreams: `  store: { targets: [${store.origin}] }
  hostile: { targets: [${hostile.origin}], ${impatient} }
  talkative: { targets: [${talkative.origin}], ${impatient} }`,
    routes: `  - { path: /store/**, methods: ${METHODS}, upstream: store, body: true }
  - { path: /hostile/**, methods: ${METHODS}, upstream: hostile }
  - { path: /talkative/**, methods: ${METHODS}, upstream: talkative }`,
    callers,
  };
}

interface Surroundings {
  readonly gateway: () => Promise<WatchedGateway>;
  readonly upstreams: readonly StrictUpstream[];
  readonly book: Map<string, Exchange>;
}

class Exchanges implements Lane {
  readonly #around: Surroundings;
  readonly #number: number;
  #count = 0;
  #late: string | null = null;

  constructor(around: Surroundings, number: number) {
    this.#around = around;
    this.#number = number;
  }

  async request({ template, cuts, harmless }: RequestCase): Promise<void> {
    const { gateway, key, exchange } = await this.#open((tag) => (request) => wellFormed(tag, request));
    const bytes = fillIn(template, { key, tag: exchange.tag });
    const reading = readRequests(bytes);
    const owed = reading.requests.filter(({ complete }) => complete).length;
    const { methods } = reading;
    const heard = await talk(gateway.port, cutInto(bytes, cuts), { owed, methods, quietMs: QUIET_MS });
    this.#check(gateway);
    judgeSeen(reading, exchange);
    judgeTalk(heard, reading, exchange, harmless);
    exchange.late = () => this.#judgeLate(template, () => judgeSeen(reading, exchange));
  }

  async answer(it: AnswerCase): Promise<void> {
    const script: { answer: AnswerScript } = { answer: { segments: [], end: 'fin' } };
    const { gateway, key, exchange } = await this.#open(() => () => script.answer);
    const bytes = fillIn(it.template, { key: '', tag: exchange.tag });
    const told = { ...it, end: endOf(it, bytes) };
    const segments = cutInto(bytes, it.cuts);
    script.answer = { segments: it.harmless ? segments : untilWhole(segments, told), end: told.end };
    const read = readAnswer(bytes, told);
    const isFollowed = read.kind === 'whole' && read.isFollowed;
    const upstream = it.harmless ? 'store' : isFollowed ? 'talkative' : 'hostile';
    const sent = fillIn(plainRequest(it, upstream), { key, tag: exchange.tag });
    const heard = await talk(gateway.port, [sent], { owed: 1, methods: [it.method], quietMs: QUIET_MS });
    this.#check(gateway);
    judgeSeen(readRequests(sent), exchange);
    judgeAnswerTalk(heard, read, it, exchange);
  }

  async #open(script: (tag: string) => Exchange['script']) {
    const gateway = await this.#around.gateway();
    const caller = gateway.callers[this.#number * KEYS_PER_LANE + (this.#count++ % KEYS_PER_LANE)]!;
    const tag = randomBytes(5).toString('hex');
    const exchange: Exchange = { tag, seen: [], script: script(tag), late: null };
    this.#around.book.set(caller.id, exchange);
    return { gateway, key: caller.key, exchange };
  }

  /** What is wrong whoever caused it. */
  #check(gateway: WatchedGateway): void {
    const ended = gateway.ended();
    if (ended !== null) throw new Violation(`The gateway ended: ${ended}`);
    const violations = this.#around.upstreams.map((upstream) => upstream.violations.splice(0));
    const [problem] = [...violations.flat(), ...gateway.defects.splice(0)];
    if (problem !== undefined) throw new Violation(problem);
    const late = this.#late;
    this.#late = null;
    if (late !== null) throw new Violation(late);
  }

  #judgeLate(template: string, judge: () => void): void {
    try {
      judge();
    } catch (error) {
      this.#late = `After the exchange ${JSON.stringify(template)} was over: ${error}`;
    }
  }
}

function plainRequest({ method, version }: AnswerCase, upstream: UpstreamName): string {
  const isPost = method === 'POST';
  const lines = [
    `${method} /${upstream}/${TAG_PLACEHOLDER} HTTP/${version}`,
    'Host: gateway.test',
    `Authorization: Bearer ${KEY_PLACEHOLDER}`,
    ...(isPost ? ['Content-Length: 2'] : []),
  ];
  return `${lines.join('\r\n')}\r\n\r\n${isPost ? '{}' : ''}`;
}

/** An answer that says whose it is. */
function wellFormed(tag: string, request: SeenRequest): AnswerScript {
  const text = answerTo(tag, request);
  const head = `HTTP/1.1 200 OK\r\nX-Answer: ${text}\r\nContent-Length: ${text.length}\r\n\r\n`;
  return { segments: [Buffer.from(request.method === 'HEAD' ? head : head + text, 'latin1')], end: 'keep' };
}

/** An upstream that keeps its connection open has to have answered, or each exchange costs a deadline. */
function endOf(it: AnswerCase, bytes: Buffer): AnswerCase['end'] {
  const isWhole = readAnswer(bytes, it).kind === 'whole';
  if (it.end === 'keep' && !isWhole) return 'fin';
  return it.end === 'silence' && isWhole ? 'keep' : it.end;
}

/**
 * Sends what follows a whole answer in one piece with it. Bytes that come later on a connection in order again cannot
 * be told from the answer to the next request, by anybody (RFC 9112 section 9.3.2).
 */
function untilWhole(segments: readonly Buffer[], it: AnswerCase): Buffer[] {
  for (let i = 1; i < segments.length; i++) {
    const read = readAnswer(Buffer.concat(segments.slice(0, i)), { method: it.method, end: 'keep' });
    if (read.kind === 'whole' || read.kind === 'malformed') {
      return [...segments.slice(0, i - 1), Buffer.concat(segments.slice(i - 1))];
    }
  }
  return [...segments];
}
