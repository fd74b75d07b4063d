import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { bucketsOf } from '../../src/admit/history.ts';
import { neverWait, openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedHistory } from '../../src/stores/embedded/history.ts';
import { EmbeddedLedger } from '../../src/stores/embedded/ledger.ts';
import { allowance } from '../support/allowance.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { LATE_MS } from '../support/room.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('refusals wait for no other process, and count once although they are reported twice', async () => {
  const wallMs = () => 1_800_000_000_000;
  const db = openDatabase(await temporaryFolder());
  const ledger = new EmbeddedLedger({ db, wallMs });
  const history = new EmbeddedHistory({ db, wallMs, live: ledger.histories });
  neverWait(db);
  const other = new DatabaseSync(db.location()!);
  atEnd(() => {
    ledger.close();
    db.close();
    other.close();
  });
  const refusals = [
    {
      consumerId: 'key_a',
      plan: 'free',
      kind: 'refused',
      window: 'minute',
      cost: 1,
      untilMs: wallMs() + 1,
      refused: 7,
      banned: 2,
    },
  ] as const;
  other.exec('BEGIN IMMEDIATE');
  const beganMs = performance.now();
  await expect(history.addRefusals(refusals)).rejects.toMatchObject({ code: 'store_unavailable' });
  expect(performance.now() - beganMs).toBeLessThan(LATE_MS);
  other.exec('ROLLBACK');
  expect(await history.of('key_a')).toBeNull();

  await history.addRefusals(refusals);
  const [bucket] = bucketsOf((await history.of('key_a'))!.history, 'hour', wallMs());
  expect(bucket).toMatchObject({ refused: 7, banned: 2 });
  expect(await history.refusedNow()).toMatchObject([{ consumerId: 'key_a' }]);
});

test('a history is removed while the gateway runs, 92 days after the last use', async () => {
  let nowMs = 1_800_000_000_000;
  const wallMs = () => nowMs;
  const db = openDatabase(await temporaryFolder());
  atEnd(() => db.close());
  const rows = () =>
    db
      .prepare('SELECT consumer_id AS id FROM histories ORDER BY id')
      .all()
      .map(({ id }) => id);
  const ledger = new EmbeddedLedger({ db, wallMs });
  atEnd(() => ledger.close());
  const plan = { ...allowance({ day: 10 }), history: 'admitted' } as const;
  const use = (consumerId: string) => ledger.decide([{ consumerId, allowance: plan, cost: 1, n: 1 }]);
  await use('key_a');
  await eventually(() => expect(rows()).toEqual(['key_a']));
  nowMs += 92 * 86_400_000;
  await use('key_b');
  await eventually(() => expect(rows()).toEqual(['key_a', 'key_b']));
  nowMs += 3_600_000;
  await use('key_b');
  await eventually(() => expect(rows()).toEqual(['key_b']));
});
