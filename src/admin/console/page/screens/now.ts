import { useMemo, useState } from 'preact/hooks';
import { type StreamState, useEvents, useResource } from '../api.ts';
import { type Helped, LiftDialog, TopUpDialog } from '../help.ts';
import { html } from '../html.ts';
import { CallerName, nameOf } from '../kit/callers.ts';
import { BarChart, Meter, type Series } from '../kit/charts.ts';
import {
  countText,
  lengthText,
  millisecondsOf,
  momentText,
  ordinal,
  plural,
  rateText,
  Time,
  Until,
  useNow,
} from '../kit/format.ts';
import { Badge, Page, Section } from '../kit/page.ts';
import { Empty, Loading } from '../kit/states.ts';
import { Table } from '../kit/table.ts';
import { windowText } from '../kit/windows.ts';
import { RefusedSettings } from '../refused-settings.ts';
import { useMay } from '../session.ts';
import type { Gateway, GatewayList, NowEvent } from '../types.ts';

type Refused = NowEvent['refused'][number];
type MostRefused = NowEvent['mostRefused'][number];
type Near = NowEvent['near'][number];
type Buckets = NowEvent['traffic']['buckets'];
type TrafficColumn = Exclude<keyof Buckets[number], 'at'>;

const VERDICTS: readonly Series[] = [
  { name: 'admitted', title: 'Admitted', color: '--admitted' },
  { name: 'refused', title: 'Refused', color: '--refused', isStriped: true },
  { name: 'banned', title: 'Banned', color: '--banned' },
  { name: 'unauthenticated', title: 'Unknown caller', color: '--unknown', isStriped: true },
  { name: 'rest', title: 'Other', color: '--other' },
];

/** The callers that are refused now, those that soon will be, and the state of the gateways: the screen to open first in an incident. */
export function Now() {
  const [now, setNow] = useState<NowEvent | null>(null);
  const [helped, setHelped] = useState<Helped | null>(null);
  const stream = useEvents('/admin/events/now', ['now'], (name, data) => {
    if (name === 'now') setNow(data as NowEvent);
  });
  return html`<${Page} title="Now" beside=${html`<${StreamSign} state=${stream} at=${now?.at ?? null} />`}>
    ${
      now === null
        ? html`<${Loading} what="what happens now" />`
        : html`<${Outage} gateways=${now.gateways} />
            <${RefusedSettings} gateways=${now.gateways.gateways} />
            <${Summary} of=${now} />
            <${RefusedKeys} now=${now} help=${setHelped} />
            <${MostRefusedKeys} keys=${now.mostRefused} callers=${now.refusedCallers} />
            <${NearKeys} keys=${now.near} help=${setHelped} />
            <${Traffic} ...${now.traffic} />
            <${Gateways} gateways=${now.gateways.gateways} isComplete=${now.gateways.complete} />`
    }
    ${helped?.how === 'lift' && html`<${LiftDialog} of=${helped} onClose=${() => setHelped(null)} />`}
    ${helped?.how === 'topup' && html`<${TopUpDialog} of=${helped} onClose=${() => setHelped(null)} />`}
  </${Page}>`;
}

export function StreamSign({ state, at }: { state: StreamState; at: string | null }) {
  if (state === 'open') return html`<${Badge} kind="good">Live</${Badge}>`;
  const since = at === null ? '' : ` Shown is ${momentText(at)}.`;
  if (state === 'connecting') return html`<${Badge} kind="plain">Connecting…</${Badge}>`;
  return html`<${Badge} kind="bad">Connection lost, trying again.${since}</${Badge}>`;
}

function Outage({ gateways: { complete, gateways } }: { gateways: NowEvent['gateways'] }) {
  const away = gateways.filter(({ store }) => store === 'away' || store === 'never_reached');
  if (away.length === 0) return null;
  const { outage } = away[0]!;
  return html`<div class="banner" role="alert">
    <p class="state-title">${outage === null ? 'The store is away' : `The store has been away for ${lengthText(outage.lastsMs / 1_000)}`}</p>
    <p>
      ${complete ? `${plural(away.length, 'gateway')} of ${gateways.length} cannot reach it` : 'The gateway that serves this page cannot reach it, and so cannot see the others'}${outage === null ? '' : `: ${sentence(outage.reason)}`}. Callers are served as <code>redis.onFailure</code> says; what is admitted meanwhile is
      counted when the store is back. The lists below need the store.
    </p>
  </div>`;
}

