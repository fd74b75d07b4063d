import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { startUpstream } from '../support/upstream.ts';
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
  expect(performance.now() - again).toBeLessThan(3_000);
  expect(await answer).toBe('cut');
});
