import { Agent, request } from 'node:http';
import type { Answer, Claims, Running } from './contestants/contestant.ts';
import { LIMITS, type World } from './world.ts';

const FIELDS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset'];
/** Enough for every limit of failed authentications, and for a ban. */
const UNTIL_STEADY = 50;
const UNKNOWN_KEY = 'tg_live_0000000000000000000000000000000000000000000000';

/**
 * Tries what a contestant claims, before it is measured: a fast answer that is wrong is worth nothing.
 * @throws Error that says which claim does not hold
 */
export async function verify({ claims }: { readonly claims: Claims }, running: Running, world: World): Promise<void> {
  if (!claims.proxies) return;
  const ask = asker(running.port);
  try {
    await verifyAdmitted(ask, claims, world);
    if (claims.limits) await verifyCounting(ask, world);
    if (claims.checksKeys) expectStatus('an unknown key', await ask({ key: UNKNOWN_KEY }), 401);
  } finally {
    ask.end();
  }
}

/** Brings a contestant to where the load of its scenario is to find it, and tells its answer from then on. */
export async function steadyAnswer({ port }: Pick<Running, 'port'>, world: World): Promise<Answer> {
  const { scenario, keys } = world;
  const ask = asker(port);
  try {
    if (scenario.keyKind === 'good') return await ask({ key: keys.good[0]!, ...scenario });
    const key = scenario.keyKind === 'spent' || scenario.keyKind === 'banned' ? keys[scenario.keyKind] : UNKNOWN_KEY;
    let answer = await ask({ key });
    for (let i = 1; i < UNTIL_STEADY; i++) answer = await ask({ key });
    return answer;
  } finally {
    ask.end();
  }
}

async function verifyAdmitted(ask: Ask, { limits }: Claims, { keys, scenario }: World): Promise<void> {
  const get = await ask({ key: keys.good[0]! });
  expectStatus('an admitted GET', get, 200);
  if (get.body.length !== 284) throw new Error(`an admitted GET was answered with ${get.body.length} bytes, not 284`);
  const missing = limits ? FIELDS.filter((name) => !/^\d+$/.test(get.headers.get(name) ?? '')) : [];
  if (missing.length > 0) throw new Error(`an admitted GET was answered without ${missing.join(', ')}`);
  const own = await ask({ key: keys.good.at(-1)!, ...scenario });
  expectStatus(`an admitted ${scenario.method} ${scenario.path}`, own, 200);
  const bytes = scenario.path === '/v1/large' ? 100 * 1024 : 284;
  if (own.body.length !== bytes) throw new Error(`${scenario.path} was answered with ${own.body.length} bytes`);
}

async function verifyCounting(ask: Ask, { keys }: World): Promise<void> {
  const { day } = LIMITS.tiny;
  for (let i = 1; i <= day; i++) {
    const answer = await ask({ key: keys.tiny });
    expectStatus(`request ${i} of ${day}`, answer, 200);
    const remaining = Number(answer.headers.get('x-ratelimit-remaining'));
    if (remaining !== day - i) throw new Error(`after ${i} of ${day} requests it tells ${remaining} remaining`);
  }
  expectStatus('a request over the limit', await ask({ key: keys.tiny }), 429);
}

function expectStatus(what: string, { status, body }: Answer, expected: number): void {
  if (status === expected) return;
  throw new Error(`${what} was answered with ${status}, not ${expected}: ${body.slice(0, 60)}`);
}

interface Question {
  readonly key: string;
  readonly method?: string;
  readonly path?: string;
  readonly bodyBytes?: number;
}

interface Ask {
  (question: Question): Promise<Answer>;
  end(): void;
}

function asker(port: number): Ask {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ask = ({ key, method = 'GET', path = '/v1/pets', bodyBytes = 0 }: Question) =>
    new Promise<Answer>((resolve, reject) => {
      const headers = {
        authorization: `Bearer ${key}`,
        ...(bodyBytes > 0 ? { 'content-type': 'application/json', 'content-length': bodyBytes } : {}),
      };
      const asked = request({ host: '127.0.0.1', port, agent, method, path, headers, timeout: 10_000 }, (response) => {
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
      asked.once('timeout', () => asked.destroy(new Error(`${method} ${path} was not answered within 10 s`)));
      asked.once('error', reject);
      asked.end('x'.repeat(bodyBytes));
    });
  return Object.assign(ask, { end: () => agent.destroy() });
}
