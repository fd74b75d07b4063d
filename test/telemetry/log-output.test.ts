import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { LogOutput } from '../../src/telemetry/log-output.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { holdTime } from '../support/hold-time.ts';
import { LATE_MS } from '../support/room.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const line = (i: number) => `${i} ${'é'.repeat(200)}\n`;
const text = (lines: number) => Array.from({ length: lines }, (_, i) => line(i)).join('');

/** A pipe that says when it is full, both ends of it, and an output into it that counts what it drops. */
async function pipe(maxBytes = 16 * 1024 * 1024) {
  const path = join(await temporaryFolder(), 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writer = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  atEnd(() => closeSync(writer));
  const count = { dropped: 0 };
  const output = new LogOutput({ fd: writer, maxBytes, onDrop: () => count.dropped++ });
  return { reader, output, count };
}

/** More than a pipe holds. */
const space = Buffer.alloc(1024 * 1024);

/** Reads what is there. */
function readSome(fd: number): Buffer {
  try {
    return Buffer.from(space.subarray(0, readSync(fd, space)));
  } catch {
    return Buffer.alloc(0);
  }
}

test('lines arrive whole, in order and once, also when the reader is slower than the writer', async () => {
  const { reader, output, count } = await pipe();
  atEnd(() => closeSync(reader));
  // What is left over when the output has been waited for long enough is dropped.
  const pass = holdTime();
  for (let i = 0; i < 5_000; i++) output.write(line(i));
  const closing = output.close();
  const received: Buffer[] = [];
  const whole = text(5_000);
  const wholeBytes = Buffer.byteLength(whole);
  let length = 0;
  await eventually(
    async () => {
      const some = readSome(reader);
      received.push(some);
      length += some.length;
      await pass(1);
      return length >= wholeBytes;
    },
    { everyMs: 1 },
  );
  await closing;
  expect(Buffer.concat(received).toString()).toBe(whole);
  expect(count.dropped).toBe(0);
});

test('a few lines do not wait for more of them', async () => {
  const { reader, output } = await pipe();
  atEnd(() => closeSync(reader));
  output.write(line(0));
  await eventually(() => expect(readSome(reader).toString()).toBe(line(0)));
  output.write(line(1));
  await eventually(() => expect(readSome(reader).toString()).toBe(line(1)));
});

test('what does not fit is dropped and counted, and so is what nobody has taken at the end', async () => {
  const bytes = Buffer.byteLength(line(1));
  const { reader, output, count } = await pipe(bytes * 1_000);
  for (let i = 1_000; i < 2_200; i++) output.write(line(i % 10));
  expect(count.dropped).toBe(200);
  const beganAtMs = performance.now();
  await output.close();
  expect(performance.now() - beganAtMs).toBeLessThan(LATE_MS);
  const taken = readSome(reader).length;
  closeSync(reader);
  // The pipe has taken a part; of the piece that was half written every line counts as lost.
  expect(count.dropped).toBeGreaterThanOrEqual(1_200 - taken / bytes);
  expect(count.dropped).toBeLessThanOrEqual(1_200);
});

test('lines that nobody takes hold hardly more memory than they have bytes, however long they are', async () => {
  const { reader, output } = await pipe();
  const before = process.memoryUsage().arrayBuffers;
  const long = 'x'.repeat(43_600);
  for (let i = 0; i < 300; i++) output.write(long);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1.5 * 300 * long.length);
  await output.close();
  closeSync(reader);
});

test('a reader that leaves loses its lines and nothing else', async () => {
  const { reader, output, count } = await pipe();
  closeSync(reader);
  for (let i = 0; i < 100; i++) output.write(line(i));
  await eventually(() => expect(count.dropped).toBe(100));
  output.write(line(0));
  expect(count.dropped).toBe(101);
  await output.close();
});

test('a file is written to its end before it is closed', async () => {
  const path = join(await temporaryFolder(), 'log');
  const fd = openSync(path, 'a');
  const output = new LogOutput({ fd, maxBytes: 1024 * 1024, onDrop: () => {} });
  for (let i = 0; i < 1_000; i++) output.write(line(i));
  await output.close();
  closeSync(fd);
  expect(readFileSync(path, 'utf8')).toBe(text(1_000));
});
