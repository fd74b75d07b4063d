import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freePort } from '../support/free-port.ts';
import { blocksOf, textOf } from '../support/guides.ts';
import { startProcess, startTollgate, temporaryFolder } from '../support/processes.ts';

test('the self-signed certificate of the guide to TLS works as it is typed', async () => {
  const cwd = await temporaryFolder();
  const [making, asking] = blocksOf('docs/guides/listener.md').filter(({ language }) => language === 'sh');
  const [settings] = blocksOf('docs/guides/listener.md').filter(({ text }) => text.includes('tls.crt, key: tls.key'));
  const made = await startProcess('sh', ['-c', making!.text], { cwd }).exit;
  expect(made.code).toBe(0);

  const [PORT, ADMIN_PORT] = [String(await freePort()), String(await freePort())];
  const routes = `upstreams: { store: { targets: [http://127.0.0.1:9000] } }\nroutes: [{ path: '/v1/**', methods: [GET], upstream: store }]\n`;
  writeFileSync(join(cwd, 'gateway.yaml'), `${settings!.text}${routes}`);
  writeFileSync(join(cwd, 'plans.yaml'), textOf('plans.yaml'));
  const env = { PORT, ADMIN_PORT, TOLLGATE_CONFIG: 'gateway.yaml', TOLLGATE_PLANS: 'plans.yaml' };
  const running = await startTollgate(['serve'], { cwd, env });
  await running.until(/"msg":"serving"/);
  const asked = startProcess('sh', ['-c', asking!.text.replace(':8080', `:${PORT}`)], { cwd });
  expect(await asked.exit).toMatchObject({ code: 0 });
  expect(asked.stdout).toMatch(/^HTTP\/2 401/);
  expect(asked.stdout).toContain('missing_api_key');
  await running.stop();
});
