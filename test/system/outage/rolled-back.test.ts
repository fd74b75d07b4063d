import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startGateway } from '../../support/gateway.ts';
import { runTollgate, startTollgate } from '../../support/processes.ts';
import { startUpstream } from '../../support/upstream.ts';

test('a gateway whose store lost what it acknowledged in a crash starts only with --accept-rollback (reliability 246)', async () => {
  const upstream = await startUpstream();
  const gateway = await startGateway({ upstream: upstream.origin });
  const { env, process } = gateway;
  const { id, key } = await gateway.createKey('endless');
  expect((await gateway.command('keys', 'revoke', id)).code).toBe(0);
  process.signal('SIGKILL');
  await process.exit;
  rmSync(join(env.TOLLGATE_DATA!, 'tollgate.db-wal'));

  const refused = await runTollgate(['serve'], { env });
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(/lacks the last \d+ writes that were acknowledged.*--accept-rollback/);
  const listed = await runTollgate(['keys', 'list'], { env });
  expect(listed.code).toBe(1);
  expect(listed.stderr).toContain('--accept-rollback');

  const accepted = await startTollgate(['serve', '--accept-rollback'], { env });
  const [line] = await accepted.until(/^\{.*"msg":"serving"\}$/m);
  expect(accepted.stdout).toMatch(/"level":40.*and this was accepted/);
  const { port } = JSON.parse(line) as { port: number };
  const answer = await fetch(`http://127.0.0.1:${port}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });
  expect(answer.status).toBe(401);
  await accepted.stop();
  expect((await runTollgate(['keys', 'list'], { env })).code).toBe(0);
});
