import { Agent, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import type { Answer, Claims, Contestant, Running } from './contestants/contestant.ts';
import { LIMITS } from './limits.ts';
import { type Expected, type LoadRequest, requestOf, withKey } from './request.ts';
import type { World } from './world.ts';

const FIELDS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'];
/** Enough for every limit of failed authentications, and for a ban. */
export const UNTIL_STEADY = 50;
const UNKNOWN_KEY = 'tg_live_0000000000000000000000000000000000000000000000';

export const GET = requestOf({ method: 'GET', path: '/v1/pets', bodyBytes: 0 });

type Verified = Pick<Contestant, 'claims' | 'load' | 'proof'>;
type Tried = Pick<World, 'scenario' | 'keys'>;

/**
 * Tries what a contestant claims, before it is measured: a fast answer that is wrong is worth nothing.
 * @throws Error that says which claim does not hold
 */
export async function verify(
  { claims, load, proof }: Verified,
  running: Pick<Running, 'port'>,
  world: Tried,
): Promise<void> {
  if (!claims.proxies) return;
  const ask = asker(running.port, world.scenario.isHttp2);
  // A contestant with a load of its own may answer only that.
  const request = load?.request ?? GET;
  const admitted = load?.keyKind === 'good' ? load.expects.status : 200;
  try {
    if (load === undefined) await verifyAdmitted(ask, claims, world);
    if (claims.limits) await verifyCounting((key) => ask(request, key), admitted, world);
    if (claims.checksKeys) expectStatus('an unknown key', await ask(request, UNKNOWN_KEY), 401);
    if (proof === undefined) return;
    const { method, target } = proof.request;
    expectStatus(`${method} ${target}`, await ask(proof.request, world.keys.good[0]!), proof.status);
  } finally {
    ask.end();
  }
}

/**
 * Brings a contestant to where its load is to find it, and tells its answer from then on.
 * @throws Error where the contestant's own load expects another answer
 */
export async function steadyAnswer(
  { load }: Pick<Contestant, 'load'>,
  { port }: Pick<Running, 'port'>,
  { scenario, keys }: Tried,
): Promise<Answer> {
  const keyKind = load?.keyKind ?? scenario.keyKind;
  const ask = asker(port, scenario.isHttp2);
  try {
    const request = load?.request ?? (keyKind === 'good' ? requestOf(scenario) : GET);
    const key =
      keyKind === 'good' ? keys.good[0]! : keyKind === 'spent' || keyKind === 'banned' ? keys[keyKind] : UNKNOWN_KEY;
    let answer = await ask(request, key);
    for (let i = 1; keyKind !== 'good' && i < UNTIL_STEADY; i++) answer = await ask(request, key);
    if (load !== undefined) expectAnswer(answer, load.expects);
    return answer;
  } finally {
    ask.end();
  }
}

async function verifyAdmitted(ask: Asker, { limits }: Claims, { keys, scenario }: Tried): Promise<void> {
  const get = await ask(GET, keys.good[0]!);
  expectStatus('an admitted GET', get, 200);
  if (get.body.length !== 284) throw new Error(`an admitted GET was answered with ${get.body.length} bytes, not 284`);
  const missing = limits ? FIELDS.filter((name) => !/^\d+$/.test(get.headers.get(name) ?? '')) : [];
  if (missing.length > 0) throw new Error(`an admitted GET was answered without ${missing.join(', ')}`);
  const own = await ask(requestOf(scenario), keys.good.at(-1)!);
  expectStatus(`an admitted ${scenario.method} ${scenario.path}`, own, 200);
  if (own.body.length !== answerBytes(scenario))
    throw new Error(`${scenario.path} was answered with ${own.body.length} bytes`);
}

async function verifyCounting(ask: (key: string) => Promise<Answer>, admitted: number, { keys }: Tried): Promise<void> {
  const { day } = LIMITS.tiny;
  for (let i = 1; i <= day; i++) {
    const answer = await ask(keys.tiny);
    expectStatus(`request ${i} of ${day}`, answer, admitted);
    const remaining = Number(answer.headers.get('x-ratelimit-remaining'));
    if (remaining !== day - i) throw new Error(`after ${i} of ${day} requests it tells ${remaining} remaining`);
  }
  expectStatus('a request over the limit', await ask(keys.tiny), 429);
}

function expectAnswer(answer: Answer, { status, field, bodyBytes }: Expected): void {
  expectStatus('the request of its load', answer, status);
  const [name, value] = field ?? [];
  const found = name === undefined ? undefined : answer.headers.get(name.toLowerCase());
  if (found !== value) throw new Error(`its answer has ${found ?? 'nothing'} as ${name}, not ${value}`);
  const bytes = decoded(answer).length;
  if (bodyBytes !== null && bytes !== bodyBytes) throw new Error(`its answer has ${bytes} bytes, not ${bodyBytes}`);
}

function decoded({ headers, body }: Answer): Buffer {
  const bytes = Buffer.from(body, 'latin1');
  const encoding = headers.get('content-encoding');
  if (encoding === 'gzip') return gunzipSync(bytes);
  if (encoding === 'br') return brotliDecompressSync(bytes);
  return encoding === 'zstd' ? zstdDecompressSync(bytes) : bytes;
}

function expectStatus(what: string, { status, body }: Answer, expected: number): void {
  if (status === expected) return;
  throw new Error(`${what} was answered with ${status}, not ${expected}: ${body.slice(0, 60)}`);
}

export interface Asker {
  (request: LoadRequest, key: string): Promise<Answer>;
  end(): void;
}

/** What the service answers, see servers/upstream.ts. */
function answerBytes({ method, path }: Tried['scenario']): number {
  if (path === '/v1/large') return 100 * 1024;
  return method === 'GET' && path.startsWith('/v1/bytes/') ? Number(path.slice('/v1/bytes/'.length)) : 284;
}

/** Asks one request after the other, on one connection. */
export function asker(port: number, isTls = false): Asker {
  const settings = { keepAlive: true, maxSockets: 1, rejectUnauthorized: false };
  const [agent, send] = isTls ? [new TlsAgent(settings), tlsRequest] : [new Agent(settings), request];
  const ask = (keyless: LoadRequest, key: string) =>
    new Promise<Answer>((resolve, reject) => {
      const { method, target, headers: own, body: sent } = withKey(keyless, key);
      const headers = sent === '' ? own : { ...own, 'Content-Length': sent.length };
      const options = { host: '127.0.0.1', port, agent, method, path: target, headers, timeout: 10_000 };
      const asked = send(options, (response) => {
        let body = '';
        response.setEncoding('latin1');
        response.on('data', (text: string) => {
          body += text;
        });
        response.once('error', reject);
        response.once('end', () => {
          const fields = Object.entries(response.headers).map(([name, value]) => [name, String(value)] as const);
          resolve({ status: response.statusCode ?? 0, headers: new Map(fields), body });
        });
      });
      asked.once('timeout', () => asked.destroy(new Error(`${method} ${target} was not answered within 10 s`)));
      asked.once('error', reject);
      asked.end(sent);
    });
  return Object.assign(ask, { end: () => agent.destroy() });
}
