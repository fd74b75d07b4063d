import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { HeldBody, type HeldResult } from '../../src/gateway/held-body.ts';
import { HeldBytesBudget } from '../../src/io/held-bytes.ts';

const MIB = 1024 * 1024;

async function held(budget: HeldBytesBudget, maxBytes: number, bytes: number, ends = true) {
  const source = new PassThrough({ highWaterMark: 80 * MIB });
  const { promise, resolve } = Promise.withResolvers<HeldResult>();
  const body = new HeldBody(source as unknown as IncomingMessage, maxBytes, budget, resolve);
  source.write(Buffer.alloc(bytes));
  if (ends) source.end();
  else source.destroy();
  return { body, result: await promise };
}

test('all bodies that are held together have a bound, and give their memory back (reliability 174)', async () => {
  const budget = new HeldBytesBudget();
  const first = await held(budget, 80 * MIB, 63 * MIB);
  expect(first.result.kind).toBe('whole');
  expect((await held(budget, 80 * MIB, 2 * MIB)).result.kind).toBe('no_room');
  first.body.release();
  first.body.release();
  const all = await held(budget, 80 * MIB, 64 * MIB);
  expect(all.result.kind).toBe('whole');
  expect((await held(budget, 80 * MIB, 1)).result.kind).toBe('no_room');
});

test('a body beyond its own bound takes no memory, nor one whose client left', async () => {
  const budget = new HeldBytesBudget();
  const large = await held(budget, 10, 11);
  expect(large.result.kind).toBe('too_large');
  const gone = await held(budget, MIB, 0, false);
  expect(gone.result.kind).toBe('gone');
  for (const { body } of [large, gone]) body.release();
  expect(budget.take(64 * MIB)).toBe(true);
});
