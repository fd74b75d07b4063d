import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Answer } from './answers.ts';
import type { ChaosKey } from './stand/keys.ts';

/** A client with one key that calls every gateway at a steady rate, whatever they answer. */
export interface Lane {
  readonly name: string;
  readonly key: ChaosKey;
  /** To each gateway. */
  readonly perSecond: number;
}

/** Requests of one lane that a gateway has at most at one time. More that are due meanwhile are left out. */
export const IN_FLIGHT = 8;
const TICK_MS = 10;
/** By then nobody answers any more. Far above every bound, so that it hides none. */
const DEADLINE_MS = 10_000;
const CONNECTIONS = 96;

/** Calls gateways over connections that are kept open, and never twice for one request. */
export class Callers {
  readonly #pools: readonly Pool[];
  readonly #listen: (answer: Answer) => void;
  readonly #running = new Set<Promise<unknown>>();
  #lanes: Lane[] = [];
  #ticking: Promise<void> | null = null;

  constructor(origins: readonly string[], listen: (answer: Answer) => void) {
    const limits = { headersTimeout: DEADLINE_MS, bodyTimeout: DEADLINE_MS, connect: { timeout: DEADLINE_MS } };
    this.#pools = origins.map((origin) => new Pool(origin, { connections: CONNECTIONS, ...limits }));
    this.#listen = listen;
  }

  /** These lanes call from now on, beside those that do already. */
  begin(...lanes: readonly Lane[]): void {
    this.#lanes = [...this.#lanes, ...lanes];
    this.#ticking ??= this.#tick();
  }

  /** No lane calls any more; resolves when what was under way has come to something. */
  async rest(): Promise<void> {
    this.#lanes = [];
    await this.#ticking;
    this.#ticking = null;
    await Promise.all(this.#running);
  }

  /** Leaves all gateways. More than once is as good as once. */
  async close(): Promise<void> {
    await this.rest();
    await Promise.all(this.#pools.map((pool) => (pool.destroyed ? null : pool.destroy())));
  }

  /** One request to one gateway. Never rejects. */
  async ask(lane: string, { id, secret }: ChaosKey, gateway: number): Promise<Answer> {
    const sentAtMs = performance.now();
    const answer = { lane, keyId: id, gateway, sentAtMs, ...(await this.#get(gateway, secret)) };
    const whole = { ...answer, latencyMs: performance.now() - sentAtMs };
    this.#listen(whole);
    return whole;
  }

  /** Calls one gateway, one request after the other, until `enough` answers; at most `most` times. */
  async until(lane: string, key: ChaosKey, gateway: number, most: number, enough: (answer: Answer) => boolean) {
    for (let i = 0; i < most; i++) if (enough(await this.ask(lane, key, gateway))) return;
  }

  async #get(gateway: number, secret: string): Promise<Pick<Answer, 'status' | 'code' | 'resetAtS'>> {
    try {
      const { statusCode, headers, body } = await this.#pools[gateway]!.request({
        method: 'GET',
        path: '/v1/pets',
        headers: { authorization: `Bearer ${secret}` },
      });
      const text = await body.text();
      const reset = headers['x-ratelimit-reset'];
      return {
        status: statusCode,
        code: statusCode === 200 ? null : codeOf(text),
        resetAtS: reset === undefined ? null : Number(reset),
      };
    } catch (error) {
      return { status: 0, code: (error as NodeJS.ErrnoException).code ?? String(error), resetAtS: null };
    }
  }

  async #tick(): Promise<void> {
    const due = new Map<Lane, number>();
    const inFlight = new Map<string, number>();
    let lastMs = performance.now();
    while (this.#lanes.length > 0) {
      await delay(TICK_MS);
      const nowMs = performance.now();
      for (const lane of this.#lanes) {
        const owed = (due.get(lane) ?? 0) + ((nowMs - lastMs) * lane.perSecond) / 1000;
        const whole = Math.floor(owed);
        due.set(lane, owed - whole);
        for (let i = 0; i < whole; i++) this.#callAll(lane, inFlight);
      }
      lastMs = nowMs;
    }
  }

  #callAll(lane: Lane, inFlight: Map<string, number>): void {
    for (const gateway of this.#pools.keys()) {
      const place = `${lane.name} ${gateway}`;
      const before = inFlight.get(place) ?? 0;
      if (before >= IN_FLIGHT) continue;
      inFlight.set(place, before + 1);
      const asked = this.ask(lane.name, lane.key, gateway).then(() => {
        inFlight.set(place, inFlight.get(place)! - 1);
        this.#running.delete(asked);
      });
      this.#running.add(asked);
    }
  }
}

function codeOf(text: string): string | null {
  try {
    return String((JSON.parse(text) as { code?: unknown }).code);
  } catch {
    return 'no JSON';
  }
}
