import { PassThrough, Transform } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { type PoolShare, PoolThreads } from '../../src/io/pool-threads.ts';
import { Decoders, Decoding } from '../../src/meter/decoders.ts';

/** A decoding of what is not coded. */
function decoding(onBytes: (bytes: Buffer) => boolean = () => true, threads = new PoolThreads()) {
  const stream = new PassThrough();
  const left = { times: 0 };
  const turns: (() => void)[] = [];
  const mustWait = { is: false };
  const reader = {
    read: onBytes,
    waitForTurn: (next: () => void) => mustWait.is && turns.push(next) > 0,
  };
  const one = new Decoding(stream, reader, threads, threads.takePlace('key_1'), () => left.times++);
  return { stream, left, turns, mustWait, decoding: one };
}

/** Takes all threads. @returns the shares that have them */
function takeAll(threads: PoolThreads): readonly PoolShare[] {
  const taken: PoolShare[] = [];
  const share = threads.takePlace('others');
  const isTaken = () => {
    const before = taken.length;
    threads.want(share, { onThread: () => taken.push(share) });
    return taken.length > before;
  };
  while (isTaken());
  return taken;
}

describe('its decompressor is destroyed, and it leaves once,', () => {
  test('when no more is needed', async () => {
    const { stream, left, decoding: one } = decoding(() => false);
    one.add(Buffer.from('a'));
    one.add(Buffer.from('b'));
    await one.end(true);
    expect([stream.destroyed, left.times, one.fault]).toEqual([true, 1, null]);
    one.stop();
    expect(left.times).toBe(1);
  });

  test('when it is stopped, and nothing is read after that', async () => {
    const pieces: string[] = [];
    const { stream, left, decoding: one } = decoding((bytes) => pieces.push(String(bytes)) > 0);
    one.add(Buffer.from('a'));
    one.stop();
    one.add(Buffer.from('b'));
    expect([stream.destroyed, left.times, one.isOver]).toEqual([true, 1, true]);
    await one.end(true);
    await setImmediate();
    expect(pieces).toEqual(['a']);
  });

  test('when it fails, also more than once', async () => {
    const { stream, left, decoding: one } = decoding();
    const ended = one.end(true);
    stream.destroy(new Error('first'));
    await ended;
    stream.emit('error', new Error('second'));
    expect([stream.destroyed, left.times, one.fault]).toEqual([true, 1, 'undecodable']);
  });
});

test('what arrives faster than it is decompressed should wait, and is told when it need not (reliability 292)', async () => {
  const threads = new PoolThreads();
  const { decoding: one } = decoding(undefined, threads);
  const taken = takeAll(threads);
  one.add(Buffer.alloc(10));
  expect(one.isBehind).toBe(false);
  one.add(Buffer.alloc(64 * 1024));
  expect(one.isBehind).toBe(true);
  const caughtUp = new Promise<void>((resolve) => one.whenCaughtUp(resolve));
  threads.done(taken[0]!);
  await caughtUp;
  expect(one.isBehind).toBe(false);
  one.add(Buffer.alloc(64 * 1024));
  expect(one.isBehind).toBe(true);
  const stopped = new Promise<void>((resolve) => one.whenCaughtUp(resolve));
  one.stop();
  await stopped;
  expect(one.isBehind).toBe(false);
});

test('a consumer beyond its share reads its answers in its turns (reliability 292)', async () => {
  const pieces: string[] = [];
  const { turns, mustWait, decoding: one } = decoding((bytes) => pieces.push(String(bytes)) > 0);
  mustWait.is = true;
  one.add(Buffer.from('a'));
  await setImmediate();
  one.add(Buffer.from('b'));
  const ended = one.end(true);
  await setImmediate();
  expect(pieces).toEqual(['a']);
  mustWait.is = false;
  turns.shift()!();
  await ended;
  expect([pieces, turns]).toEqual([['a', 'b'], []]);
});

test('few answers are decompressed at a time, and one that waits for its turn lets another go on (reliability 340)', async () => {
  const threads = new PoolThreads();
  const working: (() => void)[] = [];
  const turns: (() => void)[] = [];
  const ends = Array.from({ length: 5 }, (_, i) => {
    const stream = new Transform({ transform: (bytes, _coding, done) => void working.push(() => done(null, bytes)) });
    const reader = { read: () => true, waitForTurn: (next: () => void) => i === 0 && turns.push(next) > 0 };
    const one = new Decoding(stream, reader, threads, threads.takePlace(`key_${i}`), () => {});
    one.add(Buffer.from('a'));
    return one.end(true);
  });
  expect(working).toHaveLength(2);
  working.shift()!();
  await setImmediate();
  // The first waits for its turn, and a third has its thread.
  expect([turns.length, working.length]).toEqual([1, 2]);
  let left = 4;
  for (const end of ends.slice(1)) void end.then(() => left--);
  while (left > 0) {
    expect(working.length).toBeLessThanOrEqual(2);
    working.shift()?.();
    await setImmediate();
  }
  while (turns.length > 0) {
    turns.shift()!();
    await setImmediate();
    working.shift()?.();
    await setImmediate();
  }
  await Promise.all(ends);
});

test('small answers of others are read while huge ones are decompressed (reliability 340)', async () => {
  const decoders = new Decoders(new PoolThreads());
  const order: string[] = [];
  const huge = gzipSync(Buffer.alloc(32 * 1024 * 1024));
  const read = (consumerId: string, body: Buffer) => {
    const one = decoders.start('gzip', body[0]!, consumerId, { read: () => true, waitForTurn: () => false });
    one.add(body);
    return one.end(true).then(() => order.push(consumerId));
  };
  await Promise.all([
    ...Array.from({ length: 4 }, () => read('hog', huge)),
    ...['a', 'b', 'c'].map((consumerId) => read(consumerId, gzipSync('small'))),
  ]);
  expect(order.slice(0, 3).toSorted()).toEqual(['a', 'b', 'c']);
});

test('of the places one consumer has half of what the others leave, so that a fifth has some (reliability 341)', () => {
  const decoders = new Decoders(new PoolThreads());
  const takeAll = (consumerId: string) => {
    let count = 0;
    while (decoders.take(consumerId)) count++;
    return count;
  };
  const consumers = ['key_1', 'key_2', 'key_3', 'key_4', 'key_5', 'key_6', 'key_7', 'key_8'];
  expect(consumers.map(takeAll)).toEqual([32, 16, 8, 4, 2, 1, 1, 0]);
  expect(decoders.taken).toBe(64);
  for (let i = 0; i < 32; i++) decoders.leave('key_1');
  expect(takeAll('key_8')).toBe(16);
});
