import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { budgetOf } from '../../src/admit/allowance.ts';
import { DURABLE, type Ledger, type LedgerView, NothingDone } from '../../src/admit/ledger.ts';
import { Failure } from '../../src/failure.ts';
import type { StoreChange } from '../../src/identify/record-store.ts';
import { MAX_LIMIT } from '../../src/model/plan.ts';
import { AccountsOnDisk, AccountsTable } from '../../src/stores/embedded/accounts.ts';
import { neverWait, openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedKeys } from '../../src/stores/embedded/keys.ts';
import { EmbeddedLedger } from '../../src/stores/embedded/ledger.ts';
import { ownStore } from '../../src/stores/embedded/owner.ts';
import { ledgerContract } from '../contracts/ledger.ts';
import { someKey } from '../identify/some-key.ts';
import { allowance, alsoCharging } from '../support/allowance.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { LATE_MS } from '../support/room.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const DAY_MS = 86_400_000;
const strict = allowance({ minute: 2 }, { after: 2 });
const ask = (consumerId: string, n: number, plan = strict) => ({ consumerId, allowance: plan, cost: 1, n });

function database(folder: string): DatabaseSync {
  const db = openDatabase(folder);
  atEnd(() => db.isOpen && db.close());
  return db;
}

/** The ledger of a gateway. */
function gatewayIn(folder: string, wallMs = () => Date.now(), { decidesWhileAway = true } = {}) {
  const db = database(folder);
  const told: StoreChange[] = [];
  const complaints: unknown[] = [];
  const failedWrites: unknown[] = [];
  const states: string[] = [];
  const ledger = new EmbeddedLedger({
    db,
    wallMs,
    onAccountChange: (change) => told.push(change),
    decidesWhileAway,
    onChange: (state, reason) => states.push(reason === undefined ? state : `${state}: ${reason}`),
    onFailedWrite: (error) => failedWrites.push(error),
    onLoss: (error) => complaints.push(error),
  });
  neverWait(db);
  let isClosed = false;
  const close = () => {
    if (isClosed) return;
    isClosed = true;
    if (db.isOpen) ledger.close();
    if (db.isOpen) db.close();
  };
  atEnd(close);
  return { ledger, db, told, complaints, failedWrites, states, close };
}

/** The ledger of a command, which reads the accounts of the disk, and writes them if it owns the store. */
function viewIn(folder: string, insistOnOwner = () => {}): EmbeddedLedger {
  const db = database(folder);
  const wallMs = () => Date.now();
  return new EmbeddedLedger({ db, wallMs, insistOnOwner, accounts: new AccountsOnDisk(new AccountsTable(db), wallMs) });
}

describe('the embedded ledger', () => {
  describe('of a gateway, which makes the changes of commands', () => {
    ledgerContract(async () => {
      const { ledger, told } = gatewayIn(await temporaryFolder());
      return { ledger, view: ledger, told };
    });
  });

  describe('of gateways that end before each change of a command, and start after it', () => {
    ledgerContract(async () => {
      const folder = await temporaryFolder();
      const told: StoreChange[] = [];
      const start = () => {
        const next = gatewayIn(folder);
        next.told.push = (...changes) => told.push(...changes);
        return next;
      };
      let gateway = start();
      const view = new Proxy(viewIn(folder), {
        get:
          (command, name: keyof LedgerView) =>
          async (...given: unknown[]) => {
            gateway.close();
            try {
              return await (command[name] as (...given: unknown[]) => unknown)(...given);
            } finally {
              gateway = start();
            }
          },
      });
      const ledger = new Proxy({} as Ledger, {
        get: (_, name: keyof Ledger) => (gateway.ledger[name] as () => unknown).bind(gateway.ledger),
      });
      return { ledger, view, told };
    });
  });
});

const TOP_UP = '{"kind":"top-up","of":{"window":"minute","limit":2,"form":{}},"amount":5}';

/** Writes a change as a command of an earlier version did. */
function leave(db: DatabaseSync, consumerId: string, change: string): void {
  db.exec(
    'CREATE TABLE IF NOT EXISTS pending_changes (number INTEGER PRIMARY KEY AUTOINCREMENT, consumer_id TEXT NOT NULL, change TEXT NOT NULL, at_ms INTEGER NOT NULL) STRICT',
  );
  db.prepare('INSERT INTO pending_changes (consumer_id, change, at_ms) VALUES (?, ?, ?)').run(
    consumerId,
    change,
    Date.now(),
  );
}

