import { useState } from 'preact/hooks';
import { ApiError, isPassing, type Resource, request, useOnce, useRefresh, useResource } from '../api.ts';
import { LiftDialog, TopUpDialog, useUsage } from '../help.ts';
import { html } from '../html.ts';
import { BarChart, type Series } from '../kit/charts.ts';
import { ChangeDialog, Field, settledText } from '../kit/dialog.ts';
import { countText, lengthText, momentText, plural, Time, Until, UtcDay } from '../kit/format.ts';
import { Badge, Page, Section } from '../kit/page.ts';
import { Empty, Problem, Shown } from '../kit/states.ts';
import { Table } from '../kit/table.ts';
import { WindowList } from '../kit/windows.ts';
import { hrefOf, navigate, usePlace } from '../router.ts';
import { useMay } from '../session.ts';
import type {
  Change,
  ChangePage,
  DeprecatedRoute,
  DeprecatedRoutes,
  History,
  InForce,
  Key,
  NewReset,
  Plan,
  Reset,
  ShownKey,
  Usage,
} from '../types.ts';
import { CHANGE_COLUMNS } from './audit.ts';
import { AccessFacts } from './key-access.ts';
import {
  type Changing,
  changeIfSame,
  EndSecretDialog,
  nameOf,
  ResumeDialog,
  RotateDialog,
  type Secret,
  SuspendDialog,
} from './key-dialogs.ts';
import { EditDialog, hasEnded, KeyState, LastFour, pathOf, stateOf } from './key-form.ts';
import { ordinal } from './now.ts';

type DialogName =
  | ('lift' | 'topup' | 'reset' | 'rotate' | 'end-secret')
  | ('suspend' | 'resume' | 'revoke' | 'delete' | 'edit');

/** The key as it was when a dialog was opened: a later reading does not change what the user agrees to. */
interface Opened {
  readonly dialog: DialogName;
  readonly key: Key | null;
  readonly etag: string | null;
  /** That is to be ended; null for the other dialogs. */
  readonly secret: Secret | null;
}

type Open = (dialog: DialogName, secret?: Secret) => void;

/** How often counts are read again, and what changes slowly, in milliseconds. */
const COUNTS_MS = 5_000;
const REST_MS = 60_000;

/** All about one key, or about a token caller (`jwt_…`), of which only the counts and the history are known. */
export function KeyScreen({ id }: { id: string }) {
  const hasTokens = id.startsWith('jwt_');
  const path = pathOf(id);
  const plan = usePlace().query.get('plan');
  const key = useResource<ShownKey>(hasTokens ? null : path);
  const plans = useResource<InForce>('/admin/plans');
  const usage = useUsage(id, plan);
  const hours = useResource<History>(`${path}/history?step=hour`);
  const days = useResource<History>(`${path}/history?step=day`);
  const routes = useResource<DeprecatedRoutes>(`${path}/deprecations`);
  const changes = useResource<ChangePage>(`/admin/audit?key=${encodeURIComponent(id)}&limit=10`);
  // The screen shows an outage once, not in each section.
  const outage = [key, usage, hours, days, routes, changes].find(
    ({ error }) => error !== null && isPassing(error),
  )?.error;
  const [opened, setOpened] = useState<Opened | null>(null);
  const isGone = key.error?.status === 404;
  const readCounts = () => Promise.all([key.reload(), usage.reload()]);
  const readRest = () => Promise.all([hours, days, routes, changes].map(({ reload }) => reload()));
  const readAll = () => void Promise.all([readCounts(), readRest()]);
  useRefresh(() => !isGone && readCounts(), COUNTS_MS);
  useRefresh(() => !isGone && readRest(), REST_MS);
  const name = key.data?.name ?? null;
  const open: Open = (dialog, secret) => setOpened({ dialog, key: key.data, etag: key.etag, secret: secret ?? null });
  if (isGone) {
    return html`<${Page} title=${id}>
      <${Problem} error=${new ApiError(404, 'not_found', 'There is no key with this id. It may have been deleted.')} />
      <p class="actions"><a class="button" href=${hrefOf('/keys')}>All keys</a> <a class="button" href=${auditHref(id)}>Its records in Audit</a></p>
    </${Page}>`;
  }
  if (outage && (hasTokens ? hours : key).data === null) {
    return html`<${Page} title=${id}><${Problem} error=${outage} /></${Page}>`;
  }
  return html`<${Page}
    title=${name ?? id}
    beside=${key.data !== null && html`<${KeyActions} of=${key.data} open=${open} />`}
  >
    ${outage && html`<${Problem} error=${outage} />`}
    <${Head} id=${id} keyResource=${calm(key)} usage=${usage.data} />
    ${hasTokens && html`<${PlanOfTokens} id=${id} plan=${plan} plans=${plans.data?.plans ?? []} />`}
    ${
      (!hasTokens || plan !== null) &&
      html`<${Limits} usage=${calm(usage)} plan=${plans.data?.plans.find((one) => one.name === usage.data?.plan)} isLive=${key.data !== null && stateOf(key.data) !== 'revoked'} open=${open} />`
    }
    <${Section} title="Use" note="Hours are in your time zone, days are those of UTC.">
      <div class="charts">
        <${Shown} of=${calm(hours)} what="the hours">${(data: History) => html`<${Used} history=${data} ...${HOURS} />`}</${Shown}>
        <${Shown} of=${calm(days)} what="the days">${(data: History) => html`<${Used} history=${data} ...${DAYS} />`}</${Shown}>
      </div>
    </${Section}>
    ${
      key.data !== null &&
      html`<div class="charts"><${About} of=${key.data} /><${Secrets} of=${key.data} open=${open} /></div>`
    }
    <${Deprecated} routes=${calm(routes)} />
    <${Changes} id=${id} changes=${calm(changes)} />
    ${
      opened !== null &&
      html`<${Dialogs}
        ...${opened}
        of=${opened.key}
        id=${id}
        name=${opened.key?.name ?? null}
        usage=${usage.data}
        plans=${plans.data?.plans ?? null}
        onClose=${() => setOpened(null)}
        onChanged=${readAll}
      />`
    }
  </${Page}>`;
}

