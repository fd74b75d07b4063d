import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PLAIN, type Style } from '../../src/io/terminal-text.ts';
import { widthOf } from '../../src/io/text-width.ts';
import { rowsOf, rowsWithin, tookText } from '../../src/telemetry/terminal-line.ts';

const before = process.env.TZ;
beforeAll(() => {
  process.env.TZ = 'Asia/Tokyo';
});
afterAll(() => {
  if (before === undefined) delete process.env.TZ;
  else process.env.TZ = before;
});

const TONED: Style = (tone, text) => (text === '' ? text : `<${tone} ${text}>`);

/** An admitted request, as the log has it. */
const ADMITTED = {
  level: 30,
  time: '2026-11-22T01:02:03.000Z',
  requestId: '9f86d081884c7d659a2feaa0c55ad015',
  traceId: null,
  path: '/v1/pets',
  clientAddress: '192.0.2.7',
  consumerId: 'key_UxYtRgTgI9u8kkw8',
  method: 'GET',
  route: '/v1/pets',
  plan: 'free',
  judgement: 'admitted',
  cost: 1,
  window: 'minute',
  imposedBan: null,
  source: 'store',
  shadow: null,
  status: 200,
  code: null,
  cause: null,
  limits: { minute: 60, day: 1000 },
  upstream: 'store',
  target: 'http://127.0.0.1:9000',
  decidedAtMs: 1_795_341_600_000,
  bytesIn: 0,
  bytesOut: 64,
  remaining: { minute: 59, day: 999 },
  totalMs: 2.31,
  storeMs: 0.402,
  upstreamMs: 1.7,
  retryAtMs: null,
  msg: 'request',
};
const REFUSED = {
  ...ADMITTED,
  judgement: 'refused',
  status: 429,
  code: 'rate_limit_exceeded',
  upstream: null,
  target: null,
  remaining: { minute: 0, day: 940 },
  totalMs: 0.4,
  retryAtMs: ADMITTED.decidedAtMs + 33_200,
};
const BANNED = {
  ...REFUSED,
  judgement: 'banned',
  code: 'api_key_banned',
  imposedBan: 2,
  retryAtMs: ADMITTED.decidedAtMs + 120_000,
};
const UNREACHABLE = {
  ...ADMITTED,
  level: 40,
  status: 502,
  code: 'upstream_unavailable',
  cause: 'connect ECONNREFUSED 127.0.0.1:9000',
};

