import fc from 'fast-check';
import { expect, test } from 'vitest';
import { limitAt, windowLimit } from '../../src/admit/windows.ts';
import { countIn, givenBack, placeOf, presentCount } from '../../src/engine/counting.ts';
import type { WindowCount } from '../../src/model/account.ts';

const T0 = 1_800_000_000_000;
const forms = [{}, { slices: 4 }, { slices: 7 }, { slices: 30 }, { calendar: { unit: 'day', zone: 'UTC' } }] as const;

/** What was counted, when, and how much of it is given back when. */
const usages = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: 40_000_000 }),
    spent: fc.integer({ min: 1, max: 20 }),
    share: fc.double({ min: 0, max: 1, noNaN: true }),
    backAfterMs: fc.integer({ min: 0, max: 120_000_000 }),
  }),
  { minLength: 1, maxLength: 12 },
);

test.each(forms)('what is given back was counted, and counts no longer: as if it had never been spent (%j)', (form) => {
  const of = windowLimit('day', 1_000_000, form as never);
  fc.assert(
    fc.property(usages, (all) => {
      let atMs = T0;
      type Event = { readonly atMs: number; readonly spent: number; readonly id: number; readonly isBack: boolean };
      const events: Event[] = [];
      for (const [id, { afterMs, spent, share, backAfterMs }] of all.entries()) {
        atMs += afterMs;
        events.push({ atMs, spent, id, isBack: false });
        events.push({ atMs: atMs + backAfterMs, spent: Math.floor(spent * share), id, isBack: true });
      }
      events.sort((a, b) => a.atMs - b.atMs);
      const places = new Map<number, number>();
      const netOf = new Map<number, number>();
      let count: WindowCount | undefined;
      for (const { atMs: nowMs, spent, id, isBack } of events) {
        count = presentCount(count, limitAt(of, nowMs), nowMs).count;
        if (!isBack) {
          count = countIn(count, limitAt(of, nowMs), nowMs, spent);
          places.set(id, placeOf(count));
          netOf.set(id, spent);
        } else if (count !== undefined) {
          const before = count.used;
          count = givenBack(count, limitAt(of, nowMs), places.get(id)!, spent);
          const gone = before - (count?.used ?? 0);
          // All of it or nothing: nothing once its window, or its slice, is over.
          expect([0, spent]).toContain(gone);
          if (places.get(id)! > nowMs) expect(gone).toBe(spent);
          netOf.set(id, netOf.get(id)! - gone);
        }
      }
      const endMs = events.at(-1)!.atMs;
      const open = [...netOf].filter(([id]) => places.get(id)! > endMs).reduce((sum, [, net]) => sum + net, 0);
      expect(presentCount(count, limitAt(of, endMs), endMs).count?.used ?? 0).toBe(open);
    }),
  );
});
