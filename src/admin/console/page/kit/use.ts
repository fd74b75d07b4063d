import { type Resource, useResource } from '../api.ts';
import { html } from '../html.ts';
import { navigate, usePlace } from '../router.ts';
import type { History, Usage } from '../types.ts';
import { BarChart, type Series } from './charts.ts';
import { Choice } from './filters.ts';
import { Section } from './page.ts';
import { calm, Shown } from './states.ts';

interface Histories {
  readonly hours: Resource<History>;
  readonly days: Resource<History>;
}

/** What a key or a customer used, of requests or of the unit in the address. @param path of its record in the admin API */
export function useHistories(path: string): Histories {
  const unit = usePlace().query.get('unit');
  const ofUnit = unit === null ? '' : `&unit=${encodeURIComponent(unit)}`;
  const hours = useResource<History>(`${path}/history?step=hour${ofUnit}`);
  const days = useResource<History>(`${path}/history?step=day${ofUnit}`);
  return { hours, days };
}

/** What a key or a customer used in the last 48 hours and 92 days. @param usage null while its units are not known */
export function Use({ hours, days, usage }: Histories & { usage: Usage | null }) {
  return html`<${Section} title="Use" note="Hours are in your time zone, days are those of UTC.">
    <div class="stack">
      <${UnitChoice} usage=${usage} />
      <div class="charts">
        <${Shown} of=${calm(hours)} what="the hours">${(data: History) => html`<${Used} history=${data} ...${HOURS} />`}</${Shown}>
        <${Shown} of=${calm(days)} what="the days">${(data: History) => html`<${Used} history=${data} ...${DAYS} />`}</${Shown}>
      </div>
    </div>
  </${Section}>`;
}

/** The choice between requests and the units that the plan limits; nothing if it limits none. */
function UnitChoice({ usage }: { usage: Usage | null }) {
  const { path, query } = usePlace();
  const units = new Set(Object.values(usage?.windows ?? {}).flatMap(({ unit }) => unit ?? []));
  if (units.size === 0 && !query.has('unit')) return null;
  const choose = (unit: string) => {
    const next = new URLSearchParams(query);
    if (unit === '') next.delete('unit');
    else next.set('unit', unit);
    navigate(`${path}${next.size === 0 ? '' : `?${next}`}`, 'replace');
  };
  const options = [...units].map((unit) => [unit, unit]);
  return html`<div class="filters">
    <${Choice} id="use-unit" name="unit" label="Counted in" any="requests" options=${options} onChange=${choose} />
  </div>`;
}

const VERDICTS: readonly Series[] = [
  { name: 'admitted', title: 'Admitted', color: '--admitted' },
  { name: 'refused', title: 'Refused', color: '--refused', isStriped: true },
  { name: 'banned', title: 'Banned', color: '--banned' },
];

interface Span {
  readonly id: string;
  readonly title: string;
  readonly step: string;
  readonly stepMs: number;
  readonly buckets: number;
  readonly label: Intl.DateTimeFormat;
}

const HOURS: Span = {
  id: 'hours',
  title: 'The last 48 hours',
  step: 'an hour',
  stepMs: 3_600_000,
  buckets: 48,
  label: new Intl.DateTimeFormat('en-GB', { weekday: 'short', hour: '2-digit', minute: '2-digit' }),
};
const DAYS: Span = {
  id: 'days',
  title: 'The last 92 days',
  step: 'a day',
  stepMs: 86_400_000,
  buckets: 92,
  label: new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' }),
};

function Used({ history, id, title, step, stepMs, buckets, label }: Span & { history: History }) {
  const { unit } = history;
  const series = unit === undefined ? VERDICTS : [{ ...VERDICTS[0]!, title: unit }];
  const counts = new Map(history.buckets.map((bucket) => [Date.parse(bucket.at), bucket]));
  const last = Math.floor(Date.now() / stepMs) * stepMs;
  const bars = Array.from({ length: buckets }, (_, i) => {
    const at = last - (buckets - 1 - i) * stepMs;
    const { admitted = 0, refused = 0, banned = 0 } = counts.get(at) ?? {};
    return { label: label.format(at), values: { admitted, refused, banned } };
  });
  return html`<div>
    <h3>${title}</h3>
    <${BarChart} id=${id} title=${title} series=${series} bars=${bars} step=${step} />
    ${counts.size === 0 && html`<p class="muted">Nothing was counted, or <code>usage.history</code> is off.</p>`}
  </div>`;
}
