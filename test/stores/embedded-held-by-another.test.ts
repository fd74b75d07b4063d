import { DatabaseSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { EmbeddedAudit } from '../../src/stores/embedded/audit.ts';
import { neverWait, openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedKeys } from '../../src/stores/embedded/keys.ts';
import { EmbeddedLedger } from '../../src/stores/embedded/ledger.ts';
import { EmbeddedPepperRecord } from '../../src/stores/embedded/pepper.ts';
import { someKey } from '../identify/some-key.ts';
import { allowance } from '../support/allowance.ts';
import { atEnd } from '../support/endings.ts';
import { startProcess } from '../support/processes.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const plan = allowance({ minute: 2 }, { after: 2 });

/** The store of a gateway, and another process's connection to it, which holds it in a transaction. */
async function heldStore() {
  const db = openDatabase(await temporaryFolder());
  const failed: unknown[] = [];
  const onFailedWrite = (error: unknown) => failed.push(error);
  const ledger = new EmbeddedLedger({ db, wallMs: () => 1_800_000_000_000, onFailedWrite });
  const store = {
    failed,
    ledger,
    keys: new EmbeddedKeys({ db, onFailedWrite }),
    audit: new EmbeddedAudit({ db, wallMs: () => 1, onFailedWrite }),
    pepper: new EmbeddedPepperRecord(db),
  };
  const { key } = someKey();
  await store.keys.create(key);
  await ledger.decide([{ consumerId: key.id, allowance: plan, cost: 1, n: 5 }]);
  neverWait(db);
  const other = new DatabaseSync(db.location()!);
  other.exec('BEGIN IMMEDIATE');
  atEnd(() => {
    ledger.close();
    db.close();
    other.close();
  });
  return { ...store, key, other };
}

type Held = Awaited<ReturnType<typeof heldStore>>;
const CHANGES: Readonly<Record<string, (store: Held) => Promise<unknown>>> = {
  'a new key': ({ keys }) => keys.create(someKey().key),
  'an edited key': ({ keys, key }) => keys.update(key.id, (before) => ({ ...before, name: 'new' })),
  'a deleted key': ({ keys, key }) => keys.delete(key.id, (before) => ({ ...before, deletedAtMs: 1 })),
  'keys of an import': ({ keys }) => keys.createEach([someKey().key]),
  'a lifted ban': ({ ledger, key }) => ledger.lift(key.id),
  'a top-up': ({ ledger, key }) => ledger.topUp(key.id, plan.limits[0]!, 5, 'id'),
  'a reset window': ({ ledger, key }) => ledger.resetUsage(key.id, ['minute'], 'id'),
  'a forgotten account': ({ ledger, key }) => ledger.forget(key.id),
  'a record of a change': ({ audit }) =>
    audit.put({ id: 'a', revision: 1, text: '{}' }, { keep: 10, number: 0, isLasting: false }),
  'a pepper': ({ pepper }) => pepper.replace(null, '{}'),
};

describe('while another process holds the embedded store, the thread serves and waits with (reliability 244)', () => {
  test.each(Object.entries(CHANGES))('%s, and makes it when the store is free', async (_what, make) => {
    const store = await heldStore();
    let isMade = false;
    const made = make(store).then(() => {
      isMade = true;
    });
    // If SQLite waited for the other process, it would hold the thread, so that the other could not end here, and give up.
    for (let i = 0; i < 20; i++) await turn();
    expect(isMade).toBe(false);
    store.other.exec('ROLLBACK');
    await made;
    expect(store.failed).toEqual([]);
  });

  test('counts of requests that were decided meanwhile, which no change takes back', async () => {
    const { ledger, key, other } = await heldStore();
    const wide = allowance({ minute: 100 });
    const lifted = ledger.lift(key.id);
    await ledger.decide([{ consumerId: key.id, allowance: wide, cost: 1, n: 3 }]);
    const before = (await ledger.present(key.id, wide))?.accounts[0].windows;
    other.exec('ROLLBACK');
    await lifted;
    expect((await ledger.present(key.id, wide))?.accounts[0].windows).toEqual(before);
  });
});

test('a gateway that stops while a command has the database locked writes what it has counted (reliability 484)', async () => {
  const { ledger, key, other, failed } = await heldStore();
  other.exec('ROLLBACK');
  const database = JSON.stringify(other.location());
  const command = startProcess(process.execPath, [
    '--input-type=module',
    '--eval',
    `import { DatabaseSync } from 'node:sqlite';
     new DatabaseSync(${database}).exec('BEGIN IMMEDIATE');
     console.log('locked');
     setTimeout(() => process.exit(), 300);`,
  ]);
  await command.until(/locked/);
  ledger.close();
  expect(failed).toEqual([]);
  const { state } = other.prepare('SELECT state FROM accounts WHERE consumer_id = ?').get(key.id)!;
  expect(JSON.parse(String(state)).windows.minute.used).toBe(2);
});
