import { setImmediate as turn } from 'node:timers/promises';
import { z } from 'zod';
import { Failure } from '../../failure.ts';
import { count, type DeepReadonly, time } from '../../model/values.ts';
import { PAST_RULE, pastFrom } from '../operation-values.ts';
import {
  addCells,
  type Cells,
  DIMENSIONS,
  type Dimension,
  decodeNames,
  decodeRecord,
  dimensionOf,
  nameOf,
  newCells,
  othersOf,
  quantileMs,
  requestsIn,
  STATUS_CLASSES,
  type TrafficRecord,
} from './traffic-record.ts';
import { PART_MS, type TrafficPart, type TrafficPlace, type TrafficStore } from './traffic-store.ts';

export const RANGES = { '1h': 3_600_000, '24h': 86_400_000, '7d': 7 * 86_400_000, '30d': 30 * 86_400_000 } as const;
export const TRAFFIC_BY = [...DIMENSIONS, 'status'] as const;
export const TRAFFIC_STEPS = ['minute', 'hour', 'day'] as const;
type TrafficStep = (typeof TRAFFIC_STEPS)[number];

/** Steps of a report: those of eight days by hour, or of half a year's third by day. */
const MAX_POINTS = 400;
/** The longest span that a step has unless another one is asked for. */
const USUAL_SPAN_MS = { minute: 3 * 3_600_000, hour: 8 * 86_400_000 };
/** How far back each step goes. A day consists of its hours. */
const REACHES_MS = { minute: 48 * 3_600_000, hour: 92 * 86_400_000, day: 92 * 86_400_000 };
const STEP_MS = { minute: PART_MS.minute, hour: PART_MS.hour, day: 86_400_000 };
/** Records that are read in one turn of the event loop, so that callers do not wait. */
const RECORDS_AT_A_TIME = 8;

const latency = z
  .number()
  .nullable()
  .describe('Milliseconds, estimated within a bucket of the histogram; null without requests, and for a status class.');
const numbers = {
  requests: count,
  errors: count.describe('Those that ended with a 5xx, or without a status.'),
  p50Ms: latency,
  p99Ms: latency,
};

const period = z.strictObject({
  from: time.describe('The beginning of the first step, UTC.'),
  to: time.describe(
    'The end of the span. The present minute is not part of it: gateways report a minute when it is over.',
  ),
  total: z.strictObject(numbers).describe('All requests of the steps that are known.'),
  points: z
    .array(
      z.strictObject({
        at: time.describe('When the step begins, UTC.'),
        known: z
          .enum(['all', 'part', 'none'])
          .describe(
            'Whether some gateway has reported all minutes of the step, some, or none. Then how many requests there were is unknown, and the numbers are null.',
          ),
        minutes: count.describe('Minutes of the step that are over and known.'),
        reports: count.describe('Reports of a minute, one of each process of a gateway that counted.'),
        lost: count.describe(
          'Requests that gateways had counted earlier and dropped before the store was back. No other number has them.',
        ),
        requests: count.nullable(),
        errors: count.nullable(),
        p50Ms: latency,
        p99Ms: latency,
      }),
    )
    .describe('All requests, oldest first; a step of which nothing is known is there too.'),
  series: z
    .array(
      z.strictObject({
        value: z
          .string()
          .nullable()
          .describe(
            'The route, plan, customer or upstream; or the status class, such as 5xx. Null for requests without one, and for others.',
          ),
        isOthers: z
          .boolean()
          .describe('True for the requests that are not counted by name, and for the values beyond `top`, together.'),
        ...numbers,
        points: z.array(z.strictObject(numbers).nullable()).describe('One for each step; null where it is unknown.'),
      }),
    )
    .describe('The most requests first, the others last.'),
});

export const trafficReport = z
  .strictObject({
    by: z.enum(TRAFFIC_BY),
    step: z.enum(TRAFFIC_STEPS),
    period,
    before: period.nullable().describe('The period of the same length before; null unless it is asked for.'),
    isKept: z.boolean().describe('False if `usage.traffic` is off, so that nothing is added at present.'),
  })
  .meta({ id: 'TrafficHistory' });
type Period = DeepReadonly<z.output<typeof period>>;
type Numbers = Pick<Period['series'][number], 'requests' | 'errors' | 'p50Ms' | 'p99Ms'>;

interface Span {
  readonly step: TrafficStep;
  /** Unix milliseconds, at the beginning of a step. */
  readonly fromMs: number;
  /** Unix milliseconds: the end of a step, or of the last minute that is over. */
  readonly toMs: number;
}

interface AskedSpan {
  readonly range: keyof typeof RANGES;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly step?: TrafficStep | undefined;
}

