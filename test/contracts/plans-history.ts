import { beforeEach, expect, test } from 'vitest';
import { byReadability } from '../../src/model/record.ts';
import { KEPT_TEXT_BYTES, KEPT_VERSIONS, type PlansHistory } from '../../src/operations/plans/plans-history-store.ts';

const FILE = { kind: 'file', name: 'plans.yaml' } as const;
const PERSON = { kind: 'person', name: 'Jo Ünïcode <jo@example.com>' } as const;
const READ = { by: FILE, reason: null, changes: ['pro minute 300 → 500'] };
const WRITTEN = { by: PERSON, reason: 'Ticket 12 "ü"', changes: ['free added'] };
const entry = (number: number, version = `v${number}`) => ({ number, version, sinceMs: 1_000 + number, ...READ });

/** What every PlansHistory promises. `open` gives an empty one, twice: as two processes would have it. */
export function plansHistoryContract(
  open: () => Promise<{
    readonly here: PlansHistory;
    readonly there: PlansHistory;
    /** Replaces what the store has in place of the author of a version. */
    readonly damageAuthor: (number: number, text: string) => Promise<void>;
    /** Makes what the store has in place of the version unreadable. */
    readonly damageHead: (number: number) => Promise<void>;
  }>,
): void {
  let here: PlansHistory;
  let there: PlansHistory;
  let damageAuthor: (number: number, text: string) => Promise<void>;
  let damageHead: (number: number) => Promise<void>;
  beforeEach(async () => {
    ({ here, there, damageAuthor, damageHead } = await open());
  });
  const listed = async () => byReadability(await there.list()).readable;
  const numbers = async () => (await listed()).map(({ number }) => number);

  test('a version is there when add resolves, also elsewhere, with its exact text', async () => {
    expect([await there.list(), await there.text(1)]).toEqual([[], null]);
    const text = 'plans: {} # Ünïcode 🐟\r\n\n';
    await here.add(entry(1), text);
    expect(await there.list()).toEqual([entry(1)]);
    expect(await there.text(1)).toBe(text);
  });

  test('a version that several gateways add is one entry, and one that comes back is another', async () => {
    for (const history of [here, there]) await history.add(entry(1, 'a'), 'A');
    for (const history of [here, there]) await history.add(entry(3, 'b'), 'B');
    await there.add(entry(4, 'b'), 'B');
    await here.add(entry(5, 'a'), 'A');
    expect((await listed()).map(({ number, version }) => [number, version])).toEqual([
      [5, 'a'],
      [3, 'b'],
      [1, 'a'],
    ]);
  });

  test('a version that is added late stands where its number belongs', async () => {
    for (const number of [1, 12, 5]) await here.add(entry(number), 'text');
    expect(await numbers()).toEqual([12, 5, 1]);
  });

  test('who has written a version, why, and what it changed are kept, whether they are said before or after it is added, and of that version alone', async () => {
    await here.claim(1, WRITTEN);
    for (const number of [1, 2, 3]) await there.add(entry(number), 'text');
    await here.claim(3, WRITTEN);
    expect((await listed()).map(({ by }) => by)).toEqual([PERSON, FILE, PERSON]);
    expect((await there.list())[0]).toEqual({ ...entry(3), ...WRITTEN });
  });

  test('a hundred versions are kept, and the oldest go with their texts', async () => {
    for (let number = 1; number <= KEPT_VERSIONS + 2; number++) await here.add(entry(number), 'text');
    expect((await numbers()).length).toBe(KEPT_VERSIONS);
    expect([(await numbers()).at(-1), await there.text(2), await there.text(3)]).toEqual([3, null, 'text']);
    await here.add(entry(1), 'text');
    expect((await numbers()).at(-1)).toBe(3);
  });

  test('texts are kept up to their bound together, counted in bytes, and the newest in any case', async () => {
    const third = 'ü'.repeat(KEPT_TEXT_BYTES / 6 - 1);
    for (const number of [1, 2, 3]) await here.add(entry(number), third);
    expect(await numbers()).toEqual([3, 2, 1]);
    await here.add(entry(4), third);
    expect(await numbers()).toEqual([4, 3, 2]);
    await here.add(entry(5), 'x'.repeat(KEPT_TEXT_BYTES + 1));
    expect(await numbers()).toEqual([5]);
  });

  test.each(['{"kind":"file"', '', 'null', '7', '{"kind":"file"}', '{"kind":"robot","name":"x"}'])(
    'a version whose author has become %j is listed without one, and the others as they are (reliability 323)',
    async (text) => {
      for (const number of [1, 2, 3]) await here.add(entry(number), `text ${number}`);
      await damageAuthor(2, text);
      expect(await there.list()).toEqual([entry(3), { ...entry(2), by: null, reason: null, changes: null }, entry(1)]);
      expect(await there.text(2)).toBe('text 2');
    },
  );

  test('an entry that cannot be read is listed with its number, in its place, and others are added and claimed beside it (reliability 391)', async () => {
    for (const number of [1, 2, 3]) await here.add(entry(number), `text ${number}`);
    await damageHead(2);
    const [third, second, first] = await there.list();
    expect([third, first]).toEqual([entry(3), entry(1)]);
    expect(second).toMatchObject({
      id: '2',
      message: expect.stringMatching(/^Version 2 .* cannot be read\. It is .* 2 of /),
    });
    await here.claim(2, WRITTEN);
    await here.add(entry(4), 'text 4');
    expect(await numbers()).toEqual([4, 3, 1]);
    await damageHead(4);
    await here.add(entry(5), 'text 5');
    expect((await there.list()).map((one) => ('id' in one ? one.id : one.number))).toEqual([5, '4', 3, '2', 1]);
  });
}
