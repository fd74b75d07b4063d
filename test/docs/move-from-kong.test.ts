import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openReplica } from '../support/gateway.ts';
import { blocksOf } from '../support/guides.ts';
import { ROOT, startProcess, temporaryFolder } from '../support/processes.ts';

test('the commands of the page move the example as they stand there, and a key of Kong is served', async () => {
  const block = blocksOf('docs/guides/move-from-kong.md').find(({ text }) => text.startsWith('tollgate import kong'))!;
  const lines = block.text.trim().split('\n');
  expect(lines.pop()).toBe('tollgate serve');
  const folder = await temporaryFolder();
  const env = { PATH: `${join(ROOT, 'bin')}:${process.env.PATH}`, TOLLGATE_DATA: join(folder, 'data') };
  const script = ['set -e', `ln -s ${join(ROOT, 'examples')} examples`, ...lines].join('\n');
  const typed = startProcess('sh', ['-c', script], { cwd: folder, env });
  const { code } = await typed.exit;
  expect([code, typed.stderr]).toEqual([0, '']);
  expect(typed.stdout).toContain('19 created');
  expect(typed.stdout).toMatch(/kong\.yaml:\d+:\d+: services\[3\]\.routes\[3\]: route beta/);
  const [TOLLGATE_CONFIG, TOLLGATE_PLANS] = ['gateway', 'plans'].map((name) => join(folder, 'moved', `${name}.yaml`));
  const gateway = await openReplica({
    env: { ...env, TOLLGATE_CONFIG: TOLLGATE_CONFIG!, TOLLGATE_PLANS: TOLLGATE_PLANS!, PORT: '0', ADMIN_PORT: '0' },
  });
  // The service of the example is at port 9000, where nothing listens here: 502 comes after the key was accepted.
  const of = (key: string) => fetch(`${gateway.origin}/v1/orders`, { headers: { apikey: key } });
  expect((await of('Q7mV2xT9bL4nR8kD1sW6yC3zF5gH0jPa')).headers.get('x-ratelimit-limit')).toBe('60');
  expect((await of('Q7mV2xT9bL4nR8kD1sW6yC3zF5gH0jPb')).status).toBe(401);
});
