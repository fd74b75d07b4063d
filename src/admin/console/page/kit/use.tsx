import { changeQuery, usePlace } from '../place.ts';
import { type Resource, useResource } from '../requests.ts';
import type { History, Usage } from '../types.ts';
import { Act } from './act.tsx';
import { callerColumn, isCustomer, pathOf } from './callers.tsx';
import { type Bar, BarChart, BY_QUOTA } from './charts.tsx';
import { saveCsv } from './csv.ts';
import { Table } from './data-table.tsx';
import { countText, ownZone, percentText, say } from './format.tsx';
import { billingDayOf } from './limit-windows.tsx';
import { Section, Totals } from './page.tsx';
import { RangeForm } from './range-form.tsx';
import { Segments } from './segments.tsx';
import { calm, Empty, Shown } from './states.tsx';

// What a key or a customer has used in a range of time: totals, a chart, and a file for a spreadsheet.

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** Days of UTC, from the first to the last, or hours. */
interface Span {
  readonly step: 'hour' | 'day';
  /** Unix milliseconds, a whole hour or day. */
  readonly firstMs: number;
  readonly lastMs: number;
}

const RANGES = [
  ['', '24 h'],
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['month', 'Billing month'],
  ['last-month', 'Month before'],
  ['custom', 'Other'],
] as const;

/** @param billingDay the day of a month on which months begin */
function spanOf(query: URLSearchParams, billingDay: number, nowMs: number): Span | null {
  const today = Math.floor(nowMs / DAY_MS) * DAY_MS;
  const hour = Math.floor(nowMs / HOUR_MS) * HOUR_MS;
  const begun = monthBegin(nowMs, 0, billingDay) > nowMs ? -1 : 0;
  const month = (offset: number) => monthBegin(nowMs, begun + offset, billingDay);
  const days = (firstMs: number, lastMs = today): Span => ({ step: 'day', firstMs, lastMs });
  const range = query.get('range') ?? '';
  if (range === '7d') return days(today - 6 * DAY_MS);
  if (range === '30d') return days(today - 29 * DAY_MS);
  if (range === 'month') return days(month(0));
  if (range === 'last-month') return days(month(-1), month(0) - DAY_MS);
  if (range !== 'custom') return { step: 'hour', firstMs: hour - 23 * HOUR_MS, lastMs: hour };
  const [first, last] = [dayOf(query.get('from')), dayOf(query.get('to') ?? new Date(nowMs).toISOString())];
  return Number.isNaN(first) || Number.isNaN(last) || last < first ? null : days(first, last);
}

/** When a month begins, counted from that of `nowMs`. In a month without that day it begins on its last one. */
function monthBegin(nowMs: number, offset: number, day: number): number {
  const now = new Date(nowMs);
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth() + offset];
  const days = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(day, days));
}

/** The beginning of the day of UTC in which a moment is, Unix milliseconds; NaN if the text is none. */
function dayOf(text: string | null): number {
  return Math.floor(Date.parse(text ?? '') / DAY_MS) * DAY_MS;
}

function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

interface Use {
  readonly span: Span | null;
  readonly history: Resource<History>;
}

/**
 * What a key or a customer used, of requests or of the unit in the address.
 * @param id of the key or customer
 * @param usage of which the month window says when a billing month begins; null while it is not known
 */
export function useUse(id: string, usage: Usage | null, everyMs: number | null): Use {
  const { query } = usePlace();
  const span = spanOf(query, billingDayOf(usage?.windows ?? {}), Date.now());
  const asked = new URLSearchParams();
  if (span !== null) {
    const { step, firstMs, lastMs } = span;
    asked.set('step', step);
    asked.set('from', new Date(firstMs).toISOString());
    asked.set('to', new Date(lastMs + 1).toISOString());
  }
  const unit = query.get('unit');
  if (unit !== null) asked.set('unit', unit);
  if (isCustomer(id)) asked.set('keys', 'true');
  return { span, history: useResource<History>(span === null ? null : `${pathOf(id)}/history?${asked}`, everyMs) };
}