/** @throws Failure `refused` with a sentence that says what is allowed */
export function trafficSpan({ range, from, to, step: asked }: AskedSpan, nowMs: number): Span {
  const read = (text: string, member: string) => {
    const ms = pastFrom(text, nowMs);
    if (ms === null) throw new Failure('refused', `${member} ${PAST_RULE}.`);
    return ms;
  };
  const presentMs = floored(nowMs, 'minute');
  const endMs = Math.min(to === undefined ? presentMs : read(to, 'to'), presentMs);
  const beginMs = from === undefined ? endMs - RANGES[range] : read(from, 'from');
  if (beginMs > endMs - PART_MS.minute)
    throw new Failure('refused', 'from must be at least a minute before the end of the span.');
  const length = endMs - beginMs;
  const usual = length <= USUAL_SPAN_MS.minute ? 'minute' : length <= USUAL_SPAN_MS.hour ? 'hour' : 'day';
  // What is older than two days has no minutes.
  const isOld = usual === 'minute' && beginMs < nowMs - REACHES_MS.minute;
  const step = asked ?? (isOld ? 'hour' : usual);
  const fromMs = floored(beginMs, step);
  const toMs = Math.min(fromMs + stepsIn(endMs - fromMs, step) * STEP_MS[step], presentMs);
  if (fromMs < floored(nowMs - REACHES_MS[step], step)) {
    const kept =
      step === 'minute' ? 'minutes are kept for 48 hours; ask for hours (step hour)' : 'traffic is kept for 92 days';
    throw new Failure('refused', `from is too early: ${kept}.`);
  }
  if (stepsIn(toMs - fromMs, step) > MAX_POINTS) {
    const advice = step === 'minute' ? 'hour' : 'day';
    throw new Failure(
      'refused',
      `step must leave at most ${MAX_POINTS} points in the span: give a shorter one, or step ${advice}.`,
    );
  }
  return { step, fromMs, toMs };
}

function stepsIn(ms: number, step: TrafficStep): number {
  return Math.ceil(ms / STEP_MS[step]);
}

function floored(ms: number, step: TrafficStep): number {
  return ms - (ms % STEP_MS[step]);
}

/** As many steps, which end where this span begins. */
export function spanBefore({ step, fromMs, toMs }: Span): Span {
  return { step, fromMs: fromMs - stepsIn(toMs - fromMs, step) * STEP_MS[step], toMs: fromMs };
}

/** A step while its records are added. */
interface Gathered {
  readonly atMs: number;
  minutes: number;
  reports: number;
  lost: number;
  readonly total: Cells;
  /** By the name of the value; `OTHERS` for those without a name. */
  readonly byName: Map<string, Cells>;
}

const OTHERS = '';

/**
 * Reads a span of the traffic by one dimension, in pieces.
 * @param top how many values have a series of their own
 * @throws Failure `store_unavailable`
 */
export async function trafficIn(
  store: Pick<TrafficStore, 'read'>,
  span: Span,
  by: (typeof TRAFFIC_BY)[number],
  top: number,
): Promise<Period> {
  const dimension = by === 'status' ? 'route' : by;
  const steps = await gather(store, span, dimension);
  const isWhole = ({ atMs, minutes }: Gathered) =>
    minutes * PART_MS.minute >= Math.min(atMs + STEP_MS[span.step], span.toMs) - atMs;
  const points = steps.map((step) => ({
    at: textOf(step.atMs),
    known: step.minutes === 0 ? ('none' as const) : isWhole(step) ? ('all' as const) : ('part' as const),
    ...{ minutes: step.minutes, reports: step.reports, lost: step.lost },
    ...(step.minutes === 0 ? NOTHING_KNOWN : numbersOf(step.total)),
  }));
  const series = by === 'status' ? statusSeries(steps) : namedSeries(steps, dimension, top);
  const total = numbersOf(sumOf(steps.map(({ total }) => total)));
  return { from: textOf(span.fromMs), to: textOf(span.toMs), total, points, series };
}

const NOTHING_KNOWN = { requests: null, errors: null, p50Ms: null, p99Ms: null };

