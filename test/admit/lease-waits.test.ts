import { expect, test } from 'vitest';
import type { Batch } from '../../src/admit/batch.ts';
import { LeaseWaits } from '../../src/admit/lease-waits.ts';
import { allowance } from '../support/allowance.ts';
import { holdTime } from '../support/hold-time.ts';

const PLAN = allowance({ minute: 1_000 });

/** A batch of a hundred requests that do not fit. */
function batchOf(consumerId: string): Batch {
  const waiting = Array.from({ length: 100 }, () => ({ onResult: () => {} }));
  return {
    consumerId,
    accountIds: [consumerId],
    allowance: PLAN,
    cost: 1,
    amounts: undefined,
    withinMs: null,
    waiting,
    deadline: null,
    state: 'new',
  };
}

test('consumers with many requests that wait for units leave room for those of others (reliability 345)', () => {
  holdTime();
  const waits = new LeaseWaits({ monotonicMs: () => 0, onReady: () => {} });
  const waitingOf = (consumerId: string) => {
    let count = 0;
    for (let batch = batchOf(consumerId); !waits.isOver(batch); batch = batchOf(consumerId)) {
      waits.add(batch, 350);
      count += 100;
    }
    return count;
  };
  const counts = Array.from({ length: 12 }, (_, i) => waitingOf(`key_${i}`));
  expect(counts).toEqual([...Array.from({ length: 9 }, () => 1_000), 500, 300, 100]);
  expect(waits.all).toBe(9_900);
});
