import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { Decoding } from '../../src/meter/decoders.ts';

/** A decoding of what is not coded. */
function decoding(onBytes: (bytes: Buffer) => boolean = () => true) {
  const stream = new PassThrough();
  const left = { times: 0 };
  return { stream, left, decoding: new Decoding(stream, onBytes, () => left.times++) };
}

describe('its decompressor is destroyed, and its place given back once,', () => {
  test('when no more is needed', async () => {
    const { stream, left, decoding: one } = decoding(() => false);
    one.add(Buffer.from('a'));
    one.add(Buffer.from('b'));
    await one.end();
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
    await one.end();
    await setImmediate();
    expect(pieces).toEqual(['a']);
  });

  test('when it fails, also more than once', async () => {
    const { stream, left, decoding: one } = decoding();
    const ended = one.end();
    stream.destroy(new Error('first'));
    await ended;
    stream.emit('error', new Error('second'));
    expect([stream.destroyed, left.times, one.fault]).toEqual([true, 1, 'undecodable']);
  });

  test('when too much waits', () => {
    const { stream, left, decoding: one } = decoding();
    one.add(Buffer.alloc(1024 * 1024 + 1));
    expect([stream.destroyed, left.times, one.fault]).toEqual([true, 1, 'too_large']);
  });
});
