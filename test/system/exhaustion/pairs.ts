import { startWatchedGateway, type WatchedGateway } from '../../../tools/fuzz/gateway.ts';
import { type Encryption, type LeavingClient, openLeavingClient } from '../../support/leaving-client.ts';
import { leftOpen, type OpenResources, restingResources } from '../../support/open-resources.ts';
import { REQUEST_KINDS, type RequestKind } from '../../support/request-kinds.ts';
import type { TellingUpstream } from '../../support/telling-upstream.ts';

export type Pair = readonly [first: RequestKind, second: RequestKind];

export const PAIRS = REQUEST_KINDS.flatMap((first) => REQUEST_KINDS.map((second): Pair => [first, second]));

/** How a client leaves, and what the service does with its two requests meanwhile. */
export interface Way {
  readonly name: string;
  readonly manners: readonly [first: Manner, second: Manner];
  /** @param arrived resolves when the first request is at the service */
  leave(client: LeavingClient, bytes: Buffer, arrived: Promise<void>): Promise<void>;
}

type Manner = 'quick' | 'held' | 'large';

const AT_A_TIME = 64;
const MIN_WITHIN_MS = 3_000;
/** So long a client waits for what many pairs never bring: an answer, or an arrival at the service. */
const PATIENCE_MS = 100;
const SERVED_WITHIN_MS = 10_000;

export const WAYS: readonly Way[] = [
  {
    name: 'a reset right behind the bytes',
    manners: ['held', 'held'],
    leave: async (client, bytes) => {
      client.socket.write(bytes);
      client.reset();
    },
  },
  {
    name: 'a reset while the first is at the service',
    manners: ['held', 'quick'],
    leave: async (client, bytes, arrived) => {
      client.socket.resume().write(bytes);
      await client.until(Promise.race([arrived, heard(client, 'data')]), PATIENCE_MS);
      client.reset();
    },
  },
  {
    name: 'a reset after the first answer',
    manners: ['quick', 'held'],
    leave: async (client, bytes) => {
      client.socket.write(bytes);
      await client.until(heard(client, 'data'), PATIENCE_MS);
      client.reset();
    },
  },
  {
    name: 'a FIN right behind the bytes',
    manners: ['held', 'held'],
    leave: async (client, bytes) => {
      client.socket.resume().end(bytes);
      await client.until(client.closed, MIN_WITHIN_MS);
    },
  },
  {
    name: 'a reset with the answers unread',
    manners: ['large', 'large'],
    leave: async (client, bytes) => {
      client.socket.write(bytes);
      await client.until(heard(client, 'readable'), PATIENCE_MS);
      client.reset();
    },
  },
];

function heard({ socket }: LeavingClient, event: 'data' | 'readable'): Promise<void> {
  return new Promise((resolve) => socket.once(event, () => resolve()));
}

export interface Transport {
  /** Lines of `listen:`. */
  readonly listen: Readonly<Record<string, string>>;
  readonly encryption: Encryption | null;
  readonly env: Readonly<Record<string, string>>;
}

const ROUTES = `  - { path: /live/**, methods: [GET], upstream: store, websocket: true }
  - { path: /**, methods: [GET, POST], upstream: store }`;

/** A gateway that clients leave; a new one after each time that something was left, so that the next time begins with none. */
export class Stage {
  readonly #transport: Transport;
  readonly #upstream: TellingUpstream;
  #gateway: WatchedGateway | null = null;
  #resting: OpenResources | null = null;
  #count = 0;

  constructor(transport: Transport, upstream: TellingUpstream) {
    this.#transport = transport;
    this.#upstream = upstream;
  }

  /** Lets a client leave with each of the pairs, many at a time. @returns what is left of them a second later */
  async leave(pairs: readonly Pair[], way: Way): Promise<readonly string[]> {
    const { gateway, resting } = await this.#running();
    const clients: LeavingClient[] = [];
    const waiting = [...pairs];
    const next = async () => {
      for (let pair = waiting.pop(); pair !== undefined && gateway.ended() === null; pair = waiting.pop()) {
        clients.push(await this.#leaveOne(pair, way, gateway));
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, next));
    // Served when all before it have been accepted: from here on there is nothing to do but to notice who has left.
    const served = await this.#untilServed(gateway);
    const beforeEach = () => this.#upstream.closeIdle();
    const left = await leftOpen(gateway, resting, { withinMs: MIN_WITHIN_MS, beforeEach });
    for (const client of clients) client.reset();
    const ended = gateway.ended();
    const problems = [...gateway.defects.splice(0), ...this.#upstream.problems.splice(0)];
    if (ended !== null) problems.push(`The gateway ended: ${ended}`);
    else problems.push(...left, ...(served === null ? [] : [`A client that stays was not served: ${served}`]));
    if (problems.length > 0) await this.stop();
    return problems;
  }

  async stop(): Promise<void> {
    await this.#gateway?.stop();
    this.#gateway = null;
  }

  async #running() {
    this.#gateway ??= await startWatchedGateway({
      listen: this.#transport.listen,
      upstreams: `  store: { targets: [${this.#upstream.origin}] }`,
      routes: ROUTES,
      more: 'redis: { timeout: 5s }',
      callers: 1,
      env: this.#transport.env,
    });
    this.#resting ??= await restingResources(this.#gateway);
    return { gateway: this.#gateway, resting: this.#resting };
  }

  async #leaveOne([first, second]: Pair, way: Way, { port, callers }: WatchedGateway): Promise<LeavingClient> {
    const [one, other] = way.manners.map((manner) => `/${manner}/${this.#count++}`) as [string, string];
    const targets = [one, `/live${one}`, other, `/live${other}`];
    const key = callers[0]!.key;
    const client = await openLeavingClient(port, this.#transport.encryption);
    const arrived = new Promise<void>((resolve) => {
      for (const target of targets.slice(0, 2)) this.#upstream.onArrival(target, resolve);
    });
    await way.leave(client, Buffer.from(first.bytes(one, key) + second.bytes(other, key), 'latin1'), arrived);
    for (const target of targets) this.#upstream.forget(target);
    return client;
  }

  /**
   * Sends requests until one is served. On a busy machine the first ones may be refused, while those of the clients that
   * have left still take the key's share of the upstream.
   * @returns null, or the last response if none was served in time
   */
  async #untilServed(gateway: WatchedGateway): Promise<string | null> {
    const endsAtMs = performance.now() + SERVED_WITHIN_MS;
    for (;;) {
      const answer = await this.#ask(gateway);
      if (answer.startsWith('HTTP/1.1 200 ')) return null;
      if (performance.now() > endsAtMs) return JSON.stringify(answer);
    }
  }

  async #ask({ port, callers }: WatchedGateway): Promise<string> {
    const client = await openLeavingClient(port, this.#transport.encryption);
    const [GET] = REQUEST_KINDS as [RequestKind];
    let answer = '';
    const answered = new Promise<void>((resolve) => {
      client.socket.setEncoding('latin1').on('data', (text: string) => {
        answer += text;
        resolve();
      });
    });
    client.socket.write(GET.bytes(`/quick/${this.#count++}`, callers[0]!.key));
    await client.until(answered, SERVED_WITHIN_MS);
    client.socket.end();
    return answer;
  }
}
