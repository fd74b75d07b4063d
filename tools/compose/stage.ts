import { ask } from './client.ts';
import type { Composition } from './composition.ts';

/** A setup that stands, and where it can be reached. */
export interface Stage {
  readonly composition: Composition;
  /** Of the load balancer, on 127.0.0.1. */
  readonly port: number;
  readonly prometheusPort: number;
  readonly grafanaPort: number;
}

export interface MadeKey {
  readonly id: string;
  readonly key: string;
}

/** What `tollgate usage ID --json` prints, as far as it is looked at here. */
export interface Usage {
  readonly windows: Readonly<Record<'minute' | 'day', { readonly used: number; readonly limit: number }>>;
  readonly ban: { readonly number: number } | null;
}

/** Makes a key by the command in a gateway's container. */
export async function makeKey({ composition }: Stage, ...options: readonly string[]): Promise<MadeKey> {
  return JSON.parse(await composition.exec('gateway-1', 'tollgate', 'keys', 'create', '--json', ...options)) as MadeKey;
}

export async function usageOf({ composition }: Stage, id: string): Promise<Usage> {
  return JSON.parse(await composition.exec('gateway-2', 'tollgate', 'usage', id, '--json')) as Usage;
}

/** How many requests a gateway has admitted since it started, by its metrics. */
export async function admittedBy({ composition }: Stage, gateway: string): Promise<number> {
  const script =
    "fetch('http://127.0.0.1:9090/metrics').then((it) => it.text()).then((it) => process.stdout.write(it))";
  const metrics = await composition.exec(gateway, 'node', '-e', script);
  const counts = [...metrics.matchAll(/^tollgate_requests_total\{[^}]*judgement="admitted"[^}]*\} (\d+)$/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** The statuses of requests that were sent at once, each on a connection of its own. */
export async function statusesOf({ port }: Stage, key: string, count: number): Promise<readonly number[]> {
  const answers = await Promise.all(Array.from({ length: count }, () => ask(port, '/v1/pets?limit=1', { key })));
  return answers.map(({ status }) => status);
}