/** The resource without an error that the screen shows once for all resources. */
function calm<T>(resource: Resource<T>): Resource<T> {
  return resource.error !== null && isPassing(resource.error) ? { ...resource, error: null } : resource;
}

function auditHref(id: string): string {
  return hrefOf(`/audit?key=${encodeURIComponent(id)}`);
}

function KeyActions({ of: key, open }: { of: Key; open: Open }) {
  const [mayChange, mayDelete] = [useMay('operator'), useMay('admin')];
  const state = stateOf(key);
  return html`<span class="actions">
    ${mayChange && state !== 'revoked' && html`<button type="button" onClick=${() => open('edit')}>Edit…</button>`}
    ${mayChange && state === 'active' && html`<button type="button" onClick=${() => open('suspend')}>Suspend…</button>`}
    ${mayChange && state !== 'revoked' && key.suspended !== undefined && html`<button type="button" onClick=${() => open('resume')}>Resume…</button>`}
    ${mayChange && state !== 'revoked' && html`<button type="button" onClick=${() => open('revoke')}>Revoke…</button>`}
    ${mayDelete && hasEnded(key) && html`<button type="button" onClick=${() => open('delete')}>Delete…</button>`}
  </span>`;
}

/** Its state, id, plan and owner in one line. */
function Head({
  id,
  keyResource: { data: key, error, reload },
  usage,
}: {
  id: string;
  keyResource: Resource<Key>;
  usage: Usage | null;
}) {
  const ban = usage?.ban ?? null;
  const plan = key?.plan ?? usage?.plan;
  return html`<p class="actions key-head">
      ${key !== null && (ban === null || stateOf(key) !== 'active') && html`<${KeyState} of=${key} isBanned=${false} />`}
      ${ban !== null && html`<${Badge} kind="bad">Banned until <${Until} at=${ban.until} /></${Badge}>`}
      ${key?.name && html`<code>${id}</code>`}
      ${plan !== undefined && html`<span>plan <strong>${plan}</strong></span>`}
      ${key?.owner && html`<span class="clamp"><bdi>${key.owner}</bdi></span>`}
    </p>
    ${error !== null && html`<${Problem} error=${error} retry=${reload} />`}`;
}