async function gather(
  store: Pick<TrafficStore, 'read'>,
  span: Span,
  dimension: Dimension,
): Promise<readonly Gathered[]> {
  const part: TrafficPart = span.step === 'minute' ? 'minute' : 'hour';
  const stepMs = STEP_MS[span.step];
  const steps: Gathered[] = [];
  for (let atMs = span.fromMs; atMs < span.toMs; atMs += stepMs) {
    steps.push({ atMs, minutes: 0, reports: 0, lost: 0, total: newCells(), byName: new Map() });
  }
  const places: TrafficPlace[] = [];
  for (let at = span.fromMs / PART_MS[part]; at * PART_MS[part] < span.toMs; at++) places.push({ part, at });
  let table = { day: -1, names: [] as readonly string[] };
  for (let from = 0; from < places.length; from += RECORDS_AT_A_TIME) {
    const some = places.slice(from, from + RECORDS_AT_A_TIME);
    const records = await store.read(some);
    for (const [i, { at }] of some.entries()) {
      const record = records[i] && decodeRecord(records[i]);
      if (!record) continue;
      const atMs = at * PART_MS[part];
      const day = Math.floor(atMs / PART_MS.names);
      if (table.day !== day) table = { day, names: await namesOf(store, day) };
      add(
        record,
        table.names,
        dimension,
        part === 'minute' ? 1 : record.marks.size,
        steps[Math.floor((atMs - span.fromMs) / stepMs)]!,
      );
    }
    await turn();
  }
  return steps;
}

async function namesOf(store: Pick<TrafficStore, 'read'>, day: number): Promise<readonly string[]> {
  const [bytes] = await store.read([{ part: 'names', at: day }]);
  return (bytes && decodeNames(bytes)) ?? [];
}

function add(
  { reports, lost, series }: TrafficRecord,
  names: readonly string[],
  dimension: Dimension,
  minutes: number,
  to: Gathered,
): void {
  to.minutes += minutes;
  to.reports += reports;
  to.lost += lost;
  for (const [id, cells] of series) {
    const name = id < DIMENSIONS.length ? OTHERS : names[id - DIMENSIONS.length];
    // Where the table is lost, the requests of all dimensions are without a name, and only others of this one can be told.
    const isOfDimension =
      name === OTHERS ? id === othersOf(dimension) : name !== undefined && dimensionOf(name) === dimension;
    if (!isOfDimension) continue;
    addCells(to.total, cells);
    addCells(at(to.byName, name!), cells);
  }
}

function at(byName: Map<string, Cells>, name: string): Cells {
  let cells = byName.get(name);
  if (cells === undefined) {
    cells = newCells();
    byName.set(name, cells);
  }
  return cells;
}

function namedSeries(steps: readonly Gathered[], dimension: Dimension, top: number): Period['series'] {
  const totals = new Map<string, Cells>();
  for (const { byName } of steps) for (const [name, cells] of byName) addCells(at(totals, name), cells);
  const named = [...totals].filter(([name]) => name !== OTHERS).sort(([, a], [, b]) => requestsIn(b) - requestsIn(a));
  const shown = named.slice(0, top).map(([name]) => name);
  const isShown = new Set(shown);
  const prefix = `${dimension} `.length;
  const seriesOf = (value: string | null, isOthers: boolean, cellsIn: (step: Gathered) => Cells) => {
    const cells = steps.map(cellsIn);
    const points = steps.map(({ minutes }, i) => (minutes === 0 ? null : numbersOf(cells[i]!)));
    return { value, isOthers, ...numbersOf(sumOf(cells)), points };
  };
  const own = shown.map((name) =>
    seriesOf(
      name === nameOf(dimension, null) ? null : name.slice(prefix),
      false,
      ({ byName }) => byName.get(name) ?? newCells(),
    ),
  );
  if (totals.size === shown.length) return own;
  const rest = ({ byName }: Gathered) =>
    sumOf([...byName].filter(([name]) => !isShown.has(name)).map(([, cells]) => cells));
  return [...own, seriesOf(null, true, rest)];
}

/** A series for each status class with requests, without latency, which is not kept by class. */
function statusSeries(steps: readonly Gathered[]): Period['series'] {
  const total = sumOf(steps.map(({ total }) => total));
  const numbersOfClass = (cells: Cells, i: number): Numbers => {
    return { requests: cells[i]!, errors: STATUS_CLASSES[i] === '5xx' ? cells[i]! : 0, p50Ms: null, p99Ms: null };
  };
  return STATUS_CLASSES.map((value, i) => ({
    value,
    isOthers: false,
    ...numbersOfClass(total, i),
    points: steps.map(({ minutes, total }) => (minutes === 0 ? null : numbersOfClass(total, i))),
  }))
    .filter(({ requests }) => requests > 0)
    .sort((a, b) => b.requests - a.requests);
}

function sumOf(all: readonly Cells[]): Cells {
  const sum = newCells();
  for (const cells of all) addCells(sum, cells);
  return sum;
}

function numbersOf(cells: Cells): Numbers {
  const errors = cells[STATUS_CLASSES.indexOf('5xx')]!;
  return { requests: requestsIn(cells), errors, p50Ms: quantileMs(cells, 0.5), p99Ms: quantileMs(cells, 0.99) };
}

function textOf(ms: number): string {
  return new Date(ms).toISOString();
}
