import { expect, test } from 'vitest';
import { MOST_REFUSED, RefusalCounter, type Refusals } from '../../src/admit/refusals.ts';

const refusal = (consumerId: string) =>
  ({ consumerId, plan: 'free', kind: 'refused', window: 'minute', untilMs: 1 }) as const;

test('the refusals stay bounded while the store answers late and with errors', async () => {
  const reports: number[] = [];
  let fail = () => {};
  const addRefusals = (refusals: readonly Refusals[]) => {
    reports.push(refusals.length);
    return new Promise<void>((_, reject) => {
      fail = () => reject(new Error('away'));
    });
  };
  const counter = new RefusalCounter({ addRefusals });
  let next = 0;
  const countMany = () => {
    for (let i = 0; i < MOST_REFUSED; i++) counter.count(refusal(`key_${next++}`));
  };
  countMany();
  for (let round = 0; round < 3; round++) {
    const reported = counter.report();
    await Promise.resolve();
    countMany();
    fail();
    await reported;
  }
  const closed = counter.close();
  await Promise.resolve();
  fail();
  await closed;
  expect(Math.max(...reports)).toBe(MOST_REFUSED);
});
