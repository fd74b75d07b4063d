import {
  copyFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { insistOnAcknowledged } from '../../src/stores/embedded/acknowledged.ts';
import { Checkpoints } from '../../src/stores/embedded/checkpoints.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedKeys } from '../../src/stores/embedded/keys.ts';
import { EmbeddedLedger } from '../../src/stores/embedded/ledger.ts';
import { someKey } from '../identify/some-key.ts';
import { allowance } from '../support/allowance.ts';
import { atEnd } from '../support/endings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** The files of a store with some keys as a kill -9 leaves them: everything is in the write-ahead log. */
async function killedStore() {
  const folder = await temporaryFolder();
  const db = openDatabase(folder);
  atEnd(() => db.close());
  const keys = new EmbeddedKeys({ db });
  for (let i = 0; i < 10; i++) await keys.create(someKey().key);
  const left = await temporaryFolder();
  cpSync(folder, left, { recursive: true });
  rmSync(join(left, 'tollgate.db-shm'));
  return left;
}

function reopened(folder: string, isAccepted = false) {
  const db = openDatabase(folder);
  atEnd(() => db.isOpen && db.close());
  return { db, warning: insistOnAcknowledged(db, isAccepted) };
}

const DAMAGE: Readonly<Record<string, (log: string) => void>> = {
  'is missing': (log) => rmSync(log),
  'is empty': (log) => truncateSync(log, 0),
  'is cut off': (log) => truncateSync(log, statSync(log).size - 4_096),
  'has a flipped bit': (log) => {
    const bytes = readFileSync(log);
    bytes[bytes.length - 5_000]! ^= 1;
    writeFileSync(log, bytes);
  },
  'ends in zeros': (log) => {
    const bytes = readFileSync(log);
    writeFileSync(log, bytes.fill(0, bytes.length - 9_000));
  },
};

describe('an embedded store whose write-ahead log … lacks what it acknowledged (reliability 246)', () => {
  test.each(Object.entries(DAMAGE))('%s: it does not start, and says what to do', async (_what, damage) => {
    const folder = await killedStore();
    damage(join(folder, 'tollgate.db-wal'));
    expect(() => reopened(folder)).toThrow(
      expect.objectContaining({
        code: 'store_rolled_back',
        message: expect.stringMatching(/lacks the last \d+ writes.*--accept-rollback/),
      }),
    );
  });

  test('is missing: accepted once, it is whole from then on', async () => {
    const folder = await killedStore();
    rmSync(join(folder, 'tollgate.db-wal'));
    const { db, warning } = reopened(folder, true);
    expect(warning).toMatch(/lacks the last 10 writes .* accepted/);
    db.close();
    expect(reopened(folder).warning).toBeNull();
  });
});

describe('an embedded store that has all it acknowledged starts without a word (reliability 246)', () => {
  test('after a kill -9', async () => {
    expect(reopened(await killedStore()).warning).toBeNull();
  });

  test('after a checkpoint, even without the log', async () => {
    const folder = await killedStore();
    const { db } = reopened(folder);
    const checkpoints = new Checkpoints(db);
    atEnd(() => checkpoints.close());
    expect(statSync(join(folder, 'tollgate.db-wal')).size).toBe(0);
    const copy = await temporaryFolder();
    for (const name of ['tollgate.db', 'tollgate.db.acknowledged']) copyFileSync(join(folder, name), join(copy, name));
    const reached = reopened(copy);
    expect(reached.warning).toBeNull();
    expect(reached.db.prepare('SELECT count(*) AS n FROM keys').get()).toEqual({ n: 10 });
  });

  test('if an earlier version made it, which noted no number', async () => {
    const folder = await killedStore();
    const { db } = reopened(folder);
    db.exec('DROP TABLE acknowledged');
    rmSync(join(folder, 'tollgate.db.acknowledged'));
    db.close();
    expect(reopened(folder).warning).toBeNull();
  });
});

test.each(['no number', '0000000000000009 0000000000000010', ''])(
  'a file beside the store that says %j, or none, is a warning and no refusal',
  async (text) => {
    const folder = await killedStore();
    writeFileSync(join(folder, 'tollgate.db.acknowledged'), text);
    expect(reopened(folder).warning).toMatch(/missing or unreadable/);
    rmSync(join(folder, 'tollgate.db.acknowledged'));
    expect(reopened(folder).warning).toMatch(/missing or unreadable/);
  },
);

test('damage that is found after the opening is called damage (reliability 248)', async () => {
  const folder = await killedStore();
  const { db } = reopened(folder);
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  db.close();
  const file = join(folder, 'tollgate.db');
  const bytes = readFileSync(file);
  // The first page, which the opening reads, is whole.
  writeFileSync(file, bytes.fill(0, 4_096));
  const damaged = openDatabase(folder);
  atEnd(() => damaged.close());
  const keys = () => new EmbeddedKeys({ db: damaged });
  const list = async () => keys().list({ limit: 10, cursor: null });
  await expect(list()).rejects.toMatchObject({
    code: 'store_corrupt',
    message: expect.stringContaining('Restore a copy'),
  });
});

test('a change whose number cannot be noted is in force and not acknowledged (reliability 246)', async () => {
  const db = openDatabase(await temporaryFolder());
  const ledger = new EmbeddedLedger({ db, wallMs: () => 1_800_000_000_000 });
  const told: unknown[] = [];
  const keys = new EmbeddedKeys({ db, onChange: (change) => told.push(change) });
  atEnd(() => {
    ledger.close();
    db.close();
  });
  const { key } = someKey();
  await keys.create(key);
  const limit = allowance({ minute: 2 }).limits[0]!;
  const noted = `${db.location()}.acknowledged`;
  rmSync(noted);
  mkdirSync(noted);
  const refused = { code: 'store_unavailable', message: expect.stringContaining('could not be written') };
  await expect(keys.update(key.id, (before) => ({ ...before, revokedAtMs: 1 }))).rejects.toMatchObject(refused);
  expect(told).toEqual([
    { kind: 'key', keyId: key.id },
    { kind: 'key', keyId: key.id },
  ]);
  await expect(ledger.topUp(key.id, limit, 5, 'id')).rejects.toMatchObject(refused);
  rmdirSync(noted);
  expect((await ledger.topUp(key.id, limit, 5, 'id')).kind).toBe('repeated');
  const present = await ledger.present(key.id, allowance({ minute: 2 }));
  expect(present?.accounts[0].topUps).toMatchObject({ minute: { amount: 5 } });
});

// A power cut may lose a write that did not wait for the disk, and keep the number of it.
test('the counts of requests, which a power cut may undo, have no number (reliability 246)', async () => {
  const db = openDatabase(await temporaryFolder());
  const ledger = new EmbeddedLedger({ db, wallMs: () => 1_800_000_000_000 });
  atEnd(() => db.close());
  await ledger.decide([{ consumerId: 'a', allowance: allowance({ minute: 9 }), cost: 1, n: 3 }]);
  ledger.close();
  expect(db.prepare('SELECT count(*) AS n FROM accounts').get()).toEqual({ n: 1 });
  expect(db.prepare('SELECT count(*) AS n FROM acknowledged').get()).toEqual({ n: 0 });
});