const left = (db: DatabaseSync) =>
  db
    .prepare('SELECT consumer_id FROM pending_changes')
    .all()
    .map((row) => row.consumer_id);

describe('in the embedded store', () => {
  test('a stop and a start lose no count, no strike and no ban', async () => {
    const folder = await temporaryFolder();
    const first = gatewayIn(folder);
    await first.ledger.decide([ask('counted', 1), ask('struck', 3), ask('banned', 4)]);
    const before = await first.ledger.decide([ask('counted', 0), ask('struck', 0), ask('banned', 0)]);
    first.close();
    const after = await gatewayIn(folder).ledger.decide([ask('counted', 0), ask('struck', 0), ask('banned', 0)]);
    expect(after.map((decision) => decision?.accounts[0])).toEqual(before.map((decision) => decision?.accounts[0]));
    expect(after[2]?.accounts[0].ban).not.toBeNull();
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
        return last?.accounts[0].strikes?.count === 1;
      },
      { withinMs: 1_000, everyMs: 100 },
    );
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

  test('a process that does not own it reads it, and changes no account', async () => {
    const folder = await temporaryFolder();
    const { ledger } = gatewayIn(folder);
    await ledger.decide([ask('a', 4)]);
    await ledger.topUp('b', strict.limits[0]!, 5, 'one');
    const view = viewIn(folder, () => {
      throw new Failure('store_owned', 'not the owner');
    });
    await eventually(async () => (await view.bans()).length === 1, { withinMs: 1_000 });
    const refused = { code: 'store_owned' };
    await expect(view.lift('a')).rejects.toMatchObject(refused);
    await expect(view.carryBan('a', 'b')).rejects.toMatchObject(refused);
    await expect(view.topUp('b', strict.limits[0]!, 5, 'two')).rejects.toMatchObject(refused);
    await expect(view.resetUsage('b', ['minute'], 'three')).rejects.toMatchObject(refused);
    await expect(view.forget('a')).rejects.toMatchObject(refused);
    expect(await view.bans()).toHaveLength(1);
    expect((await view.present('b', strict))?.accounts[0].topUps?.minute?.amount).toBe(5);
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
    const [decision] = await second.ledger.decide([ask('a', 2, long)]);
    expect(decision?.accounts[0].ban?.number).toBe(2);
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

  test.each([
    'no JSON',
    '[]',
    '{"windows":{"minute":{"used":"many","endsAtMs":1}}}',
    '{"ban":{"number":1}}',
    '{"windows":{"minute":{"used":1,"endsAtMs":8640000000000001}},"strikes":{"count":0,"endsAtMs":0},"ban":null}',
  ])(
    '%s in the place of an account is neither absent nor a reason to fail, until a reset (reliability 401, 447)',
    async (text) => {
      const folder = await temporaryFolder();
      const first = gatewayIn(folder);
      await first.ledger.decide([ask('good', 4), ask('bad', 4)]);
      first.close();
      database(folder).prepare('UPDATE accounts SET state = ? WHERE consumer_id = ?').run(text, 'bad');
      const view = viewIn(folder);
      expect(await view.present('bad', strict)).toBeNull();
      expect(await view.lift('bad')).toBeNull();
      const bans = [expect.objectContaining({ consumerId: 'good' }), { consumerId: 'bad', ban: null }];
      expect((await view.bans()).toReversed()).toEqual(bans);
      const second = gatewayIn(folder);
      expect((await second.ledger.bans()).toReversed()).toEqual(bans);
      const unreadable = {
        code: 'store_corrupt',
        message: expect.stringContaining('the row bad of the table accounts'),
      };
      expect(second.complaints).toMatchObject([unreadable]);
      const { ledger, db } = second;
      // Also if it is the account of the customer that a key belongs to.
      const shared = alsoCharging(strict, [budgetOf({ scope: 'customer', limits: [] })]);
      const asked = [ask('bad', 1), ask('good', 0), { ...ask('bad/key_1', 1), allowance: shared }];
      expect((await ledger.decide(asked)).map((decision) => decision?.admitted)).toEqual([undefined, 0, undefined]);
      expect(await ledger.present('bad', strict)).toBeNull();
      expect(await ledger.lift('bad')).toBeNull();
      await ledger.carryBan('good', 'bad');
      const minute = strict.limits[0]!;
      await expect(ledger.topUp('bad', minute, 5, 'one')).rejects.toMatchObject(unreadable);
      await expect(ledger.topUpNotes('bad')).rejects.toMatchObject(unreadable);
      const settlement = {
        accountId: 'bad',
        delta: 1,
        windows: [{ window: 'minute', endsAtMs: 0 }],
        histories: [],
        hour: 0,
      };
      expect(await ledger.settle([settlement as never])).toEqual(['lost']);
      const stored = () => String(db.prepare("SELECT state FROM accounts WHERE consumer_id = 'bad'").get()?.state);
      await ledger.topUp('good', minute, 5, 'two');
      expect([stored(), second.states, second.failedWrites]).toEqual([text, [], []]);
      expect((await ledger.resetUsage('bad', ['minute'], 'three')).kind).toBe('made');
      expect((await ledger.decide([ask('bad', 1)]))[0]?.admitted).toBe(1);
      expect(JSON.parse(stored())).toMatchObject({ ban: null });
    },
  );

  test.each([
    ['the gateway', (folder: string) => gatewayIn(folder)],
    ['a command', (folder: string) => ({ ledger: viewIn(folder), close() {} })],
  ])(
    'an account that cannot be read stays in the table when the gateway ends, and is reset by %s (reliability 401)',
    async (_, open) => {
      const folder = await temporaryFolder();
      const db = database(folder);
      gatewayIn(folder).close();
      // Acknowledged before the damage, by an earlier version: it waits for the reset.
      leave(db, 'bad', TOP_UP);
      db.prepare('INSERT INTO accounts VALUES (?, ?, ?)').run('bad', '{"windows":', Date.now() + 60_000);
      const first = gatewayIn(folder);
      await first.ledger.decide([ask('bad', 1), ask('good', 1)]);
      first.close();
      const state = db.prepare("SELECT state FROM accounts WHERE consumer_id = 'bad'");
      expect(state.get()).toMatchObject({ state: '{"windows":' });
      const { ledger, close } = open(folder);
      expect(await ledger.present('bad', strict)).toBeNull();
      expect((await ledger.resetUsage('bad', ['minute'], 'two')).kind).toBe('made');
      close();
      expect((await gatewayIn(folder).ledger.decide([ask('bad', 9)]))[0]?.admitted).toBe(2 + 5);
      expect(left(db)).toEqual([]);
    },
  );

  // Attack: another program cuts off a change in the table. No operator's change of any key was applied any more, also by the next gateway.
  test.each(['{"kind":"top-up"', '{}', '{"kind":"later"}'])(
    'the change %s of an earlier version keeps no other from being applied once, is named, and goes with a reset (reliability 400)',
    async (text) => {
      const folder = await temporaryFolder();
      const db = database(folder);
      leave(db, 'bad', text);
      leave(db, 'a', TOP_UP);
      leave(db, 'a', TOP_UP.replace(':5}', ':2}'));
      const toppedUpBy = async (amount: number, ledger: EmbeddedLedger) =>
        expect((await ledger.present('a', strict))?.accounts[0].topUps?.minute?.amount).toBe(amount);
      const named = {
        code: 'store_corrupt',
        message: expect.stringMatching(/ bad .* row 1 of the table pending_changes/),
      };
      for (let i = 0; i < 2; i++) {
        const gateway = gatewayIn(folder);
        await toppedUpBy(7, gateway.ledger);
        expect(gateway.complaints).toMatchObject([named]);
        expect([gateway.states, gateway.failedWrites, left(db)]).toEqual([[], [], ['bad']]);
        // The gateway decides by what it has, and operators see that a change is missing.
        expect((await gateway.ledger.decide([ask('bad', 1)]))[0]?.admitted).toBe(1);
        expect(await gateway.ledger.present('bad', strict)).toBeNull();
        expect(await gateway.ledger.bans()).toEqual([{ consumerId: 'bad', ban: null }]);
        gateway.close();
      }
      leave(db, 'a', TOP_UP.replace(':5}', ':3}'));
      const command = viewIn(folder);
      command.takeOver();
      await toppedUpBy(10, command);
      expect(await command.bans()).toEqual([{ consumerId: 'bad', ban: null }]);
      expect((await command.resetUsage('bad', ['minute'], 'four')).kind).toBe('made');
      expect(await command.present('bad', strict)).not.toBeNull();
      expect([await command.bans(), left(db)]).toEqual([[], []]);
      const { ledger, complaints } = gatewayIn(folder);
      await toppedUpBy(10, ledger);
      expect(complaints).toEqual([]);
    },
  );

  test('changes of an earlier version are forgotten with their consumer', async () => {
    const folder = await temporaryFolder();
    const db = database(folder);
    leave(db, 'a', '{');
    leave(db, 'b', '{');
    await gatewayIn(folder).ledger.forget('a');
    expect(left(db)).toEqual(['b']);
  });

  test('a database that fails under the gateway is told, and does not end it', async () => {
    const folder = await temporaryFolder();
    const { ledger, db, complaints, failedWrites, states } = gatewayIn(folder);
    await ledger.decide([ask('a', 1)]);
    db.close();
    await eventually(() => failedWrites.length > 1);
    const [decision] = await ledger.decide([ask('a', 2)]);
    expect(decision?.admitted).toBe(1);
    expect(() => ledger.close()).not.toThrow();
    expect(states).toHaveLength(1);
    expect(complaints).toEqual([expect.objectContaining({ message: expect.stringContaining('1 accounts') })]);
  });
});

/** Leaves no room for another page, as a full disk does, until it is made. */
function fill(db: DatabaseSync): { makeRoom(): void } {
  // What the log of writes has is put into the file itself, so that its size is that of the store.
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  db.exec(`PRAGMA max_page_count = ${db.prepare('PRAGMA page_count').get()?.page_count}`);
  return { makeRoom: () => db.exec('PRAGMA max_page_count = 100000') };
}

const MANY = Array.from({ length: 2_500 }, (_, i) => ask(`c${i}`, 1));
const FULL =
  'away: The embedded store does not do what was asked: database or disk is full. Make room on its disk: `tollgate doctor` says how much is free.';

describe('a top-up in the embedded store', () => {
  const daily = allowance({ day: 2 }, null);
  const admits = async ({ ledger }: ReturnType<typeof gatewayIn>) =>
    (await ledger.decide([ask('a', 9, daily)]))[0]?.admitted;

  test('that was made while no gateway runs counts once, over every later start', async () => {
    const folder = await temporaryFolder();
    const view = viewIn(folder);
    expect((await view.topUp('a', daily.limits[0]!, 3, 'one')).kind).toBe('made');
    for (const expected of [5, 0]) {
      const gateway = gatewayIn(folder);
      expect(await admits(gateway)).toBe(expected);
      gateway.close();
      expect((await view.present('a', daily))?.accounts[0].topUps?.day?.amount).toBe(3);
    }
  });

  test('that the gateway has made is not lost or made twice by a crash right after it', async () => {
    const folder = await temporaryFolder();
    const first = gatewayIn(folder);
    await first.ledger.topUp('a', daily.limits[0]!, 3, 'one');
    // What a gateway finds that starts after the first was killed.
    const copy = await temporaryFolder();
    cpSync(folder, copy, { recursive: true });
    const second = gatewayIn(copy);
    expect(await admits(second)).toBe(5);
    expect((await second.ledger.present('a', daily))?.accounts[0].topUps?.day?.amount).toBe(3);
  });

  test('is forgotten with its key', async () => {
    const folder = await temporaryFolder();
    const view = viewIn(folder);
    await view.topUp('a', daily.limits[0]!, 3, 'one');
    await view.forget('a');
    expect((await view.present('a', daily))?.accounts[0].topUps).toBeUndefined();
    expect(await admits(gatewayIn(folder))).toBe(2);
  });
});

describe('an embedded store that cannot be written (reliability 159)', () => {
  test('is away until everything that was counted meanwhile is on the disk', async () => {
    const folder = await temporaryFolder();
    const { ledger, db, failedWrites, states } = gatewayIn(folder);
    const disk = fill(db);
    expect(ledger.backlogSize).toBe(0);
    await ledger.decide(MANY);
    await eventually(() => failedWrites.length > 1);
    expect(states).toEqual([FULL]);
    expect(ledger.backlogSize).toBe(MANY.length);
    const [decision] = await ledger.decide([ask('c0', 2)]);
    expect(decision).toMatchObject({ admitted: 1, accounts: [{ windows: { minute: { used: 2 } } }] });
    disk.makeRoom();
    await eventually(() => expect(states).toEqual([FULL, 'present']));
    expect(ledger.backlogSize).toBe(0);
    // What a gateway would find that starts now, this one having been killed.
    const view = viewIn(folder);
    const found = await Promise.all(MANY.map(({ consumerId }) => view.present(consumerId, strict)));
    expect(found.map((one) => one?.accounts[0].windows.minute?.used)).toEqual([2, ...Array(MANY.length - 1).fill(1)]);
  });

  test('keeps nothing in memory that has lost its meaning, however long it is away', async () => {
    const folder = await temporaryFolder();
    let nowMs = Date.now();
    const { ledger, db, states } = gatewayIn(folder, () => nowMs);
    const disk = fill(db);
    await ledger.decide(MANY);
    await eventually(() => expect(states).toEqual([FULL]));
    nowMs += 60_001;
    await eventually(() => expect(ledger.backlogSize).toBe(0));
    expect(states).toEqual([FULL]);
    disk.makeRoom();
    await eventually(() => expect(states).toEqual([FULL, 'present']));
  });

  test('decides nothing while it is away where the settings say so, and goes on with what it had counted', async () => {
    const folder = await temporaryFolder();
    const { ledger, db, states } = gatewayIn(folder, () => Date.now(), { decidesWhileAway: false });
    const disk = fill(db);
    await ledger.decide(MANY);
    await eventually(() => expect(states).toEqual([FULL]));
    await expect(ledger.decide([ask('c0', 1)])).rejects.toBeInstanceOf(NothingDone);
    disk.makeRoom();
    await eventually(() => expect(states).toEqual([FULL, 'present']));
    const [decision] = await ledger.decide([ask('c0', 2)]);
    expect(decision?.admitted).toBe(1);
  });

  test('takes no lift that it cannot write down: the ban stands', async () => {
    const folder = await temporaryFolder();
    const { ledger, db, states, told } = gatewayIn(folder);
    await ledger.decide([ask('a', 4)]);
    const view = viewIn(folder);
    await eventually(async () => (await view.bans()).length === 1);
    db.exec('PRAGMA query_only = 1');
    await expect(ledger.lift('a')).rejects.toMatchObject({ code: 'store_unavailable' });
    expect(told).toEqual([]);
    expect(await ledger.bans()).toHaveLength(1);
    expect(states).toEqual([expect.stringContaining('away')]);
    db.exec('PRAGMA query_only = 0');
    // Nothing is owed: a trial finds that it can be written again.
    await eventually(() => expect(states).toHaveLength(2));
    expect(await ledger.lift('a')).toEqual(DURABLE);
    expect(await view.bans()).toEqual([]);
  });

  test('tells of a change to a key that it could not make, and has not made it', async () => {
    const folder = await temporaryFolder();
    const { ledger, db, states } = gatewayIn(folder);
    const keys = new EmbeddedKeys({ db, onFailedWrite: (error) => ledger.failed(error) });
    db.exec('PRAGMA query_only = 1');
    const key = { id: 'k', plan: 'p', limits: {}, name: null, owner: null, createdAtMs: 1, expiresAtMs: null };
    await expect(keys.create({ ...key, revokedAtMs: null, secrets: [] })).rejects.toMatchObject({
      code: 'store_unavailable',
    });
    expect(await keys.get('k')).toBeNull();
    expect(states).toEqual([expect.stringContaining('away')]);
  });

  test('stays for every caller when an operator changes a record that cannot be read (reliability 448)', async () => {
    const { ledger, db, states } = gatewayIn(await temporaryFolder());
    const keys = new EmbeddedKeys({ db, onFailedWrite: (error) => ledger.failed(error) });
    const { key } = someKey();
    await keys.create(key);
    db.prepare("UPDATE keys SET record = 'garbage'").run();
    await expect(keys.update(key.id, (one) => one)).rejects.toMatchObject({ code: 'store_corrupt' });
    await expect(keys.delete(key.id, (one) => one)).rejects.toMatchObject({ code: 'store_corrupt' });
    expect(states).toEqual([]);
  });

  test('is away while its folder has been moved, and there again when that is put back', async () => {
    const folder = await temporaryFolder();
    const data = join(folder, 'data');
    const { ledger, states } = gatewayIn(data);
    await ledger.decide([ask('a', 1)]);
    renameSync(data, join(folder, 'moved'));
    await eventually(() =>
      expect(states).toEqual([expect.stringMatching(/tollgate\.db has been deleted or replaced/)]),
    );
    await ledger.decide([ask('a', 1)]);
    renameSync(join(folder, 'moved'), data);
    await eventually(() => expect(states).toHaveLength(2));
    expect((await viewIn(data).present('a', strict))?.accounts[0].windows.minute?.used).toBe(2);
  });

  test('refuses a lift in a folder that has been moved, and the ban stands', async () => {
    const data = join(await temporaryFolder(), 'data');
    const { ledger } = gatewayIn(data);
    await ledger.decide([ask('a', 3), ask('a', 1), ask('a', 1), ask('a', 1)]);
    expect(await ledger.bans()).toHaveLength(1);
    renameSync(data, `${data}.moved`);
    await expect(ledger.lift('a')).rejects.toMatchObject({ code: 'store_unavailable' });
    expect(await ledger.bans()).toHaveLength(1);
  });

  test('is away when its folder is deleted, and what could not be written by the end is told', async () => {
    const folder = join(await temporaryFolder(), 'data');
    const { ledger, states, complaints, close } = gatewayIn(folder);
    rmSync(folder, { recursive: true });
    await eventually(() => expect(states).toEqual([expect.stringContaining('has been deleted or replaced')]));
    await ledger.decide([ask('a', 1)]);
    close();
    expect(complaints).toEqual([expect.objectContaining({ code: 'store_unavailable' })]);
  });

  test('is away while another process holds it for long, and no request waits for that process', async () => {
    const folder = await temporaryFolder();
    const { ledger, states } = gatewayIn(folder);
    const other = database(folder);
    other.exec('BEGIN IMMEDIATE');
    await ledger.decide([ask('a', 1)]);
    const stalls = longestTurn();
    await eventually(() => expect(states).toEqual([expect.stringContaining('database is locked')]));
    expect(stalls.end()).toBeLessThan(LATE_MS);
    other.exec('ROLLBACK');
    await eventually(() => expect(states).toHaveLength(2));
    expect((await viewIn(folder).present('a', strict))?.accounts[0].windows.minute?.used).toBe(1);
  });

  test('is not away while another process holds it for a moment', async () => {
    const folder = await temporaryFolder();
    const { ledger, states } = gatewayIn(folder);
    const other = database(folder);
    other.exec('BEGIN IMMEDIATE');
    await ledger.decide([ask('a', 1)]);
    // At least one snapshot falls into it.
    await delay(1_000);
    other.exec('ROLLBACK');
    await eventually(async () =>
      expect((await viewIn(folder).present('a', strict))?.accounts[0].windows.minute?.used).toBe(1),
    );
    expect(states).toEqual([]);
  });

  test('is away from the start, and no reason not to start: the disk can be read', async () => {
    const folder = await temporaryFolder();
    const first = gatewayIn(folder);
    await first.ledger.decide([ask('a', 1)]);
    first.close();
    const db = database(folder);
    db.exec('PRAGMA query_only = 1');
    const states: string[] = [];
    const ledger = new EmbeddedLedger({
      db,
      wallMs: () => Date.now() + 1_001,
      onChange: (state) => states.push(state),
    });
    atEnd(() => ledger.close());
    expect(states).toEqual(['away']);
    expect((await ledger.present('a', strict))?.accounts[0].windows.minute?.used).toBe(1);
  });
});

// Attack: an operator tops a key up by more than the largest limit, again and again. Each refusal took the store away for all callers.
test('a top-up that a rule refuses says nothing about the store', async () => {
  const { ledger, states, failedWrites } = gatewayIn(await temporaryFolder());
  const of = allowance({ day: 5 }).limits[0]!;
  await expect(ledger.topUp('a', of, MAX_LIMIT, 'one')).rejects.toMatchObject({ code: 'refused' });
  expect([states, failedWrites]).toEqual([[], []]);
});

// Attack: commands of an earlier version top one key up, each by nearly the largest limit, and each was acknowledged before the other was
// seen. The gateway refused the second one again and again, until it ended, and so did the next one.
test('a top-up that was acknowledged is bounded when it is applied, and not refused', async () => {
  const folder = await temporaryFolder();
  const db = database(folder);
  for (let i = 0; i < 2; i++) leave(db, 'a', TOP_UP.replace(':5}', `:${MAX_LIMIT - 7}}`));
  const { ledger, states } = gatewayIn(folder);
  expect((await ledger.present('a', strict))?.accounts[0].topUps?.minute?.amount).toBe(MAX_LIMIT - 2);
  expect(states).toEqual([]);
});

// Attack: power fails, or the disk is full, in the middle of a write.
test('a log of writes that is cut off in the middle costs what was written last, and is gone on with', async () => {
  const folder = await temporaryFolder();
  const { ledger } = gatewayIn(folder);
  const view = viewIn(folder);
  const ids = ['first', 'second', 'third'];
  for (const id of ids) {
    await ledger.decide([
      ask(id, 1),
      ...MANY.slice(0, 100).map((one) => ({ ...one, consumerId: id + one.consumerId })),
    ]);
    await eventually(async () => (await view.present(id, strict))?.accounts[0].windows.minute?.used === 1);
  }
  const log = readFileSync(join(folder, 'tollgate.db-wal'));
  const kept: number[] = [];
  for (const share of [0.4, 0.6, 0.8, 0.999, 1]) {
    const after = await temporaryFolder();
    cpSync(join(folder, 'tollgate.db'), join(after, 'tollgate.db'));
    const whole = log.subarray(0, Math.floor(log.length * share));
    writeFileSync(join(after, 'tollgate.db-wal'), Buffer.concat([whole, Buffer.alloc(5_000, 0xa5)]));
    const next = gatewayIn(after);
    const decisions = await next.ledger.decide(ids.map((id) => ask(id, 0)));
    const counted = decisions.map((decision) => decision?.accounts[0].windows.minute?.used ?? 0);
    // Each write whole or not at all, and none without those before it.
    expect(counted).toEqual(counted.toSorted((a, b) => b - a));
    kept.push(counted.filter((used) => used === 1).length);
    await next.ledger.decide([ask('fourth', 1)]);
    next.close();
    expect((await viewIn(after).present('fourth', strict))?.accounts[0].windows.minute?.used).toBe(1);
    expect(next.states).toEqual([]);
  }
  expect(kept).toEqual(kept.toSorted((a, b) => a - b));
  expect(new Set(kept).size).toBeGreaterThan(2);
  expect(kept.at(-1)).toBe(3);
});

describe('the owner of an embedded store', () => {
  test('is one at a time', async () => {
    const folder = await temporaryFolder();
    const owner = await ownStore(folder);
    await expect(ownStore(folder)).rejects.toMatchObject({
      code: 'store_owned',
      message: expect.stringContaining('Another gateway or command owns'),
    });
    owner.release();
    (await ownStore(folder)).release();
  });

  test('is not blamed for a folder that cannot be written', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, 'file'), '');
    await expect(ownStore(join(folder, 'file'))).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringContaining('TOLLGATE_DATA'),
    });
    await expect(ownStore(join(folder, 'file', 'below'))).rejects.toMatchObject({ code: 'store_unavailable' });
  });

  test('is not blamed for a lock file that is none', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, 'owner.lock'), 'x'.repeat(8_192));
    await expect(ownStore(folder)).rejects.toMatchObject({ code: 'store_unavailable' });
  });
});

/** Measures how long the event loop was busy without a pause, at most. */
function longestTurn() {
  let longestMs = 0;
  let lastMs = performance.now();
  const timer = setInterval(() => {
    longestMs = Math.max(longestMs, performance.now() - lastMs);
    lastMs = performance.now();
  }, 5);
  return {
    end: () => {
      clearInterval(timer);
      return longestMs;
    },
  };
}
