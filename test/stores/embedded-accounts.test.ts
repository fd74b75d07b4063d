import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, test } from 'vitest';
import { type AccountState, UNSEEN } from '../../src/admit/decide.ts';
import { MADE_ONCE_MS } from '../../src/admit/ledger.ts';
import { windowLimit } from '../../src/admit/windows.ts';
import { AccountsTable } from '../../src/stores/embedded/accounts.ts';

const T0 = 1_800_000_000_000;
const TOP_UP =
  '{"kind":"top-up","of":{"window":"day","limit":5,"form":{"calendar":{"unit":"day","zone":"UTC","anchor":1}}},"amount":3}';
let db: DatabaseSync;
let table: AccountsTable;
beforeEach(() => {
  db = new DatabaseSync(':memory:');
  table = new AccountsTable(db);
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
  expect(table.get('a')).toEqual(UNSEEN);
  table.save([], ['a']);
  expect([...table.load(0)]).toEqual([]);
  expect(table.get('a')).toEqual(UNSEEN);
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
  expect(table.get('a')).toBeNull();
  expect([...table.load(T0)]).toEqual([{ consumerId: 'a', state: null, expiresAtMs: T0 + 1 }]);
  expect(table.bans(T0)).toEqual([{ consumerId: 'a', ban: null }]);
  table.addPending({ consumerId: 'a', change: { kind: 'lift' }, atMs: T0 });
  expect(table.get('a')).toBeNull();
});

test('the largest slices are slices', () => {
  const slices = { per: 30, startsAtMs: 0, first: 29, counts: Array<number>(31).fill(1) };
  const state: AccountState = { ...UNSEEN, windows: { minute: { used: 31, endsAtMs: 1, slices } } };
  table.save([row('a', state)]);
  expect(table.get('a')).toEqual(state);
});

describe('changes that commands have written', () => {
  const lift = (consumerId: string, atMs = T0) => ({ consumerId, change: { kind: 'lift' } as const, atMs });

  test('are applied to what is read, in their order, until they are written as applied', () => {
    table.save([row('a', banned(T0 + 900))]);
    table.addPending(lift('a'));
    table.addPending(lift('b', T0 + 1));
    expect(table.get('a')).toEqual(UNSEEN);
    expect(table.pending().map(({ consumerId, atMs }) => [consumerId, atMs])).toEqual([
      ['a', T0],
      ['b', T0 + 1],
    ]);
    expect(table.pending('b')).toEqual([{ number: 2, ...lift('b', T0 + 1) }]);
    table.save([]);
    expect(table.pending()).toHaveLength(2);
    table.save([], [], table.pending('a'));
    expect(table.pending().map(({ number }) => number)).toEqual([2]);
  });

  test('keep the form of a window', () => {
    const { calendar } = windowLimit('month', 5);
    const month = { kind: 'top-up', of: windowLimit('month', 5), amount: 3 } as const;
    const sliding = { kind: 'top-up', of: windowLimit('minute', 5, { slices: 4 }), amount: 3 } as const;
    const reset = { kind: 'reset', windows: ['minute', 'day'] } as const;
    const noted = { ...sliding, terms: { id: 'top_1', untilMs: T0, reason: 'why' } } as const;
    const undo = { kind: 'undo-top-up', window: 'minute', id: null } as const;
    for (const change of [month, sliding, reset, noted, undo]) table.addPending({ consumerId: 'a', change, atMs: T0 });
    const [first, ...others] = table.pending('a').map(({ change }) => change);
    expect([first, ...others]).toEqual([month, sliding, reset, noted, undo]);
    expect(first?.kind === 'top-up' && first.of.calendar).toBe(calendar);
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
  ])('one that %s is left out of what is read, and removed by a reset (reliability 400)', (_, text) => {
    table.save([row('a', banned(T0 + 900))]);
    db.prepare('INSERT INTO pending_changes (consumer_id, change, at_ms) VALUES (?, ?, ?)').run('a', text, T0);
    expect(table.pending('a')).toEqual([{ number: 1, consumerId: 'a', change: null, atMs: T0 }]);
    expect(table.readable('a')).toBeNull();
    expect(table.placeOf('a')).toBe('the row 1 of the table pending_changes in tollgate.db');
    expect(table.bans(T0).map(({ consumerId }) => consumerId)).toEqual(['a']);
    table.addPending(lift('a'));
    expect(table.get('a')).toEqual(UNSEEN);
    table.removeUnreadable('a');
    expect(table.pending().map(({ number }) => number)).toEqual([2]);
    expect(table.readable('a')).toEqual(UNSEEN);
    expect(table.placeOf('a')).toBe('the row a of the table accounts in tollgate.db');
  });

  test('are gone with their consumer', () => {
    table.save([row('a', UNSEEN), row('b', UNSEEN)]);
    table.addPending(lift('a'));
    table.addPending(lift('b'));
    table.remove('a');
    expect([...table.load(T0)].map(({ consumerId }) => consumerId)).toEqual(['b']);
    expect(table.pending().map(({ consumerId }) => consumerId)).toEqual(['b']);
  });

  test('made under an id are known for a day, whichever way they were written', () => {
    const once = { id: 'x', words: 'three more' };
    table.addPending(lift('a'));
    expect(table.madeOnce('a', 'x', T0)).toBeNull();
    table.addPending(lift('a'), once);
    expect(table.madeOnce('a', 'x', T0 + MADE_ONCE_MS - 1)).toBe('three more');
    expect(table.madeOnce('a', 'x', T0 + MADE_ONCE_MS)).toBeNull();
    expect([table.madeOnce('b', 'x', T0), table.madeOnce('a', 'y', T0)]).toEqual([null, null]);
    table.saveChanged(row('b', UNSEEN), { id: 'z', words: 'five more' }, T0 + MADE_ONCE_MS);
    expect(table.madeOnce('b', 'z', T0 + MADE_ONCE_MS)).toBe('five more');
    expect([...table.load(0)]).toEqual([row('b', UNSEEN)]);
    // The older one is dropped with that, and the newer one stays.
    expect(
      db
        .prepare('SELECT id FROM made_once')
        .all()
        .map(({ id }) => id),
    ).toEqual(['z']);
    table.saveChanged(row('b', UNSEEN), { id: 'w', words: '' }, T0 + MADE_ONCE_MS + 1);
    expect(table.madeOnce('b', 'z', T0 + MADE_ONCE_MS + 1)).toBe('five more');
  });
});

test('bans in force are those that no change has lifted', () => {
  table.save([row('a', banned(T0 + 1)), row('b', banned(T0)), row('c', UNSEEN), row('d', banned(T0 + 9))]);
  table.addPending({ consumerId: 'd', change: { kind: 'lift' }, atMs: T0 });
  expect(table.bans(T0)).toEqual([{ consumerId: 'a', ban: banned(T0 + 1).ban }]);
});
