import { emptyStore } from '../support/empty-store.ts';
import { type GatewaySetup, openGateway, startGateway, type TestGateway } from '../support/gateway.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { startUpstream } from '../support/upstream.ts';

export const TOKEN = 'let,me=in!please';

/** Environments of an empty store, one for each technology. */
export const STORES: Readonly<Record<string, () => Promise<Record<string, string>>>> = {
  'the embedded store': emptyStore,
  Redis: async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    return { REDIS_URL: url, KEY_PEPPER: 'a pepper that only the tests use' };
  },
};

/** The process of a gateway with an admin token, and an upstream that answers everything. */
export async function startWithAdmin(
  env: Readonly<Record<string, string>>,
  setup: Partial<GatewaySetup> = {},
): Promise<TestGateway> {
  return startGateway(await withAdmin(env, setup));
}

/** The same gateway in the process of the test: see {@link openGateway}. */
export async function openWithAdmin(
  env: Readonly<Record<string, string>>,
  setup: Partial<GatewaySetup> = {},
): Promise<TestGateway> {
  return openGateway(await withAdmin(env, setup));
}

async function withAdmin(env: Readonly<Record<string, string>>, setup: Partial<GatewaySetup>): Promise<GatewaySetup> {
  const upstream = await startUpstream();
  return { upstream: upstream.origin, env: { ADMIN_TOKEN: TOKEN, ...env }, ...setup };
}

export interface Told {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** What the JSON of the answer holds. */
  // biome-ignore lint/suspicious/noExplicitAny: an answer is looked at as a stranger would, member by member
  readonly body: any;
}

/** Asks the admin API of a gateway as an operator's script would. */
export async function ask(
  { adminPort }: Pick<TestGateway, 'adminPort'>,
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Told> {
  const response = await fetch(`http://127.0.0.1:${adminPort}${path}`, {
    method,
    headers: {
      Authorization: `Bearer ${TOKEN}`,
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const { status } = response;
  if (response.headers.get('content-type') === 'text/event-stream') {
    // The stream goes on until somebody leaves.
    await response.body?.cancel();
    return { status, headers: response.headers, text: '', body: '' };
  }
  const text = await response.text();
  return { status, headers: response.headers, text, body: text === '' ? null : JSON.parse(text) };
}

/** The audit lines that a gateway has written so far. */
export function auditLines({ process }: Pick<TestGateway, 'process'>): Record<string, unknown>[] {
  return process.stdout
    .split('\n')
    .filter((line) => line.includes('"msg":"audit"'))
    .map((line) => JSON.parse(line));
}
