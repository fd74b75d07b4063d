import { expect, test } from 'vitest';
import type { Exchange } from '../../src/gateway/exchange.ts';
import { unpaid } from '../../src/gateway/metering.ts';
import { openLog } from '../../src/telemetry/log.ts';
import { EXCHANGE } from '../simulate/recorded.ts';

const REFUSED: Exchange = {
  ...{ ...EXCHANGE, judgement: 'refused', status: 429, code: 'rate_limit_exceeded', source: 'memory' },
};

async function linesOf(exchanges: readonly Exchange[]) {
  const lines: string[] = [];
  const log = openLog({
    ...{ level: 'info', onDrop: () => {}, sample2xx: () => 1, nowMs: () => 0, monotonicMs: () => 0 },
    stream: { write: (line) => void lines.push(line) },
  });
  for (const exchange of exchanges) log.access(exchange);
  await log.close();
  return lines.map((line) => JSON.parse(line));
}

test('refusals from memory that would take different amounts of units share a line, with the average, rounded up', async () => {
  const refused = [
    ...[100, 200, 201].map((tokens) => ({ ...REFUSED, units: unpaid({ tokens }) })),
    { ...REFUSED, units: unpaid({ rows: 7 }) },
    REFUSED,
    { ...REFUSED, consumerId: 'key_2', units: unpaid({ tokens: 9 }) },
    { ...REFUSED, consumerId: 'key_3' },
  ];
  const lines = await linesOf(refused);
  expect(lines.map(({ count, units }) => [count, units])).toEqual([
    [5, { tokens: { reserved: 101, settled: 0 }, rows: { reserved: 2, settled: 0 } }],
    [1, { tokens: { reserved: 9, settled: 0 } }],
    [1, undefined],
  ]);
});

test('a client that changes what it would take with each request gets no more lines', async () => {
  const refused = Array.from({ length: 5_000 }, (_, tokens) => ({ ...REFUSED, units: unpaid({ tokens }) }));
  expect(await linesOf(refused)).toMatchObject([{ count: 5_000, units: { tokens: { reserved: 2_500, settled: 0 } } }]);
});
