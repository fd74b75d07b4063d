import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { temporaryFolder } from '../../support/processes.ts';
import { LATE_MS } from '../../support/room.ts';
import { startUpstream } from '../../support/upstream.ts';
import { type Relaunched, relaunch } from './relaunch.ts';

// Attack: nobody need attack. Whoever takes the log stops taking it: a collector hangs and its pipe is full, the disk is,
// or the reader is gone. A gateway that waits for its log then serves nobody, and one that keeps it all dies of it.

/** Access lines of 7 kB, which fill any buffer soon. */
const LONG = `/v1/pets/${'x'.repeat(7_000)}`;
const MIB = 1024 * 1024;

/** A gateway whose standard output is a pipe, with the reading end of it, which does not read. */
async function withPipe() {
  const pipe = join(await temporaryFolder(), 'log');
  execFileSync('mkfifo', [pipe]);
  const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
  const { origin } = await startUpstream();
  const gateway = await relaunch({ upstream: origin }, 'exec "$@" > "$PIPE"', { PIPE: pipe });
  return { gateway, reader };
}

/** @returns how many were not answered with 200 */
async function ask(gateway: Relaunched, path: string, requests: number): Promise<number> {
  let left = requests;
  let failed = 0;
  const one = async () => {
    while (left-- > 0) {
      const answer = await gateway.get(path);
      await answer.arrayBuffer();
      if (answer.status !== 200) failed++;
    }
  };
  await Promise.all(Array.from({ length: 16 }, one));
  return failed;
}

const dropped = (gateway: Relaunched) => gateway.metric('tollgate_log_lines_dropped_total');
const rss = (gateway: Relaunched) => gateway.metric('process_resident_memory_bytes');

test('a log that nobody reads holds up no request and no stop; memory is bounded, what is lost is counted (reliability 126)', async () => {
  const { gateway, reader } = await withPipe();
  atEnd(() => closeSync(reader));
  expect(await ask(gateway, LONG, 3_000)).toBe(0);
  const before = { dropped: await dropped(gateway), rss: await rss(gateway) };
  expect(before.dropped).toBeGreaterThan(0);
  expect(await ask(gateway, LONG, 3_000)).toBe(0);
  // From here on every line is one too many: none is held, 20 MB of them took no memory.
  expect(await dropped(gateway)).toBeGreaterThanOrEqual(before.dropped + 2_900);
  expect((await rss(gateway)) - before.rss).toBeLessThan(48 * MIB);

  gateway.process.signal('SIGTERM');
  const beganAtMs = performance.now();
  expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
  expect(performance.now() - beganAtMs).toBeLessThan(LATE_MS);
});

test('a log whose reader has gone ends nothing, and every line that it would have got is counted (reliability 126)', async () => {
  const { gateway, reader } = await withPipe();
  closeSync(reader);
  expect(await ask(gateway, '/v1/pets', 100)).toBe(0);
  await eventually(async () => expect(await dropped(gateway)).toBeGreaterThanOrEqual(100));
  expect(await ask(gateway, '/v1/pets', 100)).toBe(0);
  expect(await dropped(gateway)).toBeGreaterThanOrEqual(200);
  expect(await gateway.process.stop()).toEqual({ code: 0, signal: null });
});

test.skipIf(process.platform !== 'linux')(
  'a log on a full disk ends nothing and holds up nothing (reliability 126)',
  async () => {
    const { origin } = await startUpstream();
    const gateway = await relaunch({ upstream: origin }, 'exec "$@" > /dev/full');
    expect(await ask(gateway, LONG, 3_000)).toBe(0);
    expect(await dropped(gateway)).toBeGreaterThan(0);
    gateway.process.signal('SIGTERM');
    const beganAtMs = performance.now();
    expect(await gateway.process.exit).toEqual({ code: 0, signal: null });
    expect(performance.now() - beganAtMs).toBeLessThan(LATE_MS);
  },
);
