import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { JoinedLines } from '../../../src/serve/workers/joined-output.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { PLANS } from '../../support/gateway.ts';
import { rawExchange } from '../../support/raw-http.ts';
import { LATE_MS } from '../../support/room.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { startUpstream } from '../../support/upstream.ts';
import { relaunch } from '../lifecycle/relaunch.ts';
import { callers, keepAsking } from './callers.ts';
import { metricOf, pidsOf, startWorkers, untilServing, workersOf } from './fleet.ts';

// Attack: none but our own writing. Several processes write to one pipe; a piece of more than 4 KiB may be cut anywhere to
// let another's in between, and whoever reads the log reads two halves that are no JSON.

const LONG = `/v1/pets/${'x'.repeat(6_000)}`;

/** A gateway of so many workers whose standard output is a pipe. */
async function startInto(path: string, workers: number) {
  const { origin } = await startUpstream();
  const setup = { upstream: origin, env: await workersOf(1) };
  const gateway = await relaunch(setup, 'exec "$@" > "$PIPE"', { PIPE: path, WORKERS: String(workers) });
  await untilServing(gateway, workers);
  return gateway;
}

/** A pipe, and what has been read from it so far. */
async function pipe() {
  const path = join(await temporaryFolder(), 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const buffer = Buffer.alloc(64 * 1024);
  let text = '';
  /** Reads a little. @returns all of it so far, which is ASCII */
  const read = () => {
    try {
      text += buffer.toString('latin1', 0, readSync(reader, buffer));
    } catch {
      // Nothing is there at the moment.
    }
    return text;
  };
  return { path, reader, read };
}

test('long lines of 2 workers come whole, each once, to a slow reader of one pipe', async () => {
  const { path, reader, read } = await pipe();
  atEnd(() => closeSync(reader));
  const gateway = await startInto(path, 2);
  const load = keepAsking(await callers(gateway, gateway.key, 9), LONG);
  await eventually(() => expect(load.answered).toBeGreaterThan(600), { withinMs: 10_000 });
  const answered = 9 + (await load.stop()).flat().length;
  const mentions = () => read().split('"msg":"request"}').length - 1;
  await eventually(() => expect(mentions()).toBe(answered), { withinMs: 10_000, everyMs: 1 });
  const lines = read().split('\n').slice(0, -1);
  const told = lines.map((line) => JSON.parse(line) as { requestId?: string });
  expect(new Set(told.flatMap(({ requestId }) => requestId ?? [])).size).toBe(answered);
  expect(await metricOf(gateway, 'tollgate_log_lines_dropped_total')).toBe(0);
});

test('a log that nobody reads holds up no request, no replacement and no stop; one whose reader has gone is counted', async () => {
  const { path, reader } = await pipe();
  const gateway = await startInto(path, 2);
  const [doomed] = await pidsOf(gateway);
  const load = keepAsking(await callers(gateway, gateway.key, 8), LONG);
  await eventually(() => expect(load.answered).toBeGreaterThan(800), { withinMs: 10_000 });
  process.kill(doomed!, 'SIGKILL');
  await eventually(async () => expect(await pidsOf(gateway)).not.toContain(doomed), { withinMs: 5_000 });
  const pids = await untilServing(gateway, 2);
  const dropped = () => metricOf(gateway, 'tollgate_log_lines_dropped_total');
  expect(await dropped()).toBe(0);
  closeSync(reader);
  await eventually(async () => expect(await dropped()).toBeGreaterThan(100), { withinMs: 5_000 });
  const before = { served: load.answered, dropped: await dropped() };
  await eventually(() => expect(load.answered).toBeGreaterThan(before.served + 100), { withinMs: 5_000 });
  await load.stop();
  await eventually(async () => expect(await dropped()).toBeGreaterThanOrEqual(before.dropped + 100));
  expect(await pidsOf(gateway)).toEqual(pids);
  const beganAtMs = performance.now();
  expect(await gateway.process.stop()).toEqual({ code: 0, signal: null });
  expect(performance.now() - beganAtMs).toBeLessThan(LATE_MS);
});

/** Joined lines into a pipe. */
async function join2() {
  const { path, reader, read } = await pipe();
  const writer = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  atEnd(() => closeSync(writer));
  const sources = [new PassThrough(), new PassThrough()] as const;
  const lines = new JoinedLines(writer);
  for (const source of sources) lines.follow(source);
  return { lines, sources, reader, read };
}

test('what comes in pieces is put together, and a line that its writer did not live to finish is left out', async () => {
  const { lines, sources, reader, read } = await join2();
  atEnd(() => closeSync(reader));
  const [one, two] = sources;
  one.write('{"a":');
  two.write('{"b":1}\n{"b"');
  one.write('1}\n{"a":2}\n{"torn');
  lines.write('{"own":1}\n');
  two.end(':2}\n');
  one.destroy();
  await eventually(() =>
    expect(read().split('\n').sort()).toEqual(['', '{"a":1}', '{"a":2}', '{"b":1}', '{"b":2}', '{"own":1}']),
  );
  await lines.close();
});

test('a reader that does not read makes the writers wait, and is waited for at the end no longer than half a second', async () => {
  const { lines, sources, reader } = await join2();
  atEnd(() => closeSync(reader));
  const [one, two] = sources;
  one.write(`${'x'.repeat(2 * 1024 * 1024)}\n`);
  await eventually(() => expect([one.isPaused(), two.isPaused()]).toEqual([true, true]));
  const beganAtMs = performance.now();
  await lines.close();
  // One that is waited for without end is waited for until the test gives up.
  expect(performance.now() - beganAtMs).toBeLessThan(LATE_MS);
  expect([one.destroyed, two.destroyed]).toEqual([true, true]);
});

test('writers that had to wait go on when the reader does', async () => {
  const { sources, reader, read } = await join2();
  atEnd(() => closeSync(reader));
  const [one, two] = sources;
  const line = `${'x'.repeat(1023)}\n`;
  for (let i = 0; i < 2_048; i++) one.write(line);
  await eventually(() => expect(two.isPaused()).toBe(true));
  two.write('last\n');
  await eventually(
    () => {
      const text = read();
      expect([text.includes('last\n'), text.length]).toEqual([true, 2_048 * 1_024 + 5]);
    },
    { withinMs: 10_000, everyMs: 0 },
  );
});

test('each of 2 workers counts the requests without a key for itself, and none is lost when they stop', async () => {
  const { origin } = await startUpstream();
  // Else an address that fails so often loses its connections.
  const plans = PLANS.replace('minute: 30', 'minute: 1000000');
  const gateway = await startWorkers(2, { upstream: origin, plans });
  const requests = 50;
  const flood = 'GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(requests);
  const startedAtMs = performance.now();
  // The connections are open at the same time, so that each worker has some.
  await Promise.all(
    Array.from({ length: 6 }, () => rawExchange(gateway.port, flood, { until: requests, withinMs: 10_000 })),
  );
  const seconds = (performance.now() - startedAtMs) / 1_000;
  await gateway.process.stop();
  const lines = gateway.process.stdout.split('\n').filter((line) => line.includes('"code":'));
  const counts = lines.map((line) => (JSON.parse(line) as { count: number }).count);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(6 * requests);
  expect(counts.length).toBeGreaterThanOrEqual(2);
  expect(counts.length).toBeLessThanOrEqual(2 * (Math.ceil(seconds) + 2));
});
