import { describe, expect, test } from 'vitest';
import { LogLine } from '../../src/simulate/log-line.ts';
import { eventually } from '../support/conditions.ts';
import { runCommand } from '../support/run-command.ts';
import { ask, openWithAdmin, STORES, TOKEN } from './operator.ts';

describe.each(Object.entries(STORES))('limit, used and left on %s', (_, emptyStore) => {
  test('are the same in the fields, the log, the usage, near and the explanation of a refusal while a top-up is in force (reliability 375)', async () => {
    const gateway = await openWithAdmin(await emptyStore());
    const admin = (method: string, path: string, body?: unknown) => ask(gateway, method, `/admin${path}`, body);
    const { id: customer } = (await admin('POST', '/customers', { plan: 'small' })).body;
    const { id, key } = (await admin('POST', '/keys', { customer })).body;
    // The plan gives 3 a minute.
    await admin('POST', `/customers/${customer}/topups`, { window: 'minute', amount: 17 });

    const fields: unknown[] = [];
    for (let n = 1; n <= 21; n++) {
      const { headers, status } = await gateway.get('/v1/pets', key, { headers: { 'X-Request-Id': `numbers-${n}` } });
      expect(status).toBe(n <= 20 ? 200 : 429);
      fields.push([headers.get('x-ratelimit-limit'), headers.get('x-ratelimit-remaining')].map(Number));
      if (n !== 19) continue;
      const near = await eventually(async () => (await admin('GET', '/near')).body.keys[0] ?? false);
      expect(near).toMatchObject({ id, window: 'customer-minute', limit: 20, used: 19, remaining: 1 });
    }
    expect(fields).toEqual(Array.from({ length: 21 }, (_, i) => [20, Math.max(19 - i, 0)]));

    const usage = (await admin('GET', `/keys/${id}/usage`)).body.windows['customer-minute'];
    expect(usage).toMatchObject({ limit: 20, used: 20, remaining: 0 });
    const [refusal] = (await admin('GET', '/refusals/numbers-21')).body.refusals;
    const standing = refusal.limits.find(({ window }: { window: string }) => window === 'customer-minute');
    expect(standing).toMatchObject({ limit: 20, used: 20, remaining: 0 });
    expect(refusal.sentence).toContain('had used 20 of 20 requests');
    const there = { TOLLGATE_GATEWAY: `http://127.0.0.1:${gateway.adminPort}`, TOLLGATE_TOKEN: TOKEN };
    const shown = [await runCommand(there, 'explain', 'numbers-21'), await runCommand(there, 'usage', id)];
    expect(shown[0]!.stdout).toContain('customer-minute (fixed): 20 of 20 used, 0 left');
    expect(shown[1]!.stdout).toMatch(/customer-minute\s+20\s+20\s+0\s/);

    const lines = await eventually(() => {
      const found = gateway.process.stdout.split('\n').filter((line) => line.includes('"requestId":"numbers-'));
      return found.length === 21 && found;
    });
    for (const [i, line] of lines.entries()) {
      const { limits, remaining, topUps } = JSON.parse(line);
      expect([limits['customer-minute'], remaining['customer-minute']]).toEqual(fields[i]);
      expect(topUps).toEqual({ 'customer-minute': 17 });
      // A simulation takes the top-up off the limit, and nothing off what was used.
      const read = new LogLine();
      expect([read.read(line, 0, line.length), read.used]).toEqual(['decided', Math.min(i + 1, 20)]);
      expect(read.limits).toContain('"customer-minute":3');
    }
  });
});
