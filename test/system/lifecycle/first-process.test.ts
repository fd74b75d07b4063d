import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { ROOT } from '../../support/processes.ts';
import { LATE_MS } from '../../support/room.ts';
import { startUpstream } from '../../support/upstream.ts';
import { pidsOf, workersOf } from '../workers/fleet.ts';
import { relaunch } from './relaunch.ts';

// Attack: in a container without an init the gateway is process 1, to which the system does nothing by default: a signal
// that it has no listener for is not obeyed, and a stop waits until the container is killed.

/** Makes a process the first of a namespace, as a container does, without root. */
const UNSHARE = ['-Urpf', '--kill-child', '--mount-proc'];
const canUnshare = spawnSync('unshare', [...UNSHARE, 'true']).status === 0;

const SECOND_SIGNAL_AFTER_MS = 1_000;

async function startAsFirst() {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((_request, response) => held.push(response));
  const gateway = await relaunch({ upstream: upstream.origin }, `exec unshare ${UNSHARE.join(' ')} "$@"`);
  const { pid } = gateway.process;
  const first = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());
  expect(readFileSync(`/proc/${first}/status`, 'utf8')).toMatch(/^NSpid:.*\t1$/m);
  const answer = gateway.get('/v1/pets').then(
    ({ status }) => status,
    () => 'cut',
  );
  await eventually(() => expect(held).toHaveLength(1));
  return { gateway, held, answer, signal: (signal: NodeJS.Signals) => process.kill(first, signal) };
}

test.skipIf(!canUnshare)('as process 1 it drains at SIGTERM and exits with 0 (reliability 127)', async () => {
  const { gateway, held, answer, signal } = await startAsFirst();
  signal('SIGTERM');
  await eventually(async () => expect((await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`)).status).toBe(503));
  held[0]?.end('{}');
  expect(await answer).toBe(200);
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
});

test.skipIf(!canUnshare)('as process 1 it ends at once at a second signal (reliability 127, 119)', async () => {
  const { gateway, answer, signal } = await startAsFirst();
  const signalledAtMs = performance.now();
  signal('SIGTERM');
  await eventually(() => performance.now() - signalledAtMs > SECOND_SIGNAL_AFTER_MS + 100);
  const again = performance.now();
  signal('SIGINT');
  expect(await gateway.process.exit).toEqual({ code: 130, signal: null });
  // The drain would take 30 s.
  expect(performance.now() - again).toBeLessThan(LATE_MS);
  expect(await answer).toBe('cut');
});

// Attack: SIGUSR1 starts Node's debugger. Another program of the same user, or one in the same container, then connects to
// it and runs code as the gateway.
test.skipIf(process.platform !== 'linux')('as its command starts it, no process of it takes SIGUSR1', async () => {
  const { origin } = await startUpstream();
  const gateway = await relaunch(
    { upstream: origin, env: await workersOf(2) },
    `exec ${join(ROOT, 'bin', 'tollgate')} serve`,
  );
  const pids = [gateway.process.pid, ...(await pidsOf(gateway))];
  expect(pids).toHaveLength(3);
  for (const pid of pids) {
    const [, caught] = /^SigCgt:\s+(\w+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    // The tenth signal.
    expect(BigInt(`0x${caught}`) & (1n << 9n)).toBe(0n);
    process.kill(pid, 'SIGUSR1');
  }
  expect((await gateway.get('/v1/pets')).status).toBe(200);
});

test('the scripts of package.json and the image start it by that command', () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  for (const name of ['start', 'tollgate']) expect(scripts[name]).toMatch(/^exec bin\/tollgate(?: start)?$/);
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  expect(dockerfile).toContain('ENTRYPOINT ["tollgate"]\n');
  expect(dockerfile).toContain('ln -s /app/bin/tollgate /usr/local/bin/tollgate');
});