/** @param id of the key or customer, for the name of the file; @param usage null while its units are not known */
export function UseSection({ id, use: { span, history }, usage }: { id: string; use: Use; usage: Usage | null }) {
  const { query } = usePlace();
  const units = [...new Set(Object.values(usage?.windows ?? {}).flatMap(({ unit }) => unit ?? []))];
  const range = query.get('range') ?? '';
  const unit = query.get('unit') ?? '';
  const setRange = (one: string) => changeQuery(one === 'custom' ? { range: one } : { range: one, from: '', to: '' });
  return (
    <Section title="Usage" note={noteOn(span)}>
      <div class="panel stack">
        <div class="row spread before">
          <Segments label="Range" options={RANGES} value={range} choose={setRange} />
          {(units.length > 0 || unit !== '') && (
            <Segments
              label="Counted in"
              options={[['', 'Requests'], ...units.map((one) => [one, one] as const)]}
              value={unit}
              choose={(one: string) => changeQuery({ unit: one })}
            />
          )}
        </div>
        {range === 'custom' && <RangeForm from={query.get('from') ?? ''} to={query.get('to') ?? ''} />}
        {span !== null && (
          <Shown of={calm(history)} what="the usage">
            {(data: History) => <Used id={id} history={data} {...span} />}
          </Shown>
        )}
      </div>
    </Section>
  );
}

/** Which days are shown, and that the last of them is not over. */
function noteOn(span: Span | null): string {
  if (span === null) return 'Days in UTC.';
  if (span.step === 'hour') return `Hours in ${ownZone()}.`;
  const isToday = span.lastMs + DAY_MS > Date.now();
  return `${dayText(span.firstMs)} to ${dayText(span.lastMs)}, days in UTC${isToday ? ', with today so far' : ''}.`;
}

const LABELS = {
  hour: new Intl.DateTimeFormat('en-GB', { weekday: 'short', hour: '2-digit', minute: '2-digit' }),
  day: new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' }),
} as const;

function Used({ id, history, step, firstMs, lastMs }: Span & { id: string; history: History }) {
  const { unit } = history;
  const series = unit === undefined ? BY_QUOTA : [{ ...BY_QUOTA[0]!, title: unit }];
  const counts = new Map(history.buckets.map((bucket) => [Date.parse(bucket.at), bucket]));
  const stepMs = step === 'hour' ? HOUR_MS : DAY_MS;
  const rows = Array.from({ length: (lastMs - firstMs) / stepMs + 1 }, (_, i) => {
    const at = firstMs + i * stepMs;
    const { admitted = 0, refused = 0, banned = 0 } = counts.get(at) ?? {};
    return { at, admitted, refused, banned } as const;
  });
  const sumOf = (name: string) => rows.reduce((sum, row) => sum + row[name as 'admitted'], 0);
  const save = () => {
    const head = ['id', step, 'unit', ...series.map(({ name }) => name)];
    const lines = rows.map((row) => [
      id,
      step === 'day' ? dayText(row.at) : new Date(row.at).toISOString(),
      unit ?? 'requests',
      ...series.map(({ name }) => row[name as 'admitted']),
    ]);
    saveCsv(`usage-${id}-${dayText(firstMs)}-${dayText(lastMs)}.csv`, [head, ...lines]);
  };
  const title = step === 'hour' ? 'Usage by hour' : 'Usage by day';
  const bars: readonly Bar[] = rows.map(({ at, ...values }) => ({
    label: LABELS[step].format(at),
    state: at + stepMs > Date.now() ? 'running' : undefined,
    values,
  }));
  return (
    <>
      <Totals of={series.map(({ name, title: of }) => [of, countText(sumOf(name))])}>
        <Act text="Download CSV" on={save} />
      </Totals>
      {counts.size === 0 ? (
        <Empty title="No use in this range.">
          <p>{say`Or ${<code>usage.history</code>} is off.`}</p>
        </Empty>
      ) : (
        <BarChart id="usage" title={title} series={series} bars={bars} step={step} />
      )}
      {'byKey' in history && history.byKey !== undefined && <ByKey {...history.byKey} />}
    </>
  );
}

type Keys = NonNullable<Extract<History, { byKey?: unknown }>['byKey']>;

/** Which keys of a customer used what they share. */
function ByKey({ keys, isWhole }: Keys) {
  const all = keys.reduce((sum, { admitted }) => sum + admitted, 0);
  if (all === 0) return null;
  return (
    <>
      <Table
        caption="Which of its keys used it"
        rows={keys.filter(({ admitted }) => admitted > 0)}
        keyOf={({ id }) => id}
        columns={[
          callerColumn('Which of its keys used it'),
          { title: 'Admitted', as: 'count', of: ({ admitted }) => admitted },
          { title: 'Share', isNumber: true, cell: ({ admitted }) => percentText(admitted, all) },
        ]}
        least={10}
      />
      {!isWhole && <p class="muted">It has more keys, which are not looked at here.</p>}
    </>
  );
}
