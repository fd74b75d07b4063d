import { beforeEach, expect, test } from 'vitest';
import {
  ENDS_KEPT_MS,
  type FleetMessage,
  type FleetStore,
  MAX_ANSWERS,
  MAX_ENDS,
  MAX_QUESTIONS,
} from '../../src/operations/fleet/fleet-store.ts';
import { LATE_MS } from '../support/room.ts';

/** What a gateway says that has nothing to say. */
const SILENT: Omit<FleetMessage, 'id'> = {
  report: null,
  readsReports: false,
  questions: new Map(),
  answers: [],
  ends: new Map(),
};

/** What every store of messages between gateways must do. @param open a store that is empty, from two sides */
export function fleetStoreContract(
  open: () => Promise<{ readonly here: FleetStore; readonly there: FleetStore }>,
): void {
  let here: FleetStore;
  let there: FleetStore;
  beforeEach(async () => {
    ({ here, there } = await open());
  });
  const asHere = (message: Partial<FleetMessage> = {}) => here.exchange({ id: 'a', ...SILENT, ...message });
  const asThere = (message: Partial<FleetMessage> = {}) => there.exchange({ id: 'b', ...SILENT, ...message });

  test('a report is read by all who ask for reports, with the time of the store, and by no others', async () => {
    await asHere({ report: '{"name":"Ünï 🐟"}' });
    const { nowMs, reports } = await asThere({ readsReports: true, report: 'mine' });
    expect(reports.toSorted((x, y) => (x.id < y.id ? -1 : 1))).toEqual([
      { id: 'a', atMs: expect.any(Number), text: '{"name":"Ünï 🐟"}' },
      { id: 'b', atMs: nowMs, text: 'mine' },
    ]);
    expect(Math.abs(nowMs - Date.now())).toBeLessThan(LATE_MS);
    expect((await asThere()).reports).toEqual([]);
  });

  test('the latest report counts, and a gateway that has left has none', async () => {
    await asHere({ report: 'first' });
    await asHere({ report: 'second' });
    await asHere();
    expect((await asThere({ readsReports: true })).reports.map(({ text }) => text)).toEqual(['second']);
    await here.leave('a');
    expect((await asThere({ readsReports: true })).reports).toEqual([]);
  });

  test('a question reaches the others, and each answer reaches the one who asked, once, in order', async () => {
    await asHere({ questions: new Map([['a 1', 'why?']]) });
    expect((await asThere()).questions).toEqual(new Map([['a 1', 'why?']]));
    const answers = [
      { to: 'a', text: 'because' },
      { to: 'a', text: 'of this' },
      { to: 'c', text: 'other' },
    ];
    expect((await asThere({ answers })).answers).toEqual([]);
    expect((await asHere()).answers).toEqual(['because', 'of this']);
    expect((await asHere()).answers).toEqual([]);
  });

  test('an end of sessions is known to all, the latest moment counts, and what is older than 8 hours is forgotten', async () => {
    await asHere({ ends: new Map([['Jo 🐟', 0]]) });
    const ends = new Map([
      ['Jo 🐟', 5_000],
      ['old', ENDS_KEPT_MS + 5_000],
      ['a moment ago', 1_000],
    ]);
    const told = await asThere({ ends });
    expect(told.ends.get('a moment ago')).toBe(told.nowMs - 1_000);
    const { ends: known, nowMs } = await asHere();
    expect([...known.keys()].sort()).toEqual(['Jo 🐟', 'a moment ago']);
    expect(Math.abs(nowMs - known.get('Jo 🐟')!)).toBeLessThan(LATE_MS);
  });

  test('a part that one leaves is taken by another once, byte for byte', async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    await here.leavePart('b 1 a 0', bytes);
    expect([...((await there.takePart('b 1 a 0')) ?? [])]).toEqual([...bytes]);
    expect(await there.takePart('b 1 a 0')).toBeNull();
  });

  test('holds no more questions, answers and ends than it may', async () => {
    const many = (count: number) => Array.from({ length: count }, (_, i) => i);
    await asHere({ questions: new Map(many(MAX_QUESTIONS + 50).map((i) => [`a ${i}`, 'x'])) });
    await asHere({ answers: many(MAX_ANSWERS + 50).map((i) => ({ to: 'b', text: String(i) })) });
    await asHere({ ends: new Map(many(MAX_ENDS + 50).map((i) => [`name ${i}`, 0])) });
    const { questions, answers, ends } = await asThere();
    expect([questions.size, answers.length, ends.size]).toEqual([MAX_QUESTIONS, MAX_ANSWERS, MAX_ENDS]);
    expect(answers[0]).toBe('50');
  });
}