/** A sentence of the gateway for the middle of another one: without its full stop. */
function sentence(text: string): string {
  return text.replace(/\.$/, '');
}

/** The state of callers and gateways in one sentence. */
function Summary({ of: { refused, refusedMore, gateways, traffic } }: { of: NowEvent }) {
  const all = gateways.gateways;
  const ready = all.filter(({ ready, draining }) => ready && !draining).length;
  const failed = sumOf(lastMinute(traffic), 'failed');
  const refusing = all.filter(({ settings }) => settings === 'refused').length;
  const isWell = ready === all.length && failed === 0;
  const isAttended = refused.length > 0 || refusing > 0 || !gateways.complete;
  return html`<p class="sentence">
    <${Badge} kind=${!isWell ? 'bad' : isAttended ? 'warn' : 'good'}>
      ${[
        gateways.complete
          ? `${plural(refused.length, 'caller')}${refusedMore ? ' and more' : ''} refused`
          : 'Refusals unknown',
        gateways.complete
          ? `${countText(ready)} of ${plural(all.length, 'gateway')} ready`
          : `this gateway ${ready === 1 ? 'ready' : 'not ready'}, others unknown`,
        ...(refusing === 0 ? [] : ['changed settings refused']),
        failed === 0 ? 'no 5xx' : `${countText(failed)} × 5xx in a minute`,
      ].join(' · ')}
    </${Badge}>
  </p>`;
}

/** Without the present bucket, which is not full yet. */
function lastMinute({ stepSeconds, buckets }: NowEvent['traffic']): Buckets {
  return buckets.slice(-1 - 60 / stepSeconds, -1);
}

function sumOf(buckets: Buckets, name: TrafficColumn): number {
  return buckets.reduce((sum, bucket) => sum + bucket[name], 0);
}

function Traffic(traffic: NowEvent['traffic']) {
  const { stepSeconds, buckets } = traffic;
  const bars = buckets.map(({ at, ...values }) => ({
    label: momentText(at),
    values: {
      ...values,
      rest: values.shed + values.undecided + values.malformed + values.other,
    },
  }));
  const minute = lastMinute(traffic);
  const perSecond = (name: TrafficColumn) => sumOf(minute, name) / Math.max(1, minute.length * stepSeconds);
  const figures: readonly { name: TrafficColumn; title: string }[] = [
    { name: 'admitted', title: 'Admitted' },
    { name: 'refused', title: 'Refused (429)' },
    { name: 'banned', title: 'Banned (429)' },
    { name: 'unauthenticated', title: 'Unknown caller (401)' },
    { name: 'failed', title: 'Failed (5xx)' },
  ];
  return html`<${Section} title="Traffic" note="Of the last minute, and by verdict over ten minutes.">
    <dl class="figures">
      ${figures.map(
        ({ name, title }) =>
          html`<div key=${name} class=${name}>
            <dt>${title}</dt>
            <dd>${rateText(perSecond(name))}<span class="unit"> a second</span></dd>
          </div>`,
      )}
    </dl>
    <${BarChart} id="traffic" title="Requests by verdict" series=${VERDICTS} bars=${bars} step=${`${stepSeconds} seconds`} />
  </${Section}>`;
}

