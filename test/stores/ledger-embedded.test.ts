import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { type Change, DURABLE } from '../../src/identify/key-store.ts';
import { EmbeddedChanges } from '../../src/stores/embedded/changes.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedLedger, EmbeddedLedgerView } from '../../src/stores/embedded/ledger.ts';
import { ownStore } from '../../src/stores/embedded/owner.ts';
import { ledgerContract } from '../contracts/ledger.ts';
import { allowance } from '../support/allowance.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const DAY_MS = 86_400_000;
const strict = allowance({ minute: 2 }, { after: 2 });
const ask = (consumerId: string, n: number, plan = strict) => ({ consumerId, allowance: plan, cost: 1, n });

function database(folder: string): DatabaseSync {
  const db = openDatabase(folder);
  atEnd(() => db.isOpen && db.close());
  return db;
}

/** The ledger of a gateway, with the change feed through which it hears of lifts (unless told that it is deaf). */
function gatewayIn(folder: string, wallMs = () => Date.now(), { isDeaf = false } = {}) {
  const db = database(folder);
  const told: Change[] = [];
  const complaints: unknown[] = [];
  const changes = new EmbeddedChanges({ db });
  const ledger = new EmbeddedLedger({
    db,
    wallMs,
    onLift: (change) => told.push(change),
    onFailure: (error) => complaints.push(error),
  });
  if (!isDeaf) changes.subscribe(() => ledger.applyLifts());
  let isClosed = false;
  const close = () => {
    if (isClosed) return;
    isClosed = true;
    changes.close();
    if (db.isOpen) ledger.close();
    if (db.isOpen) db.close();
  };
  atEnd(close);
  return { ledger, changes, db, told, complaints, close };
}

const viewIn = (folder: string) => new EmbeddedLedgerView({ db: database(folder), wallMs: () => Date.now() });

describe('the embedded ledger', () => {
  ledgerContract(async () => {
    const folder = await temporaryFolder();
    const { ledger, told } = gatewayIn(folder);
    return { ledger, view: viewIn(folder), told };
  });
});

