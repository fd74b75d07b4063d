import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks';
import { Act } from '../kit/act.tsx';
import { CallerChoice, useNamedCaller } from '../kit/caller-field.tsx';
import { callerHref, isCallerId } from '../kit/callers.tsx';
import { CopyIcon } from '../kit/copy.tsx';
import { requestCommand } from '../kit/curl.ts';
import { type Column, Lines, Table } from '../kit/data-table.tsx';
import { type Filter, FilterBar, filtersIn } from '../kit/filters.tsx';
import { countText, plural, rateText, Time } from '../kit/format.tsx';
import { useNames } from '../kit/names.ts';
import { Badge, Page } from '../kit/page.tsx';
import { Aged, Good } from '../kit/seen.tsx';
import { Banner, Empty, Loading } from '../kit/states.tsx';
import { VERDICTS, VerdictBadge } from '../kit/verdict-badge.tsx';
import { hrefOf, usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { useEvents, useResource } from '../requests.ts';
import type { Gateway, GatewayList, RequestsEvent } from '../types.ts';
import { gatewayNames } from './gateways-screen.tsx';

/** Those of `GET /admin/events/requests`. */
const FILTERS: readonly Filter[] = [
  { name: 'plan', label: 'Plan', as: 'plan' },
  { name: 'key', label: 'Key', as: 'caller' },
  { name: 'route', label: 'Route', placeholder: 'Route: /pets/{id}' },
  {
    name: 'verdict',
    label: 'Verdict',
    as: 'choice',
    options: Object.entries(VERDICTS).map(([name, [title]]) => [name, title] as const),
  },
  {
    name: 'status',
    label: 'Status',
    placeholder: 'Status: 429, 5xx',
    pattern: '[1-5]([0-9][0-9]|xx)',
    title: 'A status such as 429, or a class such as 5xx',
  },
];

/** Whether a text of the address is a filter: the admin API would refuse another one. */
function isValid(name: string, text: string): boolean {
  return name === 'verdict' ? text in VERDICTS : name !== 'status' || /^[1-5](\d\d|xx)$/.test(text);
}

/** The requests as they end: to see what a caller sends who is on the phone. */
export function Live() {
  const caller = useNamedCaller();
  const given = filtersIn(usePlace().query, FILTERS);
  given.delete('key');
  const asked = new URLSearchParams([...given].filter(([name, text]) => isValid(name, text)));
  if (caller.id !== null) asked.set('key', caller.id);
  const filter = asked.toString();
  return (
    <Page title="Requests">
      <FilterBar label="Filter the requests" filters={FILTERS} />
      {caller.isSettled ? <Tail key={filter} filter={filter} /> : <CallerChoice of={caller} />}
    </Page>
  );
}

/** Maximum rows in the page, and maximum that wait while the tail is paused. */
const MAX_ROWS = 200;
/** How often a screen reader announces how many requests came, in milliseconds. */
const SPEAK_MS = 10_000;

type Row = RequestsEvent['requests'][number] & { readonly number: number };

interface Rows {
  /** Newest first, as are those that wait. */
  readonly rows: readonly Row[];
  readonly waiting: readonly Row[];
  /** How many came, which numbers them. */
  readonly came: number;
  readonly skipped: number;
  readonly isPaused: boolean;
  /** The focus is in the table, so its rows stay where they are. */
  readonly isHeld: boolean;
}

type Change =
  | ({ readonly kind: 'come' } & RequestsEvent)
  | { readonly kind: 'pause' | 'hold'; readonly on: boolean }
  | { readonly kind: 'clear' };

const NONE: Rows = { rows: [], waiting: [], came: 0, skipped: 0, isPaused: false, isHeld: false };

function changed(state: Rows, change: Change): Rows {
  if (change.kind === 'clear') return { ...state, rows: [], waiting: [], skipped: 0 };
  let { waiting, came, skipped, isPaused, isHeld } = state;
  if (change.kind === 'come') {
    const sorted = [...change.requests].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
    waiting = [...sorted.map((request) => ({ ...request, number: came++ })).reverse(), ...waiting];
    skipped += change.skipped;
  } else if (change.kind === 'pause') isPaused = change.on;
  else isHeld = change.on;
  const next = { ...state, came, isPaused, isHeld };
  if (isPaused || isHeld) {
    skipped += Math.max(0, waiting.length - MAX_ROWS);
    return { ...next, skipped, waiting: waiting.slice(0, MAX_ROWS) };
  }
  return { ...next, skipped, rows: [...waiting, ...state.rows].slice(0, MAX_ROWS), waiting: [] };
}

function Tail({ filter }: { filter: string }) {
  const [state, change] = useReducer(changed, NONE);
  const fleet = ifKnown(useResource<GatewayList>('/admin/gateways').reading)?.gateways ?? NO_GATEWAYS;
  const names = useNames(state.rows.map(({ consumerId }) => consumerId));
  const columns = useMemo(() => columnsOf(fleet, names), [fleet, names]);
  const [isStopped, setStopped] = useState(false);
  const [isAway, setAway] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  const path = `/admin/events/requests${filter === '' ? '' : `?${filter}`}`;
  const { state: stream, heard } = useEvents(isStopped ? null : path, ['requests', 'store'], (name, data) => {
    if (name === 'requests') change({ kind: 'come', ...(data as RequestsEvent) });
    else if (name === 'store') setAway((data as { state: string }).state === 'away');
    else setStopped(true);
  });
  const { rows, waiting, skipped, isPaused, isHeld } = state;
  const leave = () => {
    // In a window that loses the focus, its element stays the active one, and the rows stay.
    requestAnimationFrame(() => {
      if (frame.current?.contains(document.activeElement) === false) change({ kind: 'hold', on: false });
    });
  };
  return (
    <section aria-label="Requests">
      <div class="row spread before">
        <p>
          {isStopped ? (
            <Badge kind="plain">Stopped</Badge>
          ) : heard.state !== 'known' ? (
            <Badge kind="plain">Connecting…</Badge>
          ) : stream !== 'open' ? (
            <Badge kind="bad">Connection lost, trying again</Badge>
          ) : isPaused ? (
            <Badge kind="warn">Paused</Badge>
          ) : isHeld ? (
            <Badge kind="warn">Held while the focus is in the table</Badge>
          ) : (
            <Good of={heard}>Live</Good>
          )}{' '}
          <span class="muted">
            {[
              plural(rows.length, 'request'),
              ...(isPaused || isHeld || waiting.length > 0 ? [`${countText(waiting.length)} waiting`] : []),
              ...(skipped > 0 ? [`skipped ${countText(skipped)}`] : []),
            ].join(' · ')}
          </span>
        </p>
        <div class="row">
          {isStopped ? (
            <Act text="Start again" kind="primary" on={() => setStopped(false)} />
          ) : (
            <Act text={isPaused ? 'Resume' : 'Pause'} on={() => change({ kind: 'pause', on: !isPaused })} />
          )}
          <Act text="Clear" on={() => change({ kind: 'clear' })} />
        </div>
      </div>
      <Spoken came={state.came} />
      {isStopped && (
        <p class="state">
          The tail has stopped. It does so by itself after 10 minutes, so that a forgotten page costs nothing.
        </p>
      )}
      {!isStopped && stream === 'lost' && (
        <p class="state">
          The gateway may be restarting. It serves at most 20 streams at once: if this lasts, close other consoles.
        </p>
      )}
      {isAway && (
        <Banner title="The store is away">
          <p>Only requests of the gateway that serves this page are shown until it is back.</p>
        </Banner>
      )}
      {skipped > 0 && (
        <p class="hint">Skipped requests came faster than a tail shows them. Filter to see all that matter.</p>
      )}
      {rows.length > 0 && heard.state === 'known' ? (
        <div ref={frame} class="tail" onFocusIn={() => change({ kind: 'hold', on: true })} onFocusOut={leave}>
          <Aged of={heard}>
            <Table
              caption="Requests, newest first"
              rows={rows}
              keyOf={({ number }: Row) => String(number)}
              columns={columns}
            />
          </Aged>
        </div>
      ) : (
        !isStopped &&
        (stream === 'connecting' ? (
          <Loading what="requests" />
        ) : (
          stream === 'open' && (
            <Empty title={filter === '' ? 'No request yet.' : 'No request that matches yet.'}>
              <p>Requests appear within two seconds after they end, without their keys, queries and bodies.</p>
            </Empty>
          )
        ))
      )}
    </section>
  );
}

type Names = ReadonlyMap<string, string | null>;

/** The same list at each drawing. */
const NO_GATEWAYS: readonly Gateway[] = [];

const columnsOf = (fleet: readonly Gateway[], names: Names): readonly Column<Row>[] => [
  {
    title: 'Time',
    cell: ({ at, gateway }) => (
      <Lines note={gatewayNames(fleet).get(gateway) ?? gateway}>
        <Time at={at} />
      </Lines>
    ),
  },
  {
    title: 'Request',
    isName: true,
    cell: ({ method, path, route, gateway }) => {
      const { address } = fleet.find(({ id }) => id === gateway) ?? {};
      return (
        <span class="lines">
          <code>
            {method} <bdi>{path ?? '(not readable)'}</bdi>
          </code>
          <span class="muted copy-id">
            {route ?? 'no route'}
            {path !== null && address !== undefined && (
              <CopyIcon what="as curl" text={requestCommand(method, address + path)} />
            )}
          </span>
        </span>
      );
    },
  },
  {
    title: 'Caller',
    cell: ({ consumerId, plan, clientAddress }) => (
      <Lines note={consumerId === null ? 'not known' : `${plan === null ? '' : `${plan}, `}${clientAddress}`}>
        {consumerId === null ? (
          <span>{clientAddress}</span>
        ) : isCallerId(consumerId) ? (
          <a href={callerHref(consumerId, plan)}>
            {names.get(consumerId) ? <bdi class="clamp">{names.get(consumerId)}</bdi> : <code>{consumerId}</code>}
          </a>
        ) : (
          <code>{consumerId}</code>
        )}
      </Lines>
    ),
  },
  {
    title: 'Verdict',
    cell: ({ verdict, window, code, requestId, units = {} }) => (
      <span class="lines">
        <VerdictBadge verdict={verdict} window={window} />
        {code !== null && (
          <a href={hrefOf(`/explain/${encodeURIComponent(requestId)}`)} aria-label={`Explain ${requestId}`}>
            Explain
          </a>
        )}
        {verdict === 'admitted' &&
          code === null &&
          Object.entries(units).map(([unit, { reserved, settled }]) => (
            <span class="muted" key={unit}>
              paid {countText(settled)} {unit}, {countText(reserved)} in advance
            </span>
          ))}
      </span>
    ),
  },
  {
    title: 'Status',
    cell: ({ status, code }) => (
      <Lines note={code !== null && <code>{code}</code>}>
        <span class={status >= 500 ? 'bad' : status >= 400 ? 'warn' : ''}>{status}</span>
      </Lines>
    ),
  },
  { title: 'Took', isNumber: true, cell: ({ totalMs }) => `${rateText(totalMs)} ms` },
];

/** Announces how many requests came, at most every 10 s: the table itself would flood a screen reader. */
function Spoken({ came }: { came: number }) {
  const [text, setText] = useState('');
  const latest = useRef(came);
  latest.current = came;
  useEffect(() => {
    let before = latest.current;
    const timer = setInterval(() => {
      const more = latest.current - before;
      before = latest.current;
      setText(more === 0 ? '' : `${plural(more, 'request')} in the last 10 seconds`);
    }, SPEAK_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <p class="hidden" role="status">
      {text}
    </p>
  );
}
