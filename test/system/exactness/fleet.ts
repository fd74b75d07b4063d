import { Pool } from 'undici';
import { expect } from 'vitest';
import { LENT_FROM } from '../../../tools/load/exchange.ts';
import { atEnd } from '../../support/endings.ts';
import { type GatewaySetup, startGateways, type TestGateway } from '../../support/gateway.ts';
import { startUpstream } from '../../support/upstream.ts';

export const PEPPER = 'a pepper for the exactness tests';

/** What one request came to. */
export interface Answer extends Wish {
  readonly status: number;
  readonly remaining: number;
  readonly limit: number;
  readonly retryAfter: number | null;
  /** `code` of the Error; null on a success. */
  readonly code: string | null;
  readonly details: Readonly<Record<string, unknown>>;
}

export interface Wish {
  readonly key: string;
  readonly path: string;
}

/** Gateways on one store, before one upstream that answers at once. */
export interface Fleet {
  readonly gateways: readonly TestGateway[];
  /** How many requests of a consumer have reached the upstream. */
  reached(consumerId: string): number;
  /** Sends the requests in this order, spread over all gateways, on `connections` connections that stay open. */
  send(wishes: readonly Wish[]): Promise<readonly Answer[]>;
}

export async function startFleet(
  size: number,
  { connections, ...setup }: Omit<GatewaySetup, 'upstream'> & { readonly connections: number },
): Promise<Fleet> {
  const reached = new Map<string, number>();
  const upstream = await startUpstream(
    (_request, response, recorded) => {
      const [id] = recorded.values('X-Consumer-Id') as [string];
      reached.set(id, (reached.get(id) ?? 0) + 1);
      response.writeHead(200, { 'content-length': 2 }).end('ok');
    },
    { readBody: false },
  );
  const gateways = await startGateways(size, { ...setup, upstream: upstream.origin });
  const pools = gateways.map(({ origin }) => new Pool(origin, { connections: connections / size, pipelining: 1 }));
  atEnd(() => Promise.all(pools.map((pool) => pool.destroy())));
  return {
    gateways,
    reached: (consumerId) => reached.get(consumerId) ?? 0,
    send: (wishes) => Promise.all(wishes.map((wish, i) => ask(pools[i % pools.length]!, wish))),
  };
}

async function ask(pool: Pool, { key, path }: Wish): Promise<Answer> {
  const { statusCode, headers, body } = await pool.request({
    method: 'GET',
    path,
    headers: { authorization: `Bearer ${key}` },
  });
  const text = await body.text();
  const error = statusCode === 200 ? null : JSON.parse(text);
  const retryAfter = headers['retry-after'];
  return {
    key,
    path,
    status: statusCode,
    remaining: Number(headers['x-ratelimit-remaining']),
    limit: Number(headers['x-ratelimit-limit']),
    retryAfter: retryAfter === undefined ? null : Number(retryAfter),
    code: error?.code ?? null,
    details: error?.details ?? {},
  };
}

/** The same order for the same seed (Fisher and Yates, with a Lehmer generator). */
export function shuffled<T>(items: readonly T[], seed: number): T[] {
  const mixed = [...items];
  let state = seed;
  for (let i = mixed.length - 1; i > 0; i--) {
    state = (state * 48_271) % 2_147_483_647;
    const j = state % (i + 1);
    [mixed[i], mixed[j]] = [mixed[j]!, mixed[i]!];
  }
  return mixed;
}

export const repeat = <T>(n: number, item: T): T[] => Array.from({ length: n }, () => item);

/**
 * Holds the X-RateLimit-Remaining of all that was admitted in one window against the limit: with leases none reports more than is left,
 * and what a gateway decides while nothing is lent reports exactly that. Without them, or below a limit that is lent, each number
 * from the limit down is there once.
 */
export function expectCountdown(remaining: readonly number[], limit: number): void {
  const told = remaining.toSorted((a, b) => b - a);
  const exact = Array.from({ length: told.length }, (_, i) => limit - 1 - i);
  if (limit < LENT_FROM) expect(told).toEqual(exact);
  else expect(told.filter((one, i) => one > exact[i]!)).toEqual([]);
}
