import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { openGateway } from '../../support/gateway.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { runCommand } from '../../support/run-command.ts';
import { startUpstream } from '../../support/upstream.ts';

const plansWith = (tokens: string) => `plans:
  model: { limits: { minute: 100 }, units: { tokens: { day: ${tokens} } } }
  banning: { limits: { minute: 100 }, units: { tokens: { day: ${tokens} } }, bans: { after: 2 } }
bans: off
`;
const ROUTES = `
  - path: /v1/chat
    methods: [POST]
    upstream: store
    cost: { tokens: { reserve: { json: /max_tokens, default: 30, most: 5000 }, from: { json: /used } } }
`;

interface Usage {
  readonly windows: Readonly<Record<string, { readonly used: number }>>;
}

test('the log of a gateway shows what another limit of tokens would have refused, and admitted', async () => {
  const upstream = await startUpstream((_request, response) => {
    response.setHeader('content-type', 'application/json').end('{"used":120}');
  });
  const old = plansWith('1000');
  const gateway = await openGateway({ upstream: upstream.origin, plans: old, routes: ROUTES });
  const chat = async (key: string, max_tokens: number) => {
    const body = JSON.stringify({ max_tokens });
    const response = await gateway.get('/v1/chat', key, { method: 'POST', body });
    await response.arrayBuffer();
    return response.status;
  };
  const [model, banned] = [await gateway.createKey('model'), await gateway.createKey('banning')];
  for (let i = 0; i < 5; i++) expect(await chat(model.key, 100)).toBe(200);
  await eventually(async () => {
    const { windows } = (await (await gateway.get('/usage', model.key)).json()) as Usage;
    expect(windows['tokens-day']!.used).toBe(600);
  });
  // 600 are used. One refusal comes from the store, the others from memory.
  for (const tokens of [900, 700, 701]) expect(await chat(model.key, tokens)).toBe(429);
  // The second strike is a ban.
  for (const tokens of [950, 900, 900, 900]) await chat(banned.key, tokens);
  // What was refused is no cost.
  const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
  for (const [plan, reserved] of [
    ['model', 500],
    ['banning', 950],
  ]) {
    expect(metrics).toContain(
      `tollgate_unit_amount_total{unit="tokens",plan="${plan}",amount="reserved"} ${reserved}\n`,
    );
  }
  await gateway.process.stop();
  const lines = gateway.process.stdout
    .split('\n')
    .filter((line) => line.includes('"units"'))
    .map((line) => JSON.parse(line));
  expect(lines).toHaveLength(gateway.process.stdout.split('"path":"/v1/chat"').length - 1);
  const refused = lines.filter(({ judgement, consumerId }) => judgement === 'refused' && consumerId === model.id);
  expect(refused.reduce((sum, { count = 1, units }) => sum + count * units.tokens.reserved, 0)).toBeGreaterThan(2_300);
  for (const { units } of refused) expect(units.tokens.settled).toBe(0);

  expect(lines.find(({ judgement }) => judgement === 'banned').units).toEqual({
    tokens: { reserved: 900, settled: 0 },
  });

  const folder = await temporaryFolder();
  const [log, before] = [join(folder, 'gateway.log'), join(folder, 'old.yaml')];
  await writeFile(log, gateway.process.stdout);
  await writeFile(before, old);
  const under = async (tokens: string) => {
    const plans = join(folder, 'new.yaml');
    await writeFile(plans, plansWith(tokens));
    const words = ['--log', log, '--plans', plans, '--from-plans', before, '--json'];
    const { code, stdout } = await runCommand({}, 'plans', 'simulate', ...words);
    expect(code).toBe(0);
    const report = JSON.parse(stdout);
    expect(report.baseline).toEqual({ verdicts: 0, bans: 0 });
    const key = report.keys.find(({ id }: { id: string }) => id === model.id);
    return { limits: report.byPlan[1].limits, refused: key?.simulated.refused ?? 0, key };
  };
  expect(await under('1000')).toMatchObject({ limits: 'minute 100, tokens-day 1000', refused: 3 });
  // 120 each: the fourth needs 100, and 40 are left.
  expect(await under('400')).toMatchObject({ refused: 5, key: { newlyRefused: 2 } });
  expect(await under('5000')).toMatchObject({ refused: 0, key: { newlyAdmitted: 3 } });
  expect(await under('99')).toMatchObject({ refused: 8 });
});
