import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { bucketsOf } from '../../src/admit/history.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedHistory } from '../../src/stores/embedded/history.ts';
import { EmbeddedLedger } from '../../src/stores/embedded/ledger.ts';
import { atEnd } from '../support/endings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('refusals wait for no other process, and count once although they are reported twice', async () => {
  const wallMs = () => 1_800_000_000_000;
  const db = openDatabase(await temporaryFolder());
  const ledger = new EmbeddedLedger({ db, wallMs });
  const history = new EmbeddedHistory({ db, wallMs, live: ledger.histories });
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
  expect(performance.now() - beganMs).toBeLessThan(1_000);
  other.exec('ROLLBACK');
  expect(await history.of('key_a')).toBeNull();

  await history.addRefusals(refusals);
  const [bucket] = bucketsOf((await history.of('key_a'))!.history, 'hour', wallMs());
  expect(bucket).toMatchObject({ refused: 7, banned: 2 });
  expect(await history.refusedNow()).toMatchObject([{ consumerId: 'key_a' }]);
});
