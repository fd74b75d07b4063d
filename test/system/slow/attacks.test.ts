import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { LATE_MS } from '../../support/room.ts';
import { attack, type Ending, neverRead } from './attacks.ts';
import { type Health, startHealthyClient } from './healthy-client.ts';
import { type Stage, setStage } from './stage.ts';

// The attacks of slowhttptest, by a client of our own; `npm run fuzz` runs the tool itself.
const GROWTH_MIB = 64;

let stage: Stage;

beforeAll(async () => {
  stage = await setStage();
});

afterAll(() => stage.stop());

/** Runs an attack beside a well-behaved client, which must not feel it. */
async function beside<T>(run: () => Promise<T>): Promise<T> {
  const rssMib = stage.gateway.rssMib();
  const healthy = startHealthyClient(stage);
  const result = await run();
  expectWell(await healthy());
  expect(stage.gateway.rssMib() - rssMib).toBeLessThan(GROWTH_MIB);
  expect(stage.gateway.defects).toEqual([]);
  return result;
}

function expectWell({ requests, errors, p99Ms }: Health): void {
  expect(errors).toEqual([]);
  expect(requests).toBeGreaterThan(0);
  expect(p99Ms).toBeLessThan(LATE_MS);
}

function expectCut(endings: readonly Ending[], status: number, deadlineMs: number): void {
  expect(new Set(endings.map((ending) => ending.status))).toEqual(new Set([status]));
  const times = endings.map(({ afterMs }) => afterMs);
  expect(Math.min(...times)).toBeGreaterThanOrEqual(deadlineMs - 50);
  expect(Math.max(...times)).toBeLessThan(deadlineMs + LATE_MS);
}

// Attack: many connections, each of which sends a byte of its head now and then, so that it is never idle and never done
// (slowloris). They cost the attacker nothing, and take every place there is.
test('200 clients that send their head byte by byte are cut with 408 at headersTimeout (reliability 61)', async () => {
  const endings = await beside(() => attack('H', stage, 200));
  expectCut(endings, 408, stage.deadlinesMs.headers);
});

// Attack: the same with a body, behind a good head and a good key: each wants a connection to the upstream, too.
test('200 clients that send their body byte by byte are cut with 408 at requestTimeout (reliability 62)', async () => {
  const endings = await beside(() => attack('B', stage, 200));
  expectCut(endings, 408, stage.deadlinesMs.request);
});

// Attack: ask for much and read nothing. What the upstream sends is kept for the client, and its connection is busy.
test('20 clients that never read are let go at writeTimeout, with their upstream connections (reliability 63)', async () => {
  const { gateway } = stage;
  const reads = await beside(async () => {
    const readers = neverRead(stage, 20);
    const open = async () => {
      const metrics = await gateway.metrics();
      return [metrics.get('tollgate_connections'), metrics.get('tollgate_in_flight')] as [number, number];
    };
    await eventually(async () => (await open()).every((count) => count >= 20), { withinMs: 5_000 });
    // The well-behaved client has a few connections at most.
    const gone = async () => (await open()).every((count) => count <= 5);
    await eventually(gone, { everyMs: 50 });
    return readers;
  });
  reads.leave();
});

test('100 requests for 1,300 ranges each are answered like any other', async () => {
  const endings = await beside(() => attack('R', stage, 100));
  expect(new Set(endings.map(({ status }) => status))).toEqual(new Set([200]));
});