describe('a row', () => {
  test.each<[string, object, number, string[]]>([
    [
      'an admitted request',
      ADMITTED,
      80,
      ['10:02:03 200 GET      2.3 ms /v1/pets           free, 59 left → 127.0.0.1:9000'],
    ],
    [
      'on a wide terminal',
      ADMITTED,
      160,
      [
        '10:02:03 200 GET      2.3 ms /v1/pets                              free, 59 of 60 a minute left  key_UxYtRgTgI9u8kkw8 → 127.0.0.1:9000',
      ],
    ],
    [
      'a used up quota',
      REFUSED,
      80,
      ['10:02:03 429 GET      0.4 ms /v1/pets  minute quota of plan free, again in 34 s'],
    ],
    [
      'a used up quota of a plan with a long name',
      { ...REFUSED, plan: 'a-plan-for-enterprises' },
      80,
      ['10:02:03 429 GET      0.4 ms /v1/pets           minute quota, again in 34 s'],
    ],
    [
      'a used up quota on a wide terminal',
      REFUSED,
      120,
      [
        '10:02:03 429 GET      0.4 ms /v1/pets                         minute quota of plan free, 0 left, again in 34 s',
      ],
    ],
    [
      'several refusals',
      { ...REFUSED, count: 1_204, msg: 'refusals' },
      100,
      ['10:02:03 429 GET      0.4 ms /v1/pets  minute quota of plan free, 0 left, again in 34 s ×1,204'],
    ],
    ['a ban that begins', BANNED, 80, ['10:02:03 429 GET      0.4 ms /v1/pets           ban 2 begins, again in 2 min']],
    [
      'a ban that goes on',
      { ...BANNED, imposedBan: null },
      80,
      ['10:02:03 429 GET      0.4 ms /v1/pets           banned, again in 2 min'],
    ],
    [
      'a service that cannot be reached',
      UNREACHABLE,
      140,
      [
        '10:02:03 502 GET      2.3 ms /v1/pets  upstream unavailable: connect ECONNREFUSED 127.0.0.1:9000  key_UxYtRgTgI9u8kkw8 → 127.0.0.1:9000',
      ],
    ],
    [
      'a service that cannot be reached, with less room',
      UNREACHABLE,
      80,
      ['10:02:03 502 GET      2.3 ms /v1/pets           upstream unavailable'],
    ],
    [
      'no key',
      { ...ADMITTED, consumerId: null, plan: null, status: 401, code: 'missing_api_key', target: null },
      80,
      ['10:02:03 401 GET      2.3 ms /v1/pets           missing API key'],
    ],
    [
      'a refusal of a policy',
      {
        ...REFUSED,
        judgement: 'denied',
        status: 403,
        code: 'wrong_tenant',
        policy: './policies/tenant.ts',
        target: null,
      },
      120,
      ['10:02:03 403 GET      0.4 ms /v1/pets                         wrong tenant (policy ./policies/tenant.ts)'],
    ],
    [
      'a policy that fails',
      { ...ADMITTED, status: 500, code: 'policy_failed', cause: 'it threw Error: a', policy: './a.ts', target: null },
      120,
      [
        '10:02:03 500 GET      2.3 ms /v1/pets                         policy failed: it threw Error: a (policy ./a.ts)',
      ],
    ],
    [
      'a path that could not be read',
      {
        ...ADMITTED,
        path: null,
        plan: null,
        window: null,
        consumerId: null,
        target: null,
        status: 400,
        code: 'invalid_request',
      },
      80,
      ['10:02:03 400 GET      2.3 ms -                  invalid request'],
    ],
    [
      'a long path',
      { ...ADMITTED, path: `/v1/${'pets/'.repeat(30)}` },
      60,
      ['10:02:03 200 GET      2.3 ms /v1/pets/pets/pets/pets…  free'],
    ],
    [
      'limits that are only watched',
      { ...ADMITTED, shadow: 'refused' },
      120,
      [
        '10:02:03 200 GET      2.3 ms /v1/pets                         free, 59 left, refused in shadow → 127.0.0.1:9000',
      ],
    ],
    [
      'an event',
      { level: 30, time: ADMITTED.time, host: '127.0.0.1', port: 8080, admin: 9090, store: 'embedded', msg: 'serving' },
      80,
      ['10:02:03 info  serving: host 127.0.0.1, port 8080, admin 9090, store embedded'],
    ],
    [
      'a warning, whole',
      { level: 40, time: ADMITTED.time, msg: `The plan ${'long '.repeat(20)}ends here.` },
      80,
      [`10:02:03 warn  The plan ${'long '.repeat(11).trim()}`, `               ${'long '.repeat(9)}ends here.`],
    ],
    [
      'an error with its cause',
      {
        level: 50,
        time: ADMITTED.time,
        err: { type: 'Error', message: 'no room', stack: 'Error\n at x' },
        msg: 'the store failed',
      },
      80,
      ['10:02:03 error the store failed (no room)'],
    ],
    [
      'a defect with its stack',
      {
        level: 50,
        time: ADMITTED.time,
        err: { message: 'x', stack: 'Error: x\n    at f (a.ts:1:2)' },
        msg: 'a defect',
      },
      80,
      ['10:02:03 error a defect (x)', '               at f (a.ts:1:2)'],
    ],
    [
      'a change of a key',
      {
        level: 30,
        time: ADMITTED.time,
        action: 'key.revoke',
        outcome: 'done',
        code: null,
        actor: 'ops',
        id: 'key_1',
        before: { plan: 'free' },
        after: null,
        msg: 'audit',
      },
      80,
      ['10:02:03 info  audit: action key.revoke, outcome done, actor ops, id key_1'],
    ],
  ])('of %s', (_, record, columns, rows) => {
    expect(rowsOf(record as never, columns, PLAIN)).toEqual(rows);
    for (const row of rows) expect(widthOf(row)).toBeLessThan(columns);
  });

  test('has the colour of its status, and the same text without colours', () => {
    const [row] = rowsOf(REFUSED, 80, TONED);
    expect(row).toContain('<yellow 429>');
    expect(rowsOf(ADMITTED, 80, TONED)[0]).toContain('<green 200>');
    expect(rowsOf(UNREACHABLE, 80, TONED)[0]).toContain('<red 502>');
    expect(row!.replaceAll(/<\w+ ([^>]*)>/g, '$1')).toBe(rowsOf(REFUSED, 80, PLAIN)[0]);
  });
});

