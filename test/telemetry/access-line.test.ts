import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { WindowLimit } from '../../src/admit/windows.ts';
import { AccessLines, type LoggedExchange } from '../../src/telemetry/log.ts';
import { countedWindowsOf } from '../support/counted-windows.ts';

const limits: readonly WindowLimit[][] = [
  [],
  [{ window: 'minute', lengthMs: 60_000, limit: 5 }],
  [
    { window: 'minute', lengthMs: 60_000, limit: 5 },
    { window: 'day', lengthMs: 86_400_000, limit: 50 },
  ],
];
const few = <T>(...values: T[]) => fc.constantFrom(...values);
const ms = fc.integer({ min: 0, max: 90_000_000 }).map((us) => us / 1_000);

const exchanges: fc.Arbitrary<LoggedExchange> = fc
  .record({
    requestId: few('a', 'b'),
    traceId: few(null, '0af7651916cd43dd8448eb211c80319c'),
    method: few('GET', 'POST', 'SE"CRET'),
    path: few(null, '/v1/pets', '/"\\\u0007é'),
    route: few(null, '/v1/pets', '/{id}'),
    clientAddress: few('127.0.0.1', '::1', null),
    consumerId: few(null, 'one', 'other'),
    plan: few(null, 'free', 'pro'),
    cost: few(1, 2),
    limits: few(...limits),
    judgement: few('admitted' as const, 'refused' as const, 'banned' as const),
    window: few(null, 'minute' as const),
    imposedBan: few(null, 1),
    source: few(null, 'store' as const, 'memory' as const),
    decidedAtMs: few(null, 1_790_000_000_000, 1_790_000_000_001),
    shadow: few(null, { judgement: 'refused' as const, window: 'minute' as const }),
    status: few(200, 429, 499, 500, 502, 504),
    code: few(null, 'rate_limit_exceeded'),
    cause: few(null, 'a "quoted" cause\n'),
    upstream: few(null, 'store', 'other'),
    target: few(null, 'http://127.0.0.1:9000', 'unix:/run/a "b".sock'),
    totalMs: ms,
    storeMs: ms,
    upstreamMs: ms,
    bytesIn: few(0, 12),
    bytesOut: few(0, 284),
  })
  .map((exchange) => ({ ...exchange, windows: afterOne(exchange) }));

function afterOne({ limits, cost }: Pick<LoggedExchange, 'limits' | 'cost'>) {
  return countedWindowsOf(
    limits,
    limits.map(({ limit }) => limit - cost),
  );
}

/** Each differs from the one before in one member, as those of one gateway may. */
const histories: fc.Arbitrary<readonly LoggedExchange[]> = fc
  .tuple(exchanges, fc.array(fc.tuple(exchanges, fc.nat()), { maxLength: 40 }))
  .map(([first, others]) => {
    const records = [first];
    for (const [other, pick] of others) {
      const members = Object.keys(first) as (keyof LoggedExchange)[];
      const member = members[pick % members.length]!;
      const record = { ...records.at(-1)!, [member]: other[member] };
      records.push({ ...record, windows: afterOne(record) });
    }
    return records;
  });

test('a line says what the record of its request says, whatever stood in the lines before it', () => {
  fc.assert(
    fc.property(histories, (records) => {
      const lines = new AccessLines();
      for (const [i, record] of records.entries()) {
        const nowMs = 1_790_000_000_000 + 400 * i;
        const { limits, windows, shadow, ...rest } = record;
        const byWindow = (values: readonly number[]) =>
          Object.fromEntries(limits.map((it, j) => [it.window, values[j]]));
        const line = lines.lineOf(record, nowMs, ',"sample":0.5', 'request');
        expect(line.endsWith('}\n')).toBe(true);
        expect(JSON.parse(line)).toEqual({
          level: record.status >= 500 ? 40 : 30,
          time: new Date(nowMs).toISOString(),
          ...rest,
          shadow: shadow?.judgement ?? null,
          limits: byWindow(limits.map(({ limit }) => limit)),
          remaining: byWindow(windows.map(({ remaining }) => remaining)),
          sample: 0.5,
          msg: 'request',
        });
      }
    }),
    { numRuns: 300 },
  );
});

test('a line of a caller of a customer has the customer, and any other line is as it was', () => {
  fc.assert(
    fc.property(exchanges, (exchange) => {
      const lineOf = (more: object) =>
        new AccessLines().lineOf({ ...exchange, ...more }, 1_790_000_000_000, '', 'request');
      const { consumerId } = exchange;
      expect(lineOf({ accountId: consumerId })).toBe(lineOf({}));
      if (consumerId === null) return;
      const { customerId, ...rest } = JSON.parse(lineOf({ accountId: `cus_1/${consumerId}` }));
      expect(customerId).toBe('cus_1');
      expect(rest).toEqual(JSON.parse(lineOf({})));
    }),
  );
});
