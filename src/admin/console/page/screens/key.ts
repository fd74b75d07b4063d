import { useState } from 'preact/hooks';
import { ApiError, isPassing, type Resource, useRefresh, useResource } from '../api.ts';
import { LiftDialog, ResetDialog, TopUpDialog, useUsage } from '../help.ts';
import { html } from '../html.ts';
import { auditHref, CustomerLink, nameOf, pathOf } from '../kit/callers.ts';
import { ChangeDialog, Field, settledText } from '../kit/dialog.ts';
import { countText, Time, Until, UtcDay } from '../kit/format.ts';
import { Badge, Page, Section } from '../kit/page.ts';
import { calm, Empty, Problem, Shown } from '../kit/states.ts';
import { Table } from '../kit/table.ts';
import { Use, useHistories } from '../kit/use.ts';
import { Limits } from '../limits.ts';
import { decoded, hrefOf, navigate, usePlace } from '../router.ts';
import { useMay } from '../session.ts';
import type { ChangePage, DeprecatedRoute, DeprecatedRoutes, InForce, Key, Plan, ShownKey, Usage } from '../types.ts';
import { LastChanges } from './changes.ts';
import { AccessFacts } from './key-access.ts';
import { type Changing, changeIfSame, EndSecretDialog, MoveDialog, RotateDialog, type Secret } from './key-dialogs.ts';
import { EditDialog, hasEnded, KeyState, LastFour, stateOf } from './key-form.ts';
import { ResumeDialog, SuspendDialog, SuspendedText } from './suspension.ts';

type DialogName =
  | ('lift' | 'topup' | 'reset' | 'rotate' | 'end-secret')
  | ('suspend' | 'resume' | 'revoke' | 'delete' | 'edit' | 'move');

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

/** `/keys/ID`: all about one key, or about a token caller (`jwt_…`), of which only the counts and the history are known. */
export function KeyScreen({ rest }: { rest: string }) {
  const id = decoded(rest);
  const hasTokens = id.startsWith('jwt_');
  const path = pathOf(id);
  const plan = usePlace().query.get('plan');
  const key = useResource<ShownKey>(hasTokens ? null : path);
  const plans = useResource<InForce>('/admin/plans');
  const usage = useUsage(id, plan);
  const { hours, days } = useHistories(path);
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
      html`<${Limits} of=${{ id, name }} usage=${calm(usage)} plan=${plans.data?.plans.find((one) => one.name === usage.data?.plan)} isLive=${key.data !== null && stateOf(key.data) !== 'revoked'} open=${open} />`
    }
    <${Use} hours=${hours} days=${days} usage=${usage.data} />
    ${
      key.data !== null &&
      html`<div class="charts"><${About} of=${key.data} /><${Secrets} of=${key.data} open=${open} /></div>`
    }
    <${Deprecated} routes=${calm(routes)} />
    <${LastChanges} id=${id} what="key" changes=${calm(changes)} />
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

function KeyActions({ of: key, open }: { of: Key; open: Open }) {
  const [mayChange, mayDelete] = [useMay('operator'), useMay('admin')];
  const state = stateOf(key);
  return html`<span class="actions">
    ${mayChange && state !== 'revoked' && html`<button type="button" onClick=${() => open('edit')}>Edit…</button>`}
    ${mayChange && state !== 'revoked' && html`<button type="button" onClick=${() => open('move')}>Move…</button>`}
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
      ${key?.customer && html`<span>of <${CustomerLink} ...${key.customer} /></span>`}
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
      ${key.customer !== undefined && html`<dt>Customer</dt><dd><${CustomerLink} ...${key.customer} /></dd>`}
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
    return html`<${TopUpDialog} of=${{ how: 'topup', id, name, window: spent, customer: key?.customer }} onClose=${onClose} onChanged=${onChanged} />`;
  }
  if (key === null) return null;
  const changing = { of: key, etag, onClose, onChanged };
  if (dialog === 'reset') return html`<${ResetDialog} ...${changing} usage=${usage} />`;
  if (dialog === 'move') return html`<${MoveDialog} ...${changing} plans=${plans} />`;
  if (dialog === 'rotate') return html`<${RotateDialog} ...${changing} />`;
  if (dialog === 'end-secret') return html`<${EndSecretDialog} ...${changing} secret=${secret} />`;
  if (dialog === 'suspend') return html`<${SuspendDialog} ...${changing} />`;
  if (dialog === 'resume') return html`<${ResumeDialog} ...${changing} />`;
  if (dialog === 'revoke') return html`<${RevokeDialog} ...${changing} />`;
  if (dialog === 'delete') return html`<${DeleteDialog} ...${changing} />`;
  return html`<${EditDialog} ...${changing} plans=${plans} />`;
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