/** What terminals obey, hide, reorder or join, and what they draw wide. */
const HOSTILE = fc.string({
  unit: fc.oneof(
    fc.constantFrom(...['\x1b', '\x9b', '\x07', '\r', '\n', '\b', '\x7f', '\x00', '\t']),
    fc.constantFrom(
      ...['\u202e', '\u2066', '\u200f', '\u200b', '\u200d', '\u2028', '\ufeff', '\u{e0041}', '\u0301', '\ufe0f'],
    ),
    fc.constantFrom(...['漢', '한', '😀', '👩‍👩‍👧', '🇩🇪', '\u3000', 'ﷺ', '\ud800', 'é', 'ß']),
    fc.constantFrom('\x1b[2J', '\x1b]8;;http://evil\x1b\\', '\x1b]0;title\x07', '…', '→'),
    fc.string({ minLength: 1, maxLength: 8, unit: 'binary' }),
  ),
  maxLength: 40,
});
const UNSAFE = /\p{Cc}|\p{Cf}|\p{Cs}|\p{Zl}|\p{Zp}|\u3164/u;

test('no text of a record writes to the terminal but what can be seen, and no row is as wide as the terminal', () => {
  const texts = fc.record({
    path: HOSTILE,
    method: HOSTILE,
    plan: HOSTILE,
    consumerId: HOSTILE,
    target: HOSTILE,
    cause: HOSTILE,
    window: HOSTILE,
  });
  const request = fc.tuple(
    texts,
    fc.constantFrom(null, 'rate_limit_exceeded', 'api_key_banned', 'upstream_unavailable'),
    HOSTILE,
  );
  const requests = request.map(([more, code, other]) => ({ ...REFUSED, ...more, code: code ?? null, shadow: other }));
  const events = fc.tuple(HOSTILE, HOSTILE, HOSTILE, HOSTILE).map(([msg, name, value, stack]) => ({
    level: 50,
    time: value,
    msg: `a defect ${msg}`,
    [name]: value,
    list: [value],
    deep: { [name]: value },
    err: { message: value, stack },
  }));
  fc.assert(
    fc.property(fc.oneof(requests, events), fc.integer({ min: 1, max: 200 }), (record, columns) => {
      for (const row of rowsOf(record, columns, PLAIN)) {
        expect(row).not.toMatch(UNSAFE);
        expect(widthOf(row)).toBeLessThanOrEqual(Math.max(columns - 1, 0));
      }
    }),
    { numRuns: 500 },
  );
});

test('a text that is broken into lines keeps every word, and a long word is broken', () => {
  expect(rowsWithin('one two three', 7, 8)).toEqual(['one two', 'three']);
  expect(rowsWithin('abcdefgh ij', 4, 8)).toEqual(['abcd', 'efgh', 'ij']);
  expect(rowsWithin('one two three four', 5, 2)).toEqual(['one', 'two …']);
});

test('times are short', () => {
  expect([0, 9.94, 9.96, 999.4, 1_000, 59_900, 60_000, 3_600_000].map(tookText)).toEqual([
    '0.0 ms',
    '9.9 ms',
    '10 ms',
    '999 ms',
    '1.0 s',
    '59.9 s',
    '1 min',
    '60 min',
  ]);
});