describe('in the embedded store', () => {
  test('a stop and a start lose no count, no strike and no ban', async () => {
    const folder = await temporaryFolder();
    const first = gatewayIn(folder);
    await first.ledger.decide([ask('counted', 1), ask('struck', 3), ask('banned', 4)]);
    const before = await first.ledger.decide([ask('counted', 0), ask('struck', 0), ask('banned', 0)]);
    first.close();
    const after = await gatewayIn(folder).ledger.decide([ask('counted', 0), ask('struck', 0), ask('banned', 0)]);
    expect(after.map((outcome) => outcome?.state)).toEqual(before.map((outcome) => outcome?.state));
    expect(after[2]?.state.ban).not.toBeNull();
  });

  test('a crash loses at most what the last second has brought', async () => {
    const folder = await temporaryFolder();
    const { ledger } = gatewayIn(folder);
    const many = Array.from({ length: 3_000 }, (_, i) => ask(`c${i}`, 3));
    const view = viewIn(folder);
    await ledger.decide(many);
    await eventually(
      async () => {
        const last = await view.present('c2999', strict);
        return last?.state.strikes.count === 1;
      },
      { withinMs: 1_000, everyMs: 100 },
    );
  });

  test('a lift that the gateway has obeyed is not lost by a crash right after it', async () => {
    const folder = await temporaryFolder();
    const { ledger } = gatewayIn(folder, () => Date.now(), { isDeaf: true });
    const view = viewIn(folder);
    const isBanned = async () => (await view.bans()).length === 1;
    await ledger.decide([ask('a', 4)]);
    await eventually(isBanned, { withinMs: 1_000 });
    expect(await view.lift('a')).toEqual(DURABLE);
    // Before it hears of the lift, the gateway writes a snapshot that still has the ban.
    await ledger.decide([ask('a', 1)]);
    await eventually(isBanned, { withinMs: 1_000 });
    ledger.applyLifts();
    expect(await ledger.bans()).toEqual([]);
    // What a gateway would find that starts now, this one having been killed.
    expect(await view.bans()).toEqual([]);
    expect((await view.present('a', strict))?.state).toMatchObject({ ban: null, strikes: { count: 0 } });
  });

  test('a lift by the gateway itself is on the disk when it is confirmed', async () => {
    const folder = await temporaryFolder();
    const { ledger } = gatewayIn(folder);
    const view = viewIn(folder);
    await ledger.decide([ask('a', 4)]);
    await eventually(async () => (await view.bans()).length === 1, { withinMs: 1_000 });
    expect(await ledger.lift('a')).toEqual(DURABLE);
    expect(await view.bans()).toEqual([]);
  });

  test('a lift while no gateway runs holds for the one that starts', async () => {
    const folder = await temporaryFolder();
    const first = gatewayIn(folder);
    await first.ledger.decide([ask('a', 4)]);
    first.close();
    expect(await viewIn(folder).lift('a')).toEqual(DURABLE);
    const second = gatewayIn(folder);
    expect(await second.ledger.bans()).toEqual([]);
    // It is spent with that: a later ban is not lifted by it.
    await second.ledger.decide([ask('a', 2)]);
    second.close();
    expect(await gatewayIn(folder).ledger.bans()).toHaveLength(1);
  });

  test('a ladder is remembered for as long as its plan says, also over a restart', async () => {
    const folder = await temporaryFolder();
    const long = allowance({ minute: 1 }, { after: 1, forgetMs: 30 * DAY_MS });
    let nowMs = Date.now();
    const first = gatewayIn(folder, () => nowMs);
    await first.ledger.decide([ask('a', 2, long)]);
    first.close();
    nowMs += 3 * DAY_MS;
    const second = gatewayIn(folder, () => nowMs);
    await second.ledger.decide([ask('short', 1, allowance({ second: 1 }))]);
    nowMs += 1_001;
    // The sweep has come by when it has dropped what has ended.
    const ended = second.db.prepare("SELECT 1 FROM accounts WHERE consumer_id = 'short'");
    await eventually(() => ended.get() !== undefined);
    await eventually(() => ended.get() === undefined);
    const [outcome] = await second.ledger.decide([ask('a', 2, long)]);
    expect(outcome?.state.ban?.number).toBe(2);
  });

  test('what has lost its meaning is dropped, from memory and from the disk', async () => {
    const folder = await temporaryFolder();
    let nowMs = Date.now();
    const { ledger, db } = gatewayIn(folder, () => nowMs);
    const rows = () => Number(db.prepare('SELECT count(*) AS rows FROM accounts').get()?.rows);
    await ledger.decide(Array.from({ length: 50 }, (_, i) => ask(`c${i}`, 1)));
    await eventually(() => rows() === 50);
    nowMs += 60_001;
    await eventually(() => rows() === 0, { withinMs: 3_000 });
  });

  test('what has lost its meaning while no gateway ran is gone from the disk at the start', async () => {
    const folder = await temporaryFolder();
    const first = gatewayIn(folder);
    await first.ledger.decide([ask('a', 1)]);
    first.close();
    const { db } = gatewayIn(folder, () => Date.now() + 60_001);
    expect(db.prepare('SELECT * FROM accounts').all()).toEqual([]);
  });

  test.each(['no JSON', '[]', '{"windows":{"minute":{"used":"many","endsAtMs":1}}}', '{"ban":{"number":1}}'])(
    '%s in the place of an account keeps neither the gateway from starting nor another account from being read',
    async (text) => {
      const folder = await temporaryFolder();
      const first = gatewayIn(folder);
      await first.ledger.decide([ask('good', 4), ask('bad', 4)]);
      first.close();
      database(folder).prepare('UPDATE accounts SET state = ? WHERE consumer_id = ?').run(text, 'bad');
      const view = viewIn(folder);
      expect(await view.present('bad', strict)).toBeNull();
      expect(await view.lift('bad')).toBeNull();
      expect((await view.bans()).map(({ consumerId }) => consumerId)).toEqual(['good']);
      const second = gatewayIn(folder);
      expect((await second.ledger.bans()).map(({ consumerId }) => consumerId)).toEqual(['good']);
      expect(second.complaints).toEqual([expect.objectContaining({ code: 'store_corrupt' })]);
      const [outcome] = await second.ledger.decide([ask('bad', 1)]);
      expect(outcome?.admitted).toBe(1);
    },
  );

  test('a database that fails under the gateway is told, and does not end it', async () => {
    const folder = await temporaryFolder();
    const { ledger, db, complaints } = gatewayIn(folder);
    await ledger.decide([ask('a', 1)]);
    db.close();
    expect(() => ledger.applyLifts()).not.toThrow();
    await eventually(() => complaints.length > 1);
    const [outcome] = await ledger.decide([ask('a', 2)]);
    expect(outcome?.admitted).toBe(1);
    expect(() => ledger.close()).not.toThrow();
  });
});

describe('the owner of an embedded store', () => {
  test('is one at a time', async () => {
    const folder = await temporaryFolder();
    const owner = ownStore(folder);
    expect(() => ownStore(folder)).toThrow(
      expect.objectContaining({ code: 'store_owned', message: expect.stringContaining('Another gateway owns') }),
    );
    owner.release();
    ownStore(folder).release();
  });

  test('is not blamed for a folder that cannot be written', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, 'file'), '');
    expect(() => ownStore(join(folder, 'file'))).toThrow(
      expect.objectContaining({ code: 'store_unavailable', message: expect.stringContaining('TOLLGATE_DATA') }),
    );
    expect(() => ownStore(join(folder, 'file', 'below'))).toThrow(
      expect.objectContaining({ code: 'store_unavailable' }),
    );
  });

  test('is not blamed for a lock file that is none', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, 'owner.lock'), 'x'.repeat(8_192));
    expect(() => ownStore(folder)).toThrow(expect.objectContaining({ code: 'store_unavailable' }));
  });
});
