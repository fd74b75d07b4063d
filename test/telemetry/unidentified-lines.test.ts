import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import { networkOf } from '../../src/identify/failed-attempts.ts';
import { isUnidentified, openLog, UnidentifiedLines } from '../../src/telemetry/log.ts';
import { EXCHANGE } from '../simulate/recorded.ts';

interface Line {
  readonly atMs: number;
  readonly address: string | null;
  readonly requestId: string;
  readonly count: number;
}

/** What is written, and when. */
function recorded() {
  const written: Line[] = [];
  const clock = { nowMs: 0 };
  const lines = new UnidentifiedLines(({ clientAddress: address, requestId }, count) =>
    written.push({ atMs: clock.nowMs, address, requestId, count }),
  );
  const add = (clientAddress: string, requestId = 'id') =>
    lines.add({ ...EXCHANGE, consumerId: null, judgement: 'unauthenticated', clientAddress, requestId }, clock.nowMs);
  return { written, clock, lines, add };
}

const sumOf = (lines: readonly Line[]) => lines.reduce((sum, { count }) => sum + count, 0);

const ADDRESSES = ['192.0.2.1', '192.0.2.2', '2001:db8::1', '2001:db8::2', '2001:db8:0:1::1', 'unknown'];

/** An address that sends a request, or a timer that may be late; each so long after the one before. */
const histories = fc.array(
  fc.tuple(fc.constantFrom(...ADDRESSES, null, null), fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 1_500 }))),
  { maxLength: 60 },
);

test('each network has at most one line a second, the first at once, and the counts are all of its requests (reliability 153)', () => {
  fc.assert(
    fc.property(histories, (history) => {
      const { written, clock, lines, add } = recorded();
      const sent: { readonly network: string; readonly id: string; readonly atMs: number }[] = [];
      for (const [i, [address, pauseMs]] of history.entries()) {
        clock.nowMs += pauseMs;
        if (address === null) lines.writeDue(clock.nowMs);
        else {
          add(address, String(i));
          sent.push({ network: networkOf(address), id: String(i), atMs: clock.nowMs });
        }
      }
      const inTime = written.length;
      lines.writeAll();
      for (const network of new Set(sent.map((it) => it.network))) {
        const own = written.filter(({ address }) => networkOf(address!) === network);
        const requests = sent.filter((it) => it.network === network);
        expect(sumOf(own)).toBe(requests.length);
        expect(own[0]).toMatchObject({ requestId: requests[0]!.id, atMs: requests[0]!.atMs, count: 1 });
        // Each line has the members of the last request that it stands for.
        let told = 0;
        for (const { requestId, count } of own) {
          told += count;
          expect(requestId).toBe(requests[told - 1]!.id);
        }
        const times = own.filter((line) => written.indexOf(line) < inTime).map(({ atMs }) => atMs);
        for (const [i, atMs] of times.entries()) expect(i === 0 || atMs - times[i - 1]! >= 1_000).toBe(true);
      }
      expect(sumOf(written)).toBe(sent.length);
      expect(lines.dueAtMs).toBe(null);
    }),
    { numRuns: 500, seed: 20_261_122 },
  );
});

test('what is held is written a second after the last line, and then nothing is held', () => {
  const { written, clock, lines, add } = recorded();
  const wait = () => {
    clock.nowMs = lines.dueAtMs!;
    lines.writeDue(clock.nowMs);
  };
  for (const id of ['a', 'b', 'c']) add('192.0.2.1', id);
  wait();
  add('192.0.2.1', 'd');
  wait();
  expect(written).toEqual([
    { atMs: 0, address: '192.0.2.1', requestId: 'a', count: 1 },
    { atMs: 1_000, address: '192.0.2.1', requestId: 'c', count: 2 },
    { atMs: 2_000, address: '192.0.2.1', requestId: 'd', count: 1 },
  ]);
  wait();
  expect([lines.dueAtMs, written.length]).toEqual([null, 3]);
});

// Attack: a line of memory for each of a million addresses.
test('of 1,000 addresses each has a line of its own; the requests of all further ones share one without an address', () => {
  const { written, clock, lines, add } = recorded();
  const addresses = Array.from({ length: 5_000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
  for (let round = 0; round < 3; round++) for (const address of addresses) add(address);
  expect(written).toHaveLength(1_001);
  clock.nowMs = 1_000;
  lines.writeDue(clock.nowMs);
  expect(written).toHaveLength(2_002);
  const own = written.filter(({ address }) => address !== null);
  expect(new Set(own.map(({ address }) => address))).toEqual(new Set(addresses.slice(0, 1_000)));
  expect([sumOf(own), sumOf(written)]).toEqual([3_000, 15_000]);
  clock.nowMs = 2_000;
  lines.writeDue(clock.nowMs);
  expect(lines.dueAtMs).toBe(null);
  add(addresses.at(-1)!);
  expect(written.at(-1)).toMatchObject({ address: addresses.at(-1), count: 1 });
});

test('only requests without a consumer that were not admitted are told this way', () => {
  const judgements = ['refused', 'banned', 'unauthenticated', 'preflight', 'malformed', 'undecided'] as const;
  for (const judgement of judgements) {
    expect(isUnidentified({ ...EXCHANGE, consumerId: null, judgement })).toBe(true);
    expect(isUnidentified({ ...EXCHANGE, judgement })).toBe(false);
  }
  expect(isUnidentified({ ...EXCHANGE, consumerId: null, judgement: 'admitted', plan: 'public' })).toBe(false);
  expect(isUnidentified({ ...EXCHANGE, judgement: 'usage' })).toBe(false);
});

test('the log writes what it held when the second is over, and has a timer only while it holds something', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const written: { readonly count?: number }[] = [];
  const log = openLog({
    level: 'info',
    sample2xx: () => 1,
    nowMs: () => 0,
    monotonicMs: () => performance.now(),
    onDrop: () => {},
    stream: { write: (line) => written.push(JSON.parse(line)) },
  });
  log.access(EXCHANGE);
  expect(vi.getTimerCount()).toBe(0);
  for (let i = 0; i < 4; i++) log.access({ ...EXCHANGE, consumerId: null, judgement: 'malformed' });
  expect([written.map(({ count }) => count), vi.getTimerCount()]).toEqual([[undefined, 1], 1]);
  vi.advanceTimersByTime(1_000);
  expect([written.map(({ count }) => count), vi.getTimerCount()]).toEqual([[undefined, 1, 3], 1]);
  vi.advanceTimersByTime(1_000);
  expect([written.length, vi.getTimerCount()]).toEqual([3, 0]);
  void log.close();
});
