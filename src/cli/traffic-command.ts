import type { OutputOf } from '../operations/catalogue/operation.ts';
import { showTrafficHistory } from '../operations/catalogue/traffic-operations.ts';
import type { Print } from './operation-command.ts';
import { showCommand } from './reading-command.ts';
import { table } from './terminal/printed-table.ts';

/** `tollgate traffic`: requests, errors and latency over time, and what had them. */
export const traffic = showCommand({
  name: 'traffic',
  operation: showTrafficHistory,
  positional: null,
  examples: [
    'tollgate traffic',
    'tollgate traffic --by upstream --range 24h --compare',
    'tollgate traffic --from 6h --step minute --json',
  ],
  spelled: {
    by: { value: 'WHAT' },
    range: { value: 'RANGE' },
    from: { value: 'TIME' },
    to: { value: 'TIME' },
    step: { value: 'STEP' },
    top: { value: 'N' },
  },
  text: asText,
  note: ({ isKept }) =>
    isKept ? '' : 'warning: no traffic is kept at present. Set `usage: { traffic: on }` in gateway.yaml.\n',
});

type Report = OutputOf<typeof showTrafficHistory>;

/** A line for each step, then one for each series and one for all requests. What is unknown is `?`. */
function asText({ by, step, period, before }: Report, { terminal }: Print): string {
  const steps = period.points.map(({ at, known, requests, errors, p50Ms, p99Ms }, i) => [
    at.slice(0, step === 'day' ? 10 : 16),
    ...[requests, errors].map((n) => (n === null ? '?' : String(n))),
    ...latencies({ p50Ms, p99Ms }),
    ...(before === null ? [] : [String(before.points[i]?.requests ?? '?')]),
    known === 'part' ? 'in part' : '',
  ]);
  const rowOf = (name: string, { requests, errors, ...times }: Report['period']['total']) => [
    name,
    String(requests),
    String(errors),
    ...latencies(times),
  ];
  const series = period.series.map(({ value, isOthers, ...numbers }) =>
    rowOf(isOthers ? 'others' : (value ?? 'none'), numbers),
  );
  const lost = period.points.reduce((sum, point) => sum + point.lost, 0);
  const numbers = ['requests', 'errors', 'p50 ms', 'p99 ms'];
  const ofSteps = table([step, ...numbers, ...(before === null ? [] : ['before']), 'known'], steps, terminal);
  const note = lost === 0 ? '' : `${lost} requests were counted and lost while the store was away.\n`;
  return `${ofSteps}\n${table([by, ...numbers], [...series, rowOf('all', period.total)], terminal)}${note}`;
}

function latencies({ p50Ms, p99Ms }: Pick<Report['period']['total'], 'p50Ms' | 'p99Ms'>): string[] {
  return [p50Ms, p99Ms].map((ms) => (ms === null ? '-' : String(ms)));
}
