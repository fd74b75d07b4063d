import type { Resource } from '../api.ts';
import { html } from '../html.ts';
import type { History } from '../types.ts';
import { BarChart, type Series } from './charts.ts';
import { Section } from './page.ts';
import { calm, Shown } from './states.ts';

/** What a key or a customer used in the last 48 hours and 92 days. */
export function Use({ hours, days }: { hours: Resource<History>; days: Resource<History> }) {
  return html`<${Section} title="Use" note="Hours are in your time zone, days are those of UTC.">
    <div class="charts">
      <${Shown} of=${calm(hours)} what="the hours">${(data: History) => html`<${Used} history=${data} ...${HOURS} />`}</${Shown}>
      <${Shown} of=${calm(days)} what="the days">${(data: History) => html`<${Used} history=${data} ...${DAYS} />`}</${Shown}>
    </div>
  </${Section}>`;
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
  const counts = new Map(history.buckets.map((bucket) => [Date.parse(bucket.at), bucket]));
  const last = Math.floor(Date.now() / stepMs) * stepMs;
  const bars = Array.from({ length: buckets }, (_, i) => {
    const at = last - (buckets - 1 - i) * stepMs;
    const { admitted = 0, refused = 0, banned = 0 } = counts.get(at) ?? {};
    return { label: label.format(at), values: { admitted, refused, banned } };
  });
  return html`<div>
    <h3>${title}</h3>
    <${BarChart} id=${id} title=${title} series=${VERDICTS} bars=${bars} step=${step} />
    ${counts.size === 0 && html`<p class="muted">Nothing was counted, or <code>usage.history</code> is off.</p>`}
  </div>`;
}
