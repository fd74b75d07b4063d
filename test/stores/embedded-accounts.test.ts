import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, test } from 'vitest';
import { MADE_ONCE_MS } from '../../src/admit/ledger.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { AccountsOnDisk, AccountsTable, bansIn } from '../../src/stores/embedded/accounts.ts';
import { applyEarlierChanges, damagedChanges, earlierChanges } from '../../src/stores/embedded/earlier-changes.ts';

const T0 = 1_800_000_000_000;
const TOP_UP =
  '{"kind":"top-up","of":{"window":"day","limit":5,"form":{"calendar":{"unit":"day","zone":"UTC","anchor":1}}},"amount":3}';
let db: DatabaseSync;
let table: AccountsTable;
let accounts: AccountsOnDisk;
beforeEach(() => {
  db = new DatabaseSync(':memory:');
  table = new AccountsTable(db);
  accounts = new AccountsOnDisk(table, () => T0);
});

const banned = (untilMs: number): AccountState => ({ ...UNSEEN, ban: { number: 1, untilMs, window: 'minute' } });
const row = (consumerId: string, state: AccountState, expiresAtMs = T0 + 1_000) => ({ consumerId, state, expiresAtMs });

test('rows are read as they were written, until they expire', () => {
  table.save([row('a', banned(T0 + 5)), row('b', UNSEEN, T0)]);
  expect([...table.load(T0)]).toEqual([row('a', banned(T0 + 5))]);
  expect([...table.load(T0 - 1)]).toHaveLength(2);
  table.dropEnded(T0);
  expect([...table.load(0)].map(({ consumerId }) => consumerId)).toEqual(['a']);
  table.save([row('a', UNSEEN)], ['b']);
  expect(table.get('a')?.state).toEqual(UNSEEN);
  table.save([], ['a']);
  expect([...table.load(0)]).toEqual([]);
  expect(table.get('a')).toBeUndefined();
});

test.each([
  ['no JSON', '{'],
  ['no account', '{}'],
  ['a count below 0', JSON.stringify({ ...UNSEEN, windows: { minute: { used: -1, endsAtMs: 1 } } })],
  ['a ban without a number', JSON.stringify({ ...UNSEEN, ban: { number: 0, untilMs: 1, window: 'day' } })],
  ...[
    { per: 0, startsAtMs: 0, first: 0, counts: [1] },
    { per: 31, startsAtMs: 0, first: 0, counts: [1] },
    { per: 4, startsAtMs: 0, first: 4, counts: [1] },
    { per: 4, startsAtMs: -1, first: 0, counts: [1] },
    { per: 4, startsAtMs: 0, first: 0, counts: [] },
    { per: 30, startsAtMs: 0, first: 0, counts: Array(32).fill(1) },
  ].map((slices): [string, string] => [
    JSON.stringify(slices).slice(0, 60),
    JSON.stringify({ ...UNSEEN, windows: { minute: { used: 1, endsAtMs: 1, slices } } }),
  ]),
  ['a top-up of nothing', JSON.stringify({ ...UNSEEN, topUps: { day: { amount: 0, untilMs: 1 } } })],
])('a row with %s holds no account', (_, state) => {
  db.prepare('INSERT INTO accounts VALUES (?, ?, ?)').run('a', state, T0 + 1);
  expect(table.get('a')).toEqual({ state: null, expiresAtMs: T0 + 1 });
  expect([...table.load(T0)]).toEqual([{ consumerId: 'a', state: null, expiresAtMs: T0 + 1 }]);
  expect(bansIn(accounts, [], T0)).toEqual([{ consumerId: 'a', ban: null }]);
});

test('the largest slices are slices', () => {
  const slices = { per: 30, startsAtMs: 0, first: 29, counts: Array<number>(31).fill(1) };
  const state: AccountState = { ...UNSEEN, windows: { minute: { used: 31, endsAtMs: 1, slices } } };
  table.save([row('a', state)]);
  expect(table.get('a')?.state).toEqual(state);
});

