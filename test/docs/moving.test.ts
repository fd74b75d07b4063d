import { globSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type Allowance, allowanceOf } from '../../src/admit/allowance.ts';
import { decide } from '../../src/admit/decision.ts';
import { verdictOf } from '../../src/admit/verdict.ts';
import { parseGatewayFile } from '../../src/config/gateway-file.ts';
import { parsePlans } from '../../src/config/plans-schema.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { Plans } from '../../src/model/plan.ts';
import { openReplica } from '../support/gateway.ts';
import { blocksOf, textOf } from '../support/guides.ts';
import { ROOT, startProcess, temporaryFolder } from '../support/processes.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// The examples of move-from.md. nginx, Caddy and Express are not needed: what they refuse is read from their settings, and
// was measured as the page says.

const PAGE = 'docs/guides/move-from.md';
const EXAMPLES = 'examples/moving';
const KEY = 'shop_Q7mV2xT9bL4nR8kD1sW6yC3z';
const NAMES = readdirSync(join(ROOT, EXAMPLES), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort();

/** How many requests at once each set-up admits: from one address to /v1/status, and with one key to /v1/items. */
const ADMITTED: Readonly<Record<string, () => readonly number[]>> = {
  caddy: () => numbersIn('caddy/before/Caddyfile', /\bevents (\d+)/g),
  'express-rate-limit': () => numbersIn('express-rate-limit/before/server.js', /\blimit: (\d+)/g),
  // The bucket holds the burst and the request that is always admitted.
  nginx: () => numbersIn('nginx/before/nginx.conf', /\bburst=(\d+) nodelay/g).map((burst) => burst + 1),
  traefik: () => {
    const { http } = parse(example('traefik/before/dynamic.yml')) as {
      http: { middlewares: Record<string, { rateLimit: { burst: number } }> };
    };
    return ['by-address', 'by-key'].map((name) => http.middlewares[name]!.rateLimit.burst);
  },
};

function example(path: string): string {
  return textOf(join(EXAMPLES, path));
}

function numbersIn(path: string, pattern: RegExp): number[] {
  return [...example(path).matchAll(pattern)].map(([, digits]) => Number(digits));
}

describe('the page', () => {
  const page = textOf(PAGE);

  test('names every example, with each of its files', () => {
    expect(NAMES).toEqual(Object.keys(ADMITTED));
    for (const name of NAMES) {
      expect(page).toContain(`${EXAMPLES}/${name}/`);
      for (const file of readdirSync(join(ROOT, EXAMPLES, name, 'before'))) expect(page).toContain(`\`${file}\``);
      expect(readdirSync(join(ROOT, EXAMPLES, name, 'after')).sort()).toEqual(['gateway.yaml', 'plans.yaml']);
    }
  });

  test('has for each gateway a table of both sides and what differs', () => {
    const sections = page.split(/^## /m).filter((section) => section.includes('| There | Here |'));
    expect(sections.map((section) => section.split('\n')[0])).toEqual([
      'Traefik',
      'Caddy',
      'Envoy + ratelimit',
      'nginx limit_req',
      'Zuplo',
      'AWS API Gateway usage plans',
      'express-rate-limit',
    ]);
    for (const section of sections) {
      const [, differences = ''] = section.split('### What differs');
      const bullets = differences.split(/^### /m)[0]!.match(/^- /gm) ?? [];
      expect(bullets.length, section).toBeGreaterThanOrEqual(2);
      expect(bullets.length, section).toBeLessThanOrEqual(5);
    }
  });

  test('has lines of at most 140 characters', () => {
    expect(page.split('\n').filter((line) => line.length > 140)).toEqual([]);
  });
});

test('the windows beside the bucket of Traefik refuse nobody whom the bucket admits', () => {
  const { text } = blocksOf(PAGE).find((block) => block.text.includes('limit: 6250'))!;
  const { value } = parsePlans(text, 'plans.yaml') as { value: Plans };
  const held = allowanceOf(value.plans.get('basic')!, {}) as Allowance;
  const [burst, gainedAMs] = [50, 100 / 60_000];
  // After each pause the caller sends as fast as the bucket admits.
  const phases = fc.array(fc.record({ pauseMs: fc.nat(60_000), requests: fc.nat(300) }), {
    minLength: 5,
    maxLength: 30,
  });
  fc.assert(
    fc.property(phases, (all) => {
      let [atMs, tokens, state] = [1_790_000_000_000, burst, UNSEEN];
      const wait = (ms: number) => {
        atMs += ms;
        tokens = Math.min(burst, tokens + ms * gainedAMs);
      };
      for (const { pauseMs, requests } of all) {
        wait(pauseMs);
        for (let n = 0; n < requests; n++) {
          if (tokens < 1) wait(Math.ceil((1 - tokens) / gainedAMs));
          tokens -= 1;
          const decision = decide([state], held, atMs, 1, 1);
          state = decision.accounts[0];
          expect(verdictOf(decision, held, 0).kind).toBe('admitted');
        }
      }
    }),
    { numRuns: 50 },
  );
});

describe('each file', () => {
  test.each(globSync(`${EXAMPLES}/*/after/*.yaml`, { cwd: ROOT }))('%s has no fault and no warning', (path) => {
    const parsed = (path.endsWith('gateway.yaml') ? parseGatewayFile : parsePlans)(textOf(path), path);
    expect(parsed).not.toHaveProperty('faults');
    expect(parsed.warnings).toEqual([]);
  });

  test('of Traefik is YAML, and the labels name middlewares that dynamic.yml has', () => {
    const { http } = parse(example('traefik/before/dynamic.yml')) as { http: { middlewares: object } };
    const { services } = parse(example('traefik/before/docker-compose.yml')) as {
      services: { service: { labels: string[] } };
    };
    const named = services.service.labels.flatMap((label) => /\.middlewares=(.*)@file$/.exec(label)?.[1] ?? []);
    expect(named).toEqual(Object.keys(http.middlewares));
  });
});

describe.each(NAMES)('Tollgate with the settings of %s', (name) => {
  let upstream: Upstream;
  let origin: string;

  beforeAll(async () => {
    upstream = await startUpstream();
    ({ origin } = await gatewayOf(name, upstream));
  });

  test('refuses an address after as many requests at once as the settings before', async () => {
    const [admitted] = ADMITTED[name]!();
    expect(await statusesOf(`${origin}/v1/status`, {}, admitted! + 2)).toEqual(answers(admitted!, 2));
  });

  test('refuses an unknown key, and a known one after as many requests at once as the settings before', async () => {
    const [, admitted] = ADMITTED[name]!();
    const unknown = { 'X-API-Key': `${KEY.slice(0, -1)}A` };
    expect(await statusesOf(`${origin}/v1/items`, {}, 1)).toEqual([401]);
    expect(await statusesOf(`${origin}/v1/items`, unknown, 1)).toEqual([401]);
    // A dozen refusals would be a ban by default; the set-ups before ban no one.
    expect(await statusesOf(`${origin}/v1/items`, { 'X-API-Key': KEY }, admitted! + 12)).toEqual(
      answers(admitted!, 12),
    );
    const { status, body } = await ask(`${origin}/v1/items`, { Authorization: `Bearer ${KEY}` });
    expect({ status, body }).toEqual({ status: 429, body: expect.objectContaining({ code: 'rate_limit_exceeded' }) });
  });

  test('sends the key to no service', () => {
    expect(upstream.requests.length).toBeGreaterThan(0);
    for (const request of upstream.requests) expect(String(request.rawHeaders)).not.toContain(KEY);
  });
});

test('the service of the examples answers both paths', async () => {
  const running = startProcess(process.execPath, [`${EXAMPLES}/service.js`], { env: { PORT: '0' } });
  const [, origin] = await running.until(/^service on (http:\S+)$/m);
  expect(await ask(`${origin}/v1/status`, {})).toEqual({ status: 200, body: { status: 'ok' } });
  expect(await ask(`${origin}/v1/items`, {})).toMatchObject({ status: 200 });
  expect(await ask(`${origin}/v2`, {})).toMatchObject({ status: 404 });
  await running.stop();
});

/** A gateway with the files of an example as they stand there, and with the old key, which the line of the page imports. */
async function gatewayOf(name: string, { origin }: Upstream): Promise<{ readonly origin: string }> {
  const folder = join(ROOT, EXAMPLES, name, 'after');
  const env = {
    TOLLGATE_CONFIG: join(folder, 'gateway.yaml'),
    TOLLGATE_PLANS: join(folder, 'plans.yaml'),
    TOLLGATE_DATA: join(await temporaryFolder(), 'data'),
    UPSTREAM_URL: origin,
    PORT: '0',
    ADMIN_PORT: '0',
  };
  const gateway = await openReplica({ env });
  const typed = { ...env, PATH: `${join(ROOT, 'bin')}:${process.env.PATH}` };
  const importing = startProcess('sh', ['-c', lineThatImports()], { env: typed });
  const { code } = await importing.exit;
  expect({ code, output: importing.stdout + importing.stderr }).toEqual({
    code: 0,
    output: '1 imported, 0 there already, 0 refused.\n',
  });
  return gateway;
}

/** The line of the page that imports the key. */
function lineThatImports(): string {
  const commands = blocksOf(PAGE).flatMap(({ text }) => text.split('\n'));
  return commands.find((line) => line.endsWith('| tollgate keys import -'))!;
}

function answers(admitted: number, refused: number): number[] {
  return [...Array<number>(admitted).fill(200), ...Array<number>(refused).fill(429)];
}

async function statusesOf(url: string, headers: Record<string, string>, count: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let sent = 0; sent < count; sent += 1) statuses.push((await ask(url, headers)).status);
  return statuses;
}

async function ask(url: string, headers: Record<string, string>): Promise<{ status: number; body: unknown }> {
  const response = await fetch(url, { headers });
  return { status: response.status, body: await response.json() };
}