function RefusedKeys({ now, help }: { now: NowEvent; help: (helped: Helped) => void }) {
  const { refused: keys, refusedMore, refusedCallers, gateways, traffic } = now;
  const isAway = !gateways.complete;
  const mayHelp = useMay('operator');
  const note = keys.length === 0 ? null : `${plural(keys.length, 'caller')}${refusedMore ? ', and more' : ''}`;
  const requests = plural(sumOf(traffic.buckets, 'refused') + sumOf(traffic.buckets, 'banned'), 'request');
  const callers = `${plural(refusedCallers, 'caller')}, `;
  return html`<${Section} title="Refused or banned" note=${note}>
    ${
      keys.length === 0
        ? html`<${Empty} title=${isAway ? 'Unknown while the store is away.' : 'No caller is refused at the moment.'}>
            ${!isAway && html`<p>In the last ten minutes: ${callers}${requests}. Keys that were refused, and whose next request would be refused again, appear here within two seconds. Those that have just reached a limit are below.</p>`}
          </${Empty}>`
        : html`<${Table}
            caption="Keys that are refused or banned"
            rows=${keys}
            keyOf=${(key: Refused) => key.id}
            columns=${[
              { title: 'Key', isName: true, cell: (key: Refused) => html`<${CallerName} ...${key} />` },
              { title: 'Plan', cell: (key: Refused) => key.plan ?? '–' },
              {
                title: 'State',
                cell: ({ state, ban }: Refused) =>
                  state === 'banned'
                    ? html`<${Badge} kind="bad">Banned (${ordinal(ban ?? 1)} ban)</${Badge}>`
                    : html`<${Badge} kind="warn">Refused</${Badge}>`,
              },
              { title: 'Window', cell: ({ window }: Refused) => windowText(window) },
              { title: 'Until', cell: ({ until }: Refused) => html`<${Until} at=${until} />` },
              ...(mayHelp
                ? [
                    {
                      title: 'Help',
                      cell: (key: Refused) =>
                        html`<span class="actions">
                          ${key.state === 'banned' && html`<button type="button" aria-label="Lift the ban of ${nameOf(key)}" onClick=${() => help({ ...key, how: 'lift' })}>Lift…</button>`}
                          ${!key.id.startsWith('jwt_') && html`<button type="button" aria-label="Top up ${nameOf(key)}" onClick=${() => help({ ...key, how: 'topup' })}>Top up…</button>`}
                        </span>`,
                    },
                  ]
                : []),
            ]}
          />`
    }
  </${Section}>`;
}

function MostRefusedKeys({ keys, callers }: { keys: readonly MostRefused[]; callers: number }) {
  if (keys.length === 0) return null;
  const note = callers <= keys.length ? null : `The first ${keys.length} of ${plural(callers, 'caller')}.`;
  return html`<${Section} title="Most refused in ten minutes" note=${note}>
    <${Table}
      caption="Keys that were refused most in ten minutes"
      rows=${keys}
      keyOf=${({ id }: MostRefused) => id}
      columns=${[
        { title: 'Key', isName: true, cell: (key: MostRefused) => html`<${CallerName} ...${key} />` },
        { title: 'Plan', cell: ({ plan }: MostRefused) => plan ?? '–' },
        { title: 'Refused', isNumber: true, cell: ({ refused }: MostRefused) => countText(refused) },
        { title: 'Banned', isNumber: true, cell: ({ banned }: MostRefused) => countText(banned) },
      ]}
    />
  </${Section}>`;
}

function NearKeys({ keys, help }: { keys: readonly Near[]; help: (helped: Helped) => void }) {
  const mayHelp = useMay('operator');
  return html`<${Section} title="Near a limit" note="At most a tenth of a window is left, or nothing.">
    ${
      keys.length === 0
        ? html`<${Empty} title="No caller is near a limit." />`
        : html`<${Table}
            caption="Keys that are near a limit"
            rows=${keys}
            keyOf=${(key: Near) => `${key.id} ${key.window}`}
            columns=${[
              { title: 'Key', isName: true, cell: (key: Near) => html`<${CallerName} ...${key} />` },
              { title: 'Plan', cell: ({ plan }: Near) => plan },
              { title: 'Window', cell: ({ window }: Near) => windowText(window) },
              {
                title: 'Used',
                cell: ({ used, limit, window }: Near) =>
                  html`<span class="used"><${Meter} label=${`Used of the ${windowText(window)}`} used=${used} limit=${limit} /> ${countText(used)} of ${countText(limit)}</span>`,
              },
              { title: 'Left', isNumber: true, cell: ({ remaining }: Near) => countText(remaining) },
              { title: 'Resets', cell: ({ resetAt }: Near) => html`<${Until} at=${resetAt} />` },
              ...(mayHelp
                ? [
                    {
                      title: 'Help',
                      cell: (key: Near) =>
                        !key.id.startsWith('jwt_') &&
                        html`<button type="button" aria-label="Top up ${nameOf(key)}" onClick=${() => help({ ...key, how: 'topup' })}>Top up…</button>`,
                    },
                  ]
                : []),
            ]}
          />`
    }
  </${Section}>`;
}

function Gateways({ gateways, isComplete }: { gateways: readonly Gateway[]; isComplete: boolean }) {
  const names = gatewayNames(gateways);
  const versions = new Set(gateways.map(({ versions }) => `${versions.settings} ${versions.plans}`));
  const note = isComplete
    ? versions.size > 1
      ? 'Their settings differ: a reload may be under way.'
      : null
    : 'Only the gateway that serves this page: the others are seen through the store.';
  return html`<${Section} title="Gateways" note=${note}>
    <ul class="cards">
      ${gateways.map((gateway) => html`<${GatewayCard} key=${gateway.id} ...${gateway} title=${names.get(gateway.id)!} />`)}
    </ul>
  </${Section}>`;
}

