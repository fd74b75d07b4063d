import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { Decoders, Decoding } from '../../src/meter/decoders.ts';

/** A decoding of what is not coded. */
function decoding(onBytes: (bytes: Buffer) => boolean = () => true) {
  const stream = new PassThrough();
  const left = { times: 0 };
  const turns: (() => void)[] = [];
  const mustWait = { is: false };
  const reader = {
    read: onBytes,
    waitForTurn: (next: () => void) => mustWait.is && turns.push(next) > 0,
  };
  return { stream, left, turns, mustWait, decoding: new Decoding(stream, reader, () => left.times++) };
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
  const { stream, decoding: one } = decoding();
  one.add(Buffer.alloc(10));
  expect(one.isBehind).toBe(false);
  stream.cork();
  one.add(Buffer.alloc(1024 * 1024));
  expect(one.isBehind).toBe(true);
  const caughtUp = new Promise<void>((resolve) => one.whenCaughtUp(resolve));
  stream.uncork();
  await caughtUp;
  expect(one.isBehind).toBe(false);
  stream.cork();
  one.add(Buffer.alloc(1024 * 1024));
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

test('of the places one consumer has half of what the others leave, so that a fifth has some (reliability 341)', () => {
  const decoders = new Decoders();
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
