import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import type { Exchange } from '../../src/gateway/exchange.ts';
import { LogLine } from '../../src/simulate/log-line.ts';
import { countedWindowsOf } from '../support/counted-windows.ts';
import { processorMs } from '../support/stopwatch.ts';
import { lineOf } from './recorded.ts';

/** What is read of a line of the log, and of the same line as another program would write it. */
function read(line: string) {
  const reader = new LogLine();
  const latin1 = Buffer.from(line).toString('latin1').trimEnd();
  // A line stands between others.
  const text = `{"msg":"serving"}\n${latin1}\n${latin1}\n`;
  const kind = reader.read(text, 18, 18 + latin1.length);
  return { kind, ...reader };
}

const rewritten = (line: string) => `${JSON.stringify(JSON.parse(line), null, 1).replaceAll('\n', ' ')}\n`;
const reversed = (line: string) =>
  `${JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(line)).reverse()))}\n`;

const LIMITS: Exchange['limits'] = [
  { window: 'minute', lengthMs: 60_000, limit: 60 },
  { window: 'day', lengthMs: 86_400_000, limit: 999_999_999_999_999 },
];

describe('a line of a request', () => {
  test('with a top-up is read with the limits of its plan, and with what was used of the raised one', () => {
    const [minute, day] = countedWindowsOf(LIMITS, [8, 900]);
    const line = lineOf({ limits: LIMITS, windows: [{ ...minute!, limit: 110 }, day!] });
    expect(JSON.parse(line)).toMatchObject({
      limits: { minute: 110 },
      remaining: { minute: 8 },
      topUps: { minute: 50 },
    });
    const log = new LogLine(false);
    expect(log.read(line, 0, line.length - 1)).toBe('decided');
    expect([log.limits, log.used]).toEqual(['"minute":60,"day":999999999999999', 102]);
  });

  test('is read to what a replay needs', () => {
    const line = lineOf({
      limits: LIMITS,
      windows: countedWindowsOf(LIMITS, [58, 900]),
      judgement: 'banned',
      imposedBan: 3,
      cost: 2,
      status: 429,
    });
    expect(read(line)).toEqual({
      kind: 'decided',
      consumerId: 'key_1',
      customerId: '',
      path: null,
      method: '',
      plan: 'free',
      judgement: 2,
      cost: 2,
      imposedBan: 3,
      decidedAtMs: 1_790_000_000_000,
      isLocal: false,
      isFromMemory: false,
      limits: '"minute":60,"day":999999999999999',
      units: [],
      used: 2,
      count: 1,
      sample: 1,
    });
  });

  test('has what it charges in units, also behind other members and in another order', () => {
    const tokens = { unit: 'tokens', reserved: 1_000, settled: 742, why: 'cut' } as const;
    const line = lineOf({
      ...{
        limits: LIMITS,
        windows: countedWindowsOf(LIMITS, [58, 900]),
        attempts: 2,
        isOverRetryBudget: true,
        policy: 'a,"units":{',
      },
      units: [
        { unit: 'usd', reserved: 5, settled: 6, why: null, parts: [{ of: '/a}}}"', amount: 2, times: 3, row: '}}' }] },
        tokens,
        { unit: 'rows', reserved: 0, settled: 9, why: null },
      ],
    });
    const units = [
      { unit: 'usd', reserved: 5, settled: 6 },
      { unit: 'tokens', reserved: 1_000, settled: 742 },
      { unit: 'rows', reserved: 0, settled: 9 },
    ];
    for (const one of [line, rewritten(line), reversed(line)]) {
      expect(read(one)).toMatchObject({ kind: 'decided', units, used: 2, count: 1 });
    }
    expect(read(lineOf({ limits: LIMITS, windows: countedWindowsOf(LIMITS, [58, 900]), attempts: 2 })).units).toEqual(
      [],
    );
    const broken = ['7', 'null', '{"tokens":{}}', '{"tokens":7}', '{"tokens":{"reserved":-1,"settled":0}}'];
    for (const units of broken) {
      expect(read(line.replace(/"units":.*\}\}/, `"units":${units}`)).kind, units).toBe('broken');
    }
    const nine = Array.from({ length: 9 }, (_, i) => ({ ...tokens, unit: `u${i}` }));
    expect(read(lineOf({ limits: LIMITS, windows: countedWindowsOf(LIMITS, [58, 900]), units: nine })).kind).toBe(
      'broken',
    );
  });

  test('as the gateway writes it is read without parsing it as JSON', () => {
    const parse = vi.spyOn(JSON, 'parse');
    const kinds = [
      lineOf({ limits: LIMITS, windows: countedWindowsOf(LIMITS, [58, 900]) }),
      lineOf(
        { limits: LIMITS, windows: countedWindowsOf(LIMITS, [0, 900]), judgement: 'refused', source: 'memory' },
        ',"count":7',
        'refusals',
      ),
      lineOf({ status: 502, code: 'upstream_unavailable', cause: 'ECONNREFUSED: connect "a"' }),
      lineOf({ upstream: null, target: null }, ',"sample":0.5'),
    ].map((line) => read(line).kind);
    const parsed = parse.mock.calls.length;
    parse.mockRestore();
    expect([kinds, parsed]).toEqual([['decided', 'decided', 'decided', 'decided'], 0]);
  });

  test('of a caller of a customer has the customer, the path, and the use of a window that all its keys share', () => {
    const parse = vi.spyOn(JSON, 'parse');
    const limits: Exchange['limits'] = [
      { window: 'minute', lengthMs: 60_000, limit: 60 },
      { window: 'hour', name: 'customer-search-hour', lengthMs: 3_600_000, limit: 50 },
      { window: 'day', name: 'customer-day', lengthMs: 86_400_000, limit: 1_000 },
    ];
    const line = lineOf({
      ...{ accountId: 'cus_1/key_1', path: '/v1/search/a', method: 'POST' },
      limits,
      windows: countedWindowsOf(limits, [58, 49, 900]),
    });
    const readPaths = (text: string) => {
      const log = new LogLine(true);
      return { kind: log.read(text, 0, text.length - 1), ...log };
    };
    const found = readPaths(line);
    const parsed = parse.mock.calls.length;
    parse.mockRestore();
    expect(parsed).toBe(0);
    expect(found).toMatchObject({
      ...{ kind: 'decided', consumerId: 'key_1', customerId: 'cus_1', path: '/v1/search/a', method: 'POST', used: 100 },
    });
    expect(readPaths(reversed(line))).toEqual(found);
    expect(readPaths(lineOf({ path: '/a"b' })).path).toBe('/a"b');
    // What a line has is not that of the line before.
    const log = new LogLine(true);
    log.read(line, 0, line.length - 1);
    log.read(lineOf({}), 0, lineOf({}).length - 1);
    expect(log).toMatchObject({ customerId: '', path: '/v1/pets' });
  });

  test('is told apart by where it was decided, and by how many requests it stands for', () => {
    expect(read(lineOf({ source: 'local' }))).toMatchObject({ kind: 'decided', isLocal: true });
    expect(read(lineOf({ source: 'memory' }, ',"count":4711', 'refusals'))).toMatchObject({
      kind: 'decided',
      isFromMemory: true,
      count: 4711,
    });
    expect(read(lineOf({}, ',"sample":0.05'))).toMatchObject({ kind: 'decided', sample: 0.05 });
    expect(read(lineOf({ source: null, shadow: { judgement: 'refused', window: 'minute' } }))).toMatchObject({
      kind: 'decided',
      judgement: 0,
      isLocal: false,
    });
  });

  test('without a decision, without a key, and what is no request are told apart', () => {
    const undecided = { judgement: 'undecided', source: null, decidedAtMs: null } as const;
    expect(read(lineOf(undecided)).kind).toBe('undecided');
    expect(read(lineOf({ ...undecided, judgement: 'unauthenticated', status: 499 })).kind).toBe('undecided');
    expect(read(lineOf({ ...undecided, judgement: 'usage' })).kind).toBe('other');
    expect(read(rewritten(lineOf({ ...undecided, judgement: 'usage' }))).kind).toBe('other');
    const shed = lineOf({ ...undecided, judgement: 'shed', source: 'memory', status: 429 }, ',"count":9', 'refusals');
    expect([read(shed).kind, read(rewritten(shed)).kind]).toEqual(['other', 'other']);
    expect(read(lineOf({ ...undecided, consumerId: null, judgement: 'unauthenticated' })).kind).toBe('other');
    expect(read(lineOf({ consumerId: null, plan: 'public' })).kind).toBe('public');
    // One line for many requests of an address, or of many addresses.
    const many = { ...undecided, consumerId: null, clientAddress: null };
    expect(read(lineOf({ ...many, judgement: 'unauthenticated' }, ',"count":4711')).kind).toBe('other');
    expect(read(rewritten(lineOf({ ...many, judgement: 'malformed' }, ',"count":4711'))).kind).toBe('other');
    expect(read(lineOf({ ...many, judgement: 'refused', plan: 'public' }, ',"count":4711')).kind).toBe('public');
    expect(read(lineOf({ cost: 0 })).kind).toBe('other');
    expect(read('{"level":30,"msg":"websocket closed","consumerId":"key_1"}').kind).toBe('foreign');
    expect(read('gateway-1  | starting').kind).toBe('foreign');
    expect(read('{"level":30,"time":"2026-11-2').kind).toBe('broken');
    expect(read(lineOf({ decidedAtMs: null })).kind).toBe('broken');
    // A program that gathers logs has put something before it: such lines are missing in a replay, and that is told.
    expect(read(`gateway-1  | ${lineOf({})}`).kind).toBe('broken');
  });

  test('is left out where its numbers are none that a gateway writes, and never taken for others', () => {
    const bad: string[] = [
      lineOf({ decidedAtMs: 253_402_300_800_000 }),
      lineOf({ cost: 2 ** 32 }),
      lineOf({ imposedBan: 2 ** 32 }),
      lineOf({}, ',"count":4294967296', 'refusals'),
      lineOf({}, ',"sample":0.0000000001'),
      lineOf({}, ',"sample":-1'),
      lineOf({}, ',"sample":2'),
    ];
    for (const line of bad) {
      expect([line, read(line).kind]).toEqual([line, 'broken']);
      expect([line, read(rewritten(line)).kind]).toEqual([line, 'broken']);
    }
    expect(read(lineOf({ decidedAtMs: 253_402_300_799_999, cost: 1_000_000_000 })).kind).toBe('decided');
    expect(read(rewritten(lineOf({}).replace('"imposedBan":null,', ''))).kind).toBe('decided');
  });

  test('of another program is passed over in the time that its own length takes, not that of all behind it', () => {
    const line = '{"level":30,"pid":1,"hostname":"pod","msg":"request"}';
    const text = `${line}\n`.repeat(50_000);
    const reader = new LogLine();
    const kinds = new Set<string>();
    const tookMs = processorMs(() => {
      for (let at = 0; at < text.length; at += line.length + 1) kinds.add(reader.read(text, at, at + line.length));
    });
    expect([...kinds]).toEqual(['other']);
    // It takes a tenth of a second; looked for to the end of the text each time, most of a minute.
    expect(tookMs).toBeLessThan(3_000);
  });

  test('is the same whatever a client puts into it, and however its JSON is written', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        '","consumerId":"key_2","plan":"pro',
        '"judgement":"banned"',
        '\\',
        '"msg":"request"}',
        '}\n{',
        'ä€𝄞',
      ),
    );
    const exchange = fc.record({
      requestId: text,
      path: fc.option(text),
      cause: fc.option(text),
      consumerId: fc.option(text),
      plan: fc.option(text),
      cost: fc.integer({ min: 1, max: 1_000_000_000 }),
      judgement: fc.constantFrom('admitted', 'refused', 'banned'),
      source: fc.constantFrom('store', 'memory', 'local'),
      decidedAtMs: fc.integer({ min: 1, max: 4e12 }),
      imposedBan: fc.option(fc.integer({ min: 1, max: 1000 })),
      limits: fc.constantFrom([], LIMITS, LIMITS.slice(1)),
      remaining: fc.constant([7, 11]),
    });
    fc.assert(
      fc.property(exchange, fc.constantFrom('', ',"count":12', ',"sample":0.25'), (some, more) => {
        const line = lineOf(some as Partial<Exchange>, more, more.startsWith(',"c') ? 'refusals' : 'request');
        const told = read(line);
        expect(told.kind).toBe(some.consumerId === null ? 'public' : 'decided');
        if (told.kind === 'public') return;
        expect(told.consumerId).toBe(some.consumerId);
        expect(read(rewritten(line))).toEqual(told);
        expect(read(reversed(line))).toEqual(told);
      }),
      { seed: 20261121, numRuns: 500 },
    );
  });
});