function About({ of: key }: { of: Key }) {
  const own = Object.entries(key.ownLimits).map(([window, limit]) => `${countText(limit!)} a ${window}`);
  return html`<${Section} title="About it">
    <dl class="facts panel">
      <dt>Name</dt>
      <dd><bdi>${key.name ?? '–'}</bdi></dd>
      <dt>Owner</dt>
      <dd><bdi>${key.owner ?? '–'}</bdi></dd>
      <dt>Created</dt>
      <dd><${Time} at=${key.createdAt} dayOnly=${true} /></dd>
      ${key.revokedAt !== null && html`<dt>Revoked</dt><dd><${Time} at=${key.revokedAt} /></dd>`}
      ${key.suspended !== undefined && html`<dt>Suspended</dt><dd><${SuspendedText} ...${key.suspended} /></dd>`}
      <dt>Expires</dt>
      <dd>${key.expiresAt === null ? 'never' : hasEnded(key) ? html`<${Time} at=${key.expiresAt} />` : html`<${Until} at=${key.expiresAt} />`}</dd>
      ${key.lastUsedOn !== undefined && html`<dt>Last used</dt><dd>${key.lastUsedOn === null ? 'not within 92 days' : html`<${UtcDay} of=${key.lastUsedOn} />`}</dd>`}
      <dt>Own limits</dt>
      <dd>${own.join(', ') || 'none'}</dd>
      <${AccessFacts} of=${key} />
      ${key.notes !== null && html`<dt>Notes</dt><dd class="notes"><bdi>${key.notes}</bdi></dd>`}
    </dl>
  </${Section}>`;
}

function SuspendedText({ since, until, reason }: NonNullable<Key['suspended']>) {
  return html`<${Time} at=${since} />, ${until === null ? 'until it is resumed' : html`until <${Until} at=${until} />`}
    ${reason !== null && html`<br /><bdi>${reason}</bdi>`}`;
}

function PlanOfTokens({ id, plan, plans }: { id: string; plan: string | null; plans: readonly Plan[] }) {
  const choose = (event: Event) => {
    const chosen = (event.target as HTMLSelectElement).value;
    navigate(`/keys/${encodeURIComponent(id)}${chosen && `?plan=${encodeURIComponent(chosen)}`}`, 'replace');
  };
  return html`<div class="panel">
    <${Field} id="token-plan" label="Plan" hint="This caller has tokens, and only they name its plan. Choose it to see the limits.">
      <select id="token-plan" value=${plan ?? ''} onChange=${choose} aria-describedby="token-plan-hint">
        <option value="">Choose a plan…</option>
        ${[...new Set([...plans.map(({ name }) => name), ...(plan === null ? [] : [plan])])].map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select>
    </${Field}>
  </div>`;
}

function Limits({
  usage,
  plan,
  isLive,
  open,
}: {
  usage: Resource<Usage>;
  plan: Plan | undefined;
  /** A key that is not revoked: only its usage can be topped up and reset. */
  isLive: boolean;
  open: (dialog: DialogName) => void;
}) {
  const mayHelp = useMay('operator');
  const note = plan?.enforce === false ? 'This plan is only watched: it counts requests, but refuses none.' : null;
  return html`<${Section} title="Limits" note=${note}>
    <${Shown} of=${usage} what="the limits">
      ${(data: Usage) => html`<div class="panel stack">
        <${WindowList} of=${data.windows} />
        <${Strikes} of=${data} plan=${plan} />
        ${
          mayHelp &&
          html`<p class="actions">
            ${data.ban !== null && html`<button type="button" class="primary" onClick=${() => open('lift')}>Lift the ban…</button>`}
            ${isLive && html`<button type="button" onClick=${() => open('topup')}>Top up…</button>`}
            ${isLive && html`<button type="button" onClick=${() => open('reset')}>Reset usage…</button>`}
          </p>`
        }
        ${
          data.shadow !== undefined &&
          html`<div class="watched stack">
            <h3>Watched limits, which refuse no request</h3>
            <${WindowList} of=${data.shadow.windows} />
            <p>${plural(data.shadow.strikes, 'strike')}${data.shadow.ban !== null && html`, would be banned until <${Until} at=${data.shadow.ban.until} />`}</p>
          </div>`
        }
      </div>`}
    </${Shown}>
  </${Section}>`;
}

