import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { testRedis } from '../support/redis.ts';
import { entriesOf } from '../support/run-command.ts';
import { startUpstream } from '../support/upstream.ts';

const PLANS = `
plans:
  trial: { enforce: false, limits: { minute: 3, day: unlimited }, bans: { after: 2, first: 1h } }
  tighter: { limits: { minute: 6 }, shadow: { minute: 2, day: 4 }, bans: off }
`;

interface Line {
  readonly msg: string;
  readonly judgement: string;
  readonly shadow: string | null;
  readonly status: number;
}

const linesOf = ({ process }: TestGateway): readonly Line[] =>
  process.stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line)
    .filter(({ msg }) => msg === 'request');

const stores = {
  'the embedded store': async () => ({}),
  Redis: async () => ({ REDIS_URL: (await testRedis()).url, KEY_PEPPER: 'a pepper for this test alone' }),
};

for (const [store, env] of Object.entries(stores)) {
  test(`with ${store}, a plan with \`enforce: false\` refuses nobody and says nothing in headers, but counts, strikes and bans in the log and the metrics`, async () => {
    const upstream = await startUpstream((_request, response) => response.end('{}'));
    const gateway = await openGateway({ upstream: upstream.origin, plans: PLANS, env: await env() });
    const { id, key } = await gateway.createKey('trial');
    for (let i = 0; i < 6; i++) {
      const answer = await gateway.get('/v1/pets', key);
      expect([answer.status, answer.headers.get('x-ratelimit-remaining')]).toEqual([200, '999999999999999']);
      expect(answer.headers.get('ratelimit-policy')).toBe(
        '"minute";q=999999999999999;w=60, "day";q=999999999999999;w=86400',
      );
    }
    // Nobody waits for the shadow but the record of the request.
    await eventually(async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
      expect(metrics).toMatch(
        /^tollgate_shadow_refusals_total\{plan="trial",window="minute",judgement="refused"\} 1$/m,
      );
      expect(metrics).toMatch(/^tollgate_shadow_refusals_total\{plan="trial",window="minute",judgement="banned"\} 2$/m);
    });
    expect(entriesOf((await gateway.command('bans', 'list', '--json')).stdout)).toEqual([]);
    const usage = (await (await gateway.get('/usage', key)).json()) as { windows: object; shadow: object };
    expect(usage.windows).toMatchObject({ minute: { limit: 'unlimited', used: 0 } });
    expect(usage.shadow).toMatchObject({
      windows: { minute: { limit: 3, used: 3, remaining: 0 } },
      ban: { number: 1 },
    });
    await eventually(
      async () => {
        const told = JSON.parse((await gateway.command('usage', id, '--json')).stdout) as object;
        expect(told).toMatchObject({ shadow: { windows: { minute: { limit: 3, used: 3 } }, ban: { number: 1 } } });
      },
      { withinMs: 5_000, everyMs: 200 },
    );
    await gateway.process.stop();
    const lines = linesOf(gateway).filter(({ judgement }) => judgement !== 'usage');
    expect(lines.map(({ judgement }) => judgement)).toEqual(Array.from({ length: 6 }, () => 'admitted'));
    expect(lines.map(({ shadow }) => shadow)).toEqual([
      'admitted',
      'admitted',
      'admitted',
      'refused',
      'banned',
      'banned',
    ]);
  });

  test(`with ${store}, \`shadow:\` limits count what the real ones admit, beside them, and refuse nobody`, async () => {
    const upstream = await startUpstream((_request, response) => response.end('{}'));
    const gateway = await openGateway({ upstream: upstream.origin, plans: PLANS, env: await env() });
    const { key } = await gateway.createKey('tighter');
    const statuses: number[] = [];
    for (let i = 0; i < 8; i++) {
      const answer = await gateway.get('/v1/pets', key);
      statuses.push(answer.status);
      expect(answer.headers.get('x-ratelimit-limit')).toBe('6');
      expect(answer.headers.get('ratelimit-policy')).toBe('"minute";q=6;w=60');
    }
    expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429]);
    await eventually(() => linesOf(gateway).length >= 6);
    await gateway.process.stop();
    const admitted = linesOf(gateway).filter(({ status }) => status === 200);
    expect(admitted.map(({ shadow }) => shadow)).toEqual([
      'admitted',
      'admitted',
      'refused',
      'refused',
      'refused',
      'refused',
    ]);
    const refused = linesOf(gateway).filter(({ status }) => status === 429);
    expect(refused.every(({ shadow }) => shadow === null)).toBe(true);
  });
}