function GatewayCard(gateway: Gateway & { title: string }) {
  const { title, address, self, ready, draining, store, outage, settings, versions, certificate, upstreams } = gateway;
  const now = useNow();
  const targets = upstreams.flatMap(({ name, targets }) => targets.map((target) => ({ upstream: name, ...target })));
  const down = targets.filter(({ usable }) => !usable);
  const daysLeft = certificate === null ? null : (millisecondsOf(certificate.expiresAt) - now) / 86_400_000;
  return html`<li class="card">
    <div class="card-head">
      <h3>${title}</h3>
      ${
        draining
          ? html`<${Badge} kind="warn">Draining</${Badge}>`
          : ready
            ? html`<${Badge} kind="good">Ready</${Badge}>`
            : html`<${Badge} kind="bad">Not ready</${Badge}>`
      }
    </div>
    <p class="muted">${address}${self ? ' · serves this page' : ''}</p>
    <dl>
      <dt>Store</dt>
      <dd>
        ${store === 'embedded' && html`<${Badge} kind="good">Embedded</${Badge}>`}
        ${store === 'present' && html`<${Badge} kind="good">Present</${Badge}>`}
        ${store === 'away' && html`<${Badge} kind="bad">Away${outage !== null && ` for ${lengthText(outage.lastsMs / 1_000)} so far: ${outage.reason}`}</${Badge}>`}
        ${store === 'never_reached' && html`<${Badge} kind="bad">Never reached</${Badge}>`}
      </dd>
      <dt>Targets</dt>
      <dd>
        ${
          down.length === 0
            ? html`<${Badge} kind="good">${targets.length} of ${targets.length} up</${Badge}>`
            : html`<${Badge} kind="bad">${targets.length - down.length} of ${targets.length} up; down: ${down.map(({ name }) => name).join(', ')}</${Badge}>`
        }
      </dd>
      <dt>Settings</dt>
      <dd>
        ${settings === 'refused' ? html`<${Badge} kind="bad">The changed files are refused; the earlier settings are in force</${Badge}>` : html`<${Badge} kind="good">In force</${Badge}>`}
        <span class="muted"> gateway <code>${versions.settings}</code>, plans <code>${versions.plans}</code></span>
      </dd>
      ${
        certificate !== null &&
        html`<dt>Certificate</dt>
          <dd>
            <${Badge} kind=${daysLeft! < 1 ? 'bad' : daysLeft! < 15 ? 'warn' : 'good'}>${daysLeft! < 0 ? 'Expired' : `Expires in ${plural(Math.floor(daysLeft!), 'day')}`}</${Badge}>
            <span class="muted"> <${Time} at=${certificate.expiresAt} dayOnly=${true} /></span>
          </dd>`
      }
      ${gateway.memory === 'short' && html`<dt>Memory</dt><dd><${Badge} kind="bad">Short: no new connections</${Badge}></dd>`}
      <dt>Load</dt>
      <dd>
        ${plural(gateway.connections, 'connection')}, ${plural(gateway.inFlight, 'request')} in flight${gateway.workers > 1 ? `, ${gateway.workers} workers` : ''}
      </dd>
      <dt>Running</dt>
      <dd>${gateway.version}, for ${lengthText((now - millisecondsOf(gateway.startedAt)) / 1_000)}</dd>
    </dl>
  </li>`;
}

/** The name of each gateway, by its id: its host, with its port if others have the same host. */
export function gatewayNames(
  gateways: readonly Pick<Gateway, 'id' | 'host' | 'address'>[],
): ReadonlyMap<string, string> {
  return new Map(
    gateways.map(({ id, host, address }) => {
      const isAlone = gateways.every((other) => other.id === id || other.host !== host);
      return [id, isAlone ? host : `${host}:${address.split(':').pop()}`];
    }),
  );
}

/** The names of the gateways on a screen that does not show them; a gateway that has started since has none. */
export function useGatewayNames(): ReadonlyMap<string, string> {
  const { data } = useResource<GatewayList>('/admin/gateways');
  return useMemo(() => gatewayNames(data?.gateways ?? []), [data]);
}