function Strikes({ of: { strikes, ban, rung, nextBanSeconds }, plan }: { of: Usage; plan: Plan | undefined }) {
  if (nextBanSeconds === null) return html`<p class="muted">This plan has no bans.</p>`;
  const rule = plan?.bans ?? null;
  return html`<dl class="facts">
    ${
      ban === null &&
      html`<dt>Strikes</dt>
        <dd>
          ${rule === null ? countText(strikes) : `${countText(strikes)} of ${countText(rule.after)}`}
          ${rule !== null && html` <span class="muted">within ${lengthText(rule.withinMs / 1_000)}; each refusal is one</span>`}
        </dd>`
    }
    <dt>Ban</dt>
    <dd>
      ${
        ban === null
          ? html`none now${rung > 0 && html` <span class="muted">its ${ordinal(rung)} ban is not forgotten yet</span>`}`
          : html`<${Badge} kind="bad">${ordinal(ban.number)} ban, until <${Until} at=${ban.until} /></${Badge}>
              <p class="muted">${rule !== null && `Banned for ${plural(rule.after, 'refusal')} within ${lengthText(rule.withinMs / 1_000)}. `}Requests during a ban do not lengthen it.</p>`
      }
    </dd>
    <dt>Next ban</dt>
    <dd>the ${ordinal(rung + 1)}, would last ${lengthText(nextBanSeconds)}</dd>
  </dl>`;
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

function Secrets({ of: key, open }: { of: ShownKey; open: Open }) {
  const mayRotate = useMay('operator') && !hasEnded(key);
  const mayEnd = useMay('operator') && stateOf(key) !== 'revoked' && key.secrets.length > 1;
  type Shown = ShownKey['secrets'][number];
  return html`<${Section} title="Secrets" note="The secrets that work, by their last four characters.">
    ${
      key.secrets.length === 0
        ? html`<${Empty} title="No secret works." />`
        : html`<${Table}
            caption="Secrets that work"
            rows=${key.secrets}
            keyOf=${({ createdAt, last4 }: Shown) => `${createdAt} ${last4}`}
            columns=${[
              {
                title: 'Secret',
                isName: true,
                cell: (secret: Shown) => html`<${LastFour} of=${{ secrets: [secret] }} />`,
              },
              { title: 'Created', cell: ({ createdAt }: Shown) => html`<${Time} at=${createdAt} dayOnly=${true} />` },
              {
                title: 'Last used',
                cell: ({ lastUsedOn }: Shown) =>
                  lastUsedOn === null ? 'not known' : html`<${UtcDay} of=${lastUsedOn} />`,
              },
              {
                title: 'Ends',
                cell: (
                  secret: Shown,
                ) => html`${secret.expiresAt === null ? 'with the key' : html`<${Until} at=${secret.expiresAt} />`}
                  ${mayEnd && html` <button type="button" aria-label=${`End the secret ${secret.last4 ?? 'known by its hash'}`} onClick=${() => open('end-secret', secret)}>End…</button>`}`,
              },
            ]}
          />`
    }
    ${mayRotate && html`<p class="actions after"><button type="button" onClick=${() => open('rotate')}>Rotate…</button></p>`}
  </${Section}>`;
}

function Deprecated({ routes }: { routes: Resource<DeprecatedRoutes> }) {
  return html`<${Section} title="Deprecated routes that it calls" note="In the last 30 days.">
    <${Shown} of=${routes} what="the deprecated routes">
      ${({ routes }: DeprecatedRoutes) =>
        routes.length === 0
          ? html`<${Empty} title="It calls no deprecated route." />`
          : html`<${Table}
              caption="Deprecated routes that this key calls"
              rows=${routes}
              keyOf=${({ route, methods }: DeprecatedRoute) => `${methods} ${route}`}
              columns=${[
                {
                  title: 'Route',
                  isName: true,
                  cell: ({ route, methods }: DeprecatedRoute) => html`<code>${methods.join(', ')} ${route}</code>`,
                },
                { title: 'Calls', isNumber: true, cell: ({ calls }: DeprecatedRoute) => countText(calls) },
                { title: 'Last call', cell: ({ lastDay }: DeprecatedRoute) => html`<${UtcDay} of=${lastDay} />` },
                {
                  title: 'Ends',
                  cell: ({ sunset }: DeprecatedRoute) =>
                    sunset === null ? 'not set' : html`<${Until} at=${sunset} />`,
                },
                {
                  title: 'Successor',
                  cell: ({ successor }: DeprecatedRoute) => html`<code>${successor ?? '–'}</code>`,
                },
              ]}
            />`}
    </${Shown}>
  </${Section}>`;
}

/** @param changes the first page, which may be empty although the record has older ones */
function Changes({ id, changes }: { id: string; changes: Resource<ChangePage> }) {
  const all = html`<a href=${auditHref(id)}>All in Audit</a>`;
  return html`<${Section} title="Last changes" note=${all}>
    <${Shown} of=${changes} what="the changes">
      ${({ changes, cursor }: ChangePage) =>
        changes.length === 0
          ? html`<${Empty} title=${cursor === null ? 'No change of this key is recorded.' : 'The latest changes do not concern this key. Audit goes further back.'} />`
          : html`<${Table}
              caption="Last changes of this key"
              rows=${changes}
              keyOf=${(change: Change) => change.id}
              columns=${CHANGE_COLUMNS}
            />`}
    </${Shown}>
  </${Section}>`;
}

function Dialogs({
  dialog,
  of: key,
  etag,
  secret,
  id,
  name,
  usage,
  plans,
  onClose,
  onChanged,
}: Omit<Changing, 'of'> & {
  dialog: DialogName;
  of: Key | null;
  secret: Secret | null;
  id: string;
  name: string | null;
  usage: Usage | null;
  plans: readonly Plan[] | null;
}) {
  if (dialog === 'lift')
    return html`<${LiftDialog} of=${{ how: 'lift', id, name, plan: usage?.plan }} onClose=${onClose} onChanged=${onChanged} />`;
  if (dialog === 'topup') {
    const spent = Object.entries(usage?.windows ?? {}).find(([, { remaining }]) => remaining === 0)?.[0];
    return html`<${TopUpDialog} of=${{ how: 'topup', id, name, window: spent }} onClose=${onClose} onChanged=${onChanged} />`;
  }
  if (key === null) return null;
  const changing = { of: key, etag, onClose, onChanged };
  if (dialog === 'reset') return html`<${ResetDialog} ...${changing} usage=${usage} />`;
  if (dialog === 'rotate') return html`<${RotateDialog} ...${changing} />`;
  if (dialog === 'end-secret') return html`<${EndSecretDialog} ...${changing} secret=${secret} />`;
  if (dialog === 'suspend') return html`<${SuspendDialog} ...${changing} />`;
  if (dialog === 'resume') return html`<${ResumeDialog} ...${changing} />`;
  if (dialog === 'revoke') return html`<${RevokeDialog} ...${changing} />`;
  if (dialog === 'delete') return html`<${DeleteDialog} ...${changing} />`;
  return html`<${EditDialog} ...${changing} plans=${plans} />`;
}

function ResetDialog({ of: key, onClose, onChanged, usage }: Changing & { usage: Usage | null }) {
  const once = useOnce();
  const [windows] = useState(() =>
    Object.entries(usage?.windows ?? {}).filter(([, { limit }]) => limit !== 'unlimited'),
  );
  const act = async (form: FormData) => {
    const chosen = form.getAll('windows') as NonNullable<NewReset['windows']>[number][];
    const body: NewReset = { windows: chosen };
    if (chosen.length === 0) throw new ApiError(0, 'none', 'Choose at least one window.');
    const path = `${pathOf(key.id)}/usage/reset`;
    const { status, data } = await request<Reset>('POST', path, { body, headers: once(body) });
    onChanged();
    const ban = data.ban === null ? '' : ` Its ban stays until ${momentText(data.ban.until)}: lift it to help at once.`;
    return `The usage of ${nameOf(key)} was reset: ${data.windows.join(', ')}.${ban}${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Reset the usage of ${nameOf(key)}`} action="Reset usage" act=${act} onClose=${onClose}>
    <p>What these windows have counted is set to nothing, and the strikes are cleared. Top-ups and a ban stay.</p>
    <fieldset>
      <legend>Windows</legend>
      ${windows.map(
        ([window, { used, limit }]) =>
          html`<label class="check" key=${window}><input type="checkbox" name="windows" value=${window} defaultChecked=${true} /> ${window}: ${countText(used)} of ${countText(limit)} used</label>`,
      )}
    </fieldset>
  </${ChangeDialog}>`;
}

function RevokeDialog(changing: Changing) {
  const { of: key, onClose, onChanged } = changing;
  const act = async () => {
    const { status } = await changeIfSame<Key>(changing, 'DELETE', pathOf(key.id));
    onChanged();
    return `${nameOf(key)} is revoked. Every gateway refuses it within a second.${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Revoke ${nameOf(key)}`} action="Revoke for good" isDangerous=${true} act=${act} onClose=${onClose}>
    <p>All secrets of <code>${key.id}</code>${key.owner !== null && html` of <bdi>${key.owner}</bdi>`} end at once and for good: each of its requests gets a 401. This cannot be undone. To change a secret without an interruption, rotate it instead.</p>
  </${ChangeDialog}>`;
}

function DeleteDialog(changing: Changing) {
  const { of: key, onClose } = changing;
  const act = async () => {
    const { status } = await changeIfSame<unknown>(changing, 'POST', `${pathOf(key.id)}/delete`);
    navigate('/keys');
    return `${nameOf(key)} (${key.id}) is deleted.${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Delete ${nameOf(key)}`} action="Delete for good" isDangerous=${true} act=${act} onClose=${onClose}>
    <p>Name, owner, notes, counts and ban of <code>${key.id}</code> are removed for good. Audit keeps its records of the key.</p>
  </${ChangeDialog}>`;
}