describe('changes that commands of an earlier version have written', () => {
  const NOTED = ',"terms":{"id":"top_1","untilMs":9,"reason":"why"}}';
  beforeEach(() => {
    expect(earlierChanges(db)).toEqual([]);
    db.exec(
      'CREATE TABLE pending_changes (number INTEGER PRIMARY KEY AUTOINCREMENT, consumer_id TEXT NOT NULL, change TEXT NOT NULL, at_ms INTEGER NOT NULL) STRICT',
    );
  });
  const leave = (consumerId: string, change: string) =>
    db.prepare('INSERT INTO pending_changes (consumer_id, change, at_ms) VALUES (?, ?, ?)').run(consumerId, change, T0);

  test('are read in their order, with the form of a window', () => {
    leave('a', TOP_UP);
    leave('a', TOP_UP.replace(/"form":.*?\}\}\}/, '"form":{"slices":4}}').replace(/\}$/, NOTED));
    leave('b', '{"kind":"reset","windows":["minute","day"]}');
    leave('a', '{"kind":"undo-top-up","window":"minute","id":null}');
    const calendar = { unit: 'day', zone: 'UTC', anchor: 1 } as const;
    const day = { kind: 'top-up', of: windowLimit('day', 5, { calendar }), amount: 3 };
    const sliding = { ...day, of: windowLimit('day', 5, { slices: 4 }) };
    const terms = { id: 'top_1', untilMs: 9, reason: 'why' };
    expect(earlierChanges(db, 'a').map(({ change }) => change)).toEqual([
      day,
      { ...sliding, terms },
      { kind: 'undo-top-up', window: 'minute', id: null },
    ]);
    expect(earlierChanges(db, 'b')).toEqual([
      { number: 3, consumerId: 'b', change: { kind: 'reset', windows: ['minute', 'day'] }, atMs: T0 },
    ]);
  });

  test('are applied once, in their order, and the account is kept as long as before', () => {
    table.save([row('a', banned(T0 + 900), T0 + 9_000)]);
    leave('a', '{"kind":"lift"}');
    leave('a', '{"kind":"ban","ban":{"number":2,"untilMs":1800000000500,"window":"day"}}');
    for (let i = 0; i < 2; i++) {
      applyEarlierChanges(db, table);
      expect(table.get('a')).toMatchObject({ state: { ban: { number: 2, window: 'day' } }, expiresAtMs: T0 + 9_000 });
      expect(earlierChanges(db)).toEqual([]);
    }
  });

  test.each([
    ['is cut off', '{"kind":"top-up"'],
    ['is empty', ''],
    ['is of no kind', '{}'],
    ['is of another version', '{"kind":"later"}'],
    ['resets no windows', '{"kind":"reset"}'],
    ['has a ban without a number', '{"kind":"ban","ban":{"untilMs":1,"window":"day"}}'],
    ['has an unknown zone', TOP_UP.replace('UTC', 'Mars')],
    ['adds nothing', TOP_UP.replace('"amount":3', '"amount":0')],
    ['has no end', TOP_UP.replace('"amount":3', '"amount":3,"terms":{"id":"top_1","untilMs":"soon"}')],
  ])('one that %s is left, and the others are applied (reliability 400)', (_, text) => {
    table.save([row('a', banned(T0 + 900))]);
    leave('a', text);
    leave('a', '{"kind":"lift"}');
    applyEarlierChanges(db, table);
    expect(table.get('a')?.state?.ban).toBeUndefined();
    expect(damagedChanges(db)).toEqual([{ number: 1, consumerId: 'a', change: null, atMs: T0 }]);
    expect(bansIn(accounts, damagedChanges(db), T0)).toEqual([{ consumerId: 'a', ban: null }]);
  });
});

test('changes made under an id are known for a day', () => {
  table.saveChanged(row('a', UNSEEN), { id: 'x', words: 'three more' }, T0);
  expect(table.madeOnce('a', 'x', T0 + MADE_ONCE_MS - 1)).toBe('three more');
  expect(table.madeOnce('a', 'x', T0 + MADE_ONCE_MS)).toBeNull();
  expect([table.madeOnce('b', 'x', T0), table.madeOnce('a', 'y', T0)]).toEqual([null, null]);
  table.saveChanged(row('b', UNSEEN), { id: 'z', words: 'five more' }, T0 + MADE_ONCE_MS);
  // The older one is dropped with that, and the newer one stays.
  const ids = db.prepare('SELECT id FROM made_once').all();
  expect(ids.map(({ id }) => id)).toEqual(['z']);
});

test('bans in force are those that have not ended', () => {
  table.save([row('a', banned(T0 + 1)), row('b', banned(T0)), row('c', UNSEEN), row('d', banned(T0 + 9))]);
  expect(bansIn(accounts, [], T0)).toEqual([
    { consumerId: 'a', ban: banned(T0 + 1).ban },
    { consumerId: 'd', ban: banned(T0 + 9).ban },
  ]);
});
