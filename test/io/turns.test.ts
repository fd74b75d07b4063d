import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { afterReading } from '../../src/io/after-reading.ts';
import { Turns } from '../../src/io/turns.ts';

// Attack: hundreds of sessions of HTTP/2, each of which opens all its streams in one write.
test('work that arrives together is done over several turns, of each owner in turn (reliability 254)', async () => {
  let nowMs = 0;
  const begun: string[] = [];
  const turns = new Turns(() => nowMs, 2);
  const begin = (of: string, name: string) =>
    turns.begin(of, () => {
      begun.push(name);
      nowMs += 1;
    });
  for (let i = 0; i < 10; i++) begin('attacker', `a${i}`);
  begin('other', 'b0');
  expect(begun).toEqual(['a0', 'a1']);
  await turn();
  expect(begun.length).toBeLessThanOrEqual(4);
  for (let i = 0; i < 20; i++) await turn();
  expect(begun.indexOf('b0')).toBeLessThanOrEqual(3);
  expect(begun.filter((name) => name.startsWith('a'))).toEqual(Array.from({ length: 10 }, (_, i) => `a${i}`));
  // Nothing waits any more, so the next one is begun at once.
  begin('other', 'b1');
  expect(begun.at(-1)).toBe('b1');
});

// Fault: the work of an owner that waited behind work that throws was lost, and its streams were never answered.
test('work that throws does not take the rest of its owner with it (reliability 254)', async () => {
  const begun: string[] = [];
  let nowMs = 0;
  const turns = new Turns(() => nowMs, 2);
  turns.begin('one', () => {
    nowMs += 2;
  });
  const thrown = new Promise((resolve) => {
    const before = process.rawListeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.once('uncaughtException', (error) => {
      for (const listener of before) process.on('uncaughtException', listener as (error: Error) => void);
      resolve(error);
    });
  });
  const broken = new Error('broken');
  turns.begin('one', () => {
    throw broken;
  });
  turns.begin('one', () => begun.push('rest'));
  expect(await thrown).toBe(broken);
  for (let i = 0; i < 3; i++) await turn();
  expect(begun).toEqual(['rest']);
});

// Fault: it was lost while more of that owner waited.
test('work that comes while other work of its owner is done has its turn (reliability 414)', async () => {
  const done: string[] = [];
  let nowMs = 0;
  const turns = new Turns(() => nowMs++, 1);
  turns.later('one', () => {
    done.push('first');
    turns.later('one', () => done.push('third'));
  });
  turns.later('one', () => done.push('second'));
  for (let i = 0; i < 6; i++) await turn();
  expect(done).toEqual(['first', 'second', 'third']);
});

// Fault: work that always waits was scheduled before anything was read, so it ran before what others had ready to be written.
test('what is ready is done before work that waits, and so is what its promises lead to (reliability 412)', async () => {
  const order: string[] = [];
  let flooding = true;
  let nowMs = 0;
  const turns = new Turns(() => nowMs++, 1);
  turns.later('attacker', () => {
    order.push('flood');
    return flooding;
  });
  while (order.length < 3) await turn();
  const ended = new Promise<void>((resolve) => {
    // As what arrives, a timer runs before the end of its turn.
    setTimeout(() => {
      order.length = 0;
      afterReading(() => {
        order.push('decided');
        void Promise.resolve().then(() => order.push('stored'));
      });
      afterReading(() => {
        order.push('written');
        afterReading(resolve);
      });
    });
  });
  await ended;
  flooding = false;
  expect(order.slice(0, 4)).toEqual(['decided', 'written', 'stored', 'flood']);
});
