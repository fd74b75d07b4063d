import { expect } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { type GatewaySetup, PLANS, ROUTES, startGateway, type TestGateway } from '../../support/gateway.ts';
import { testRedis } from '../../support/redis.ts';

export { PLANS, ROUTES };

/** How a gateway of several workers says that it is. */
export interface Ready {
  readonly status: number;
  readonly store: string;
  readonly draining: boolean;
  readonly workers: readonly {
    readonly worker: number;
    readonly pid: number | null;
    readonly state: string;
    readonly connections: number;
  }[];
}

type Admin = Pick<TestGateway, 'adminPort'>;

/** What a gateway needs to run in several processes. */
export async function workersOf(count: number | 'auto'): Promise<Record<string, string>> {
  const { url } = await testRedis();
  return { WORKERS: String(count), REDIS_URL: url, KEY_PEPPER: 'a pepper that only the tests use' };
}

/** Starts a gateway of several workers, which has patience with a Redis on a busy machine. */
export async function startWorkers(count: number | 'auto', setup: GatewaySetup): Promise<TestGateway> {
  return startGateway({ more: 'redis: { timeout: 5s }', ...setup, env: { ...(await workersOf(count)), ...setup.env } });
}

export async function readyOf({ adminPort }: Admin): Promise<Ready> {
  const answer = await fetch(`http://127.0.0.1:${adminPort}/readyz`);
  return { ...((await answer.json()) as Omit<Ready, 'status'>), status: answer.status };
}

/** The processes of the workers that serve. */
export async function pidsOf(gateway: Admin): Promise<number[]> {
  const { workers } = await readyOf(gateway);
  return workers.flatMap(({ state, pid }) => (state === 'serving' && pid !== null ? [pid] : []));
}

/** Waits until so many workers serve. @returns their pids */
export function untilServing(gateway: Admin, count: number): Promise<number[]> {
  const all = async () => {
    const pids = await pidsOf(gateway);
    expect(pids).toHaveLength(count);
    return pids;
  };
  return eventually(all, { withinMs: 10_000 });
}

export async function connectionsOf(gateway: Admin): Promise<number[]> {
  return (await readyOf(gateway)).workers.map(({ connections }) => connections);
}

export async function metricsOf({ adminPort }: Admin): Promise<string> {
  return (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
}

/** The sum of a metric over all its labels. */
export async function metricOf(gateway: Admin, name: string): Promise<number> {
  const lines = (await metricsOf(gateway)).matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'));
  return [...lines].reduce((sum, [, value]) => sum + Number(value), 0);
}

/** The lines of its log with this message. */
export function linesOf({ process }: Pick<TestGateway, 'process'>, message: string): Record<string, unknown>[] {
  return process.stdout
    .split('\n')
    .filter((line) => line.endsWith(`"msg":"${message}"}`))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Whether a process runs. */
export function runs(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
