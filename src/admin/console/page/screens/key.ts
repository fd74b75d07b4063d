import { useState } from 'preact/hooks';
import { ApiError, isPassing, useRefresh, useResource } from '../api.ts';
import { html } from '../html.ts';
import { auditHref, CustomerLink, pathOf } from '../kit/callers.ts';
import { Field } from '../kit/dialog.ts';
import { Time } from '../kit/format.ts';
import { later } from '../kit/later.ts';
import { MoreMenu } from '../kit/menu.ts';
import { Page } from '../kit/page.ts';
import { calm, Problem } from '../kit/states.ts';
import { UseSection, useUse } from '../kit/use.ts';
import { Limits, useUsage } from '../limits.ts';
import { decoded, hrefOf, navigate, usePlace } from '../router.ts';
import { useMay } from '../session.ts';
import type { ChangePage, DeprecatedRoutes, InForce, Key, Plan, RefusalsOfCaller, ShownKey, Usage } from '../types.ts';
import { CallerCard } from './caller-card.ts';
import { hasEnded, KeyState, SuspendedText, stateOf } from './caller-state.ts';
import { actorText, LastChanges } from './changes.ts';
import { About, Deprecated, Secrets } from './key-details.ts';
import { LastRefusals } from './last-refusals.ts';
import type { KeyDialogName } from './opened-key-dialog.ts';

const OpenedKeyDialog = later(async () => (await import('./opened-key-dialog.ts')).OpenedKeyDialog);

type Secret = Key['secrets'][number];

/** The key as it was when a dialog was opened: a later reading does not change what the user agrees to. */
interface Opened {
  readonly dialog: KeyDialogName;
  readonly key: Key | null;
  readonly etag: string | null;
  /** That is to be ended; null for the other dialogs. */
  readonly secret: Secret | null;
}

type Open = (dialog: KeyDialogName, secret?: Secret) => void;

/** How often counts, refusals and what changes slowly are read again, in milliseconds. */
const COUNTS_MS = 5_000;
const REFUSALS_MS = 15_000;
const REST_MS = 60_000;

/** What is read about a key, and what reads it again. */
function useKeyRecord(id: string) {
  const hasTokens = id.startsWith('jwt_');
  const path = pathOf(id);
  const plan = usePlace().query.get('plan');
  const key = useResource<ShownKey>(hasTokens ? null : path);
  const plans = useResource<InForce>('/admin/plans');
  const usage = useUsage(id, plan);
  const use = useUse(path, usage.data);
  const recent = useResource<RefusalsOfCaller>(`/admin/refusals?caller=${encodeURIComponent(id)}`);
  const routes = useResource<DeprecatedRoutes>(`${path}/deprecations`);
  const changes = useResource<ChangePage>(`/admin/audit?key=${encodeURIComponent(id)}&limit=10`);
  const isGone = key.error?.status === 404;
  const readCounts = () => Promise.all([key.reload(), usage.reload()]);
  const readRest = () => Promise.all([use.history, routes, changes].map(({ reload }) => reload()));
  useRefresh(() => !isGone && readCounts(), COUNTS_MS);
  useRefresh(() => !isGone && recent.reload(), REFUSALS_MS);
  useRefresh(() => !isGone && readRest(), REST_MS);
  const readAll = () => void Promise.all([readCounts(), recent.reload(), readRest()]);
  // The screen shows an outage once, not in each section.
  const all = [key, usage, use.history, routes, changes];
  const outage = all.find(({ error }) => error !== null && isPassing(error))?.error;
  return { hasTokens, plan, key, plans, usage, use, recent, routes, changes, isGone, readAll, outage };
}

/** `/keys/ID`: all about one key, or about a token caller (`jwt_…`), of which only the counts and the history are known. */
export function KeyScreen({ rest }: { rest: string }) {
  const id = decoded(rest);
  const record = useKeyRecord(id);
  const { hasTokens, plan, key, plans, usage, use, recent, routes, changes, isGone, readAll, outage } = record;
  const [opened, setOpened] = useState<Opened | null>(null);
  const name = key.data?.name ?? null;
  const open: Open = (dialog, secret) => setOpened({ dialog, key: key.data, etag: key.etag, secret: secret ?? null });
  if (isGone) {
    return html`<${Page} title=${id}>
      <${Problem} error=${new ApiError(404, 'not_found', 'There is no key with this id. It may have been deleted.')} />
      <p class="actions"><a class="button" href=${hrefOf('/keys')}>All keys</a> <a class="button" href=${auditHref(id)}>Its records in Audit</a></p>
    </${Page}>`;
  }
  if (outage && (hasTokens ? use.history : key).data === null) {
    return html`<${Page} title=${id}><${Problem} error=${outage} /></${Page}>`;
  }
  const ended = key.data === null ? null : endedText(key.data, changes.data);
  const planName = key.data?.plan ?? usage.data?.plan;
  const facts = html`${planName !== undefined && html`<span>plan <strong>${planName}</strong></span>`}
    ${key.data?.customer && html`<span>of <${CustomerLink} ...${key.data.customer} /></span>`}`;
  const hasLimits = ended === null && (!hasTokens || plan !== null);
  return html`<${Page} title=${name ?? id}>
    ${outage && html`<${Problem} error=${outage} />`}
    ${calm(key).error !== null && html`<${Problem} error=${key.error} retry=${key.reload} />`}
    <div class="with-aside">
      <div>
        <${CallerCard}
          id=${id}
          state=${key.data !== null && (usage.data?.ban == null || stateOf(key.data) !== 'active') && html`<${KeyState} of=${key.data} isBanned=${false} />`}
          ended=${ended}
          facts=${facts}
          usage=${usage.data}
          recent=${recent}
          actions=${html`<${KeyActions} of=${key.data} usage=${usage.data} open=${open} />`}
        />
        ${hasTokens && html`<${PlanOfTokens} id=${id} plan=${plan} plans=${plans.data?.plans ?? []} />`}
        ${
          hasLimits &&
          html`<${Limits} of=${{ id, name }} usage=${calm(usage)} plan=${plans.data?.plans.find((one) => one.name === usage.data?.plan)} isLive=${key.data !== null && stateOf(key.data) !== 'revoked'} />`
        }
        <${LastRefusals} id=${id} recent=${recent} />
        <${UseSection} id=${id} use=${use} usage=${usage.data} />
        <${Deprecated} routes=${calm(routes)} />
      </div>
      ${key.data !== null && html`<aside aria-label="About the key"><${About} of=${key.data} /><${Secrets} of=${key.data} open=${open} /></aside>`}
    </div>
    <${LastChanges} id=${id} what="key" changes=${calm(changes)} />
    ${
      opened !== null &&
      html`<${OpenedKeyDialog}
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

/** Why a key admits no request, whatever its limits are; null if it may. */
function endedText(key: Key, changes: ChangePage | null) {
  const state = stateOf(key);
  if (state === 'active') return null;
  if (state === 'suspended')
    return html`Each request gets a 403: suspended since <${SuspendedText} ...${key.suspended!} />`;
  if (state === 'expired') return html`Each request gets a 401: expired <${Time} at=${key.expiresAt!} />.`;
  const revoked = changes?.changes.find(({ action, outcome }) => action === 'key.revoke' && outcome === 'done');
  return html`Each request gets a 401: revoked <${Time} at=${key.revokedAt!} />${revoked && html` by <bdi>${actorText(revoked.actor)}</bdi>`}.`;
}

/** @param of null for a caller with tokens, whose ban alone can be changed */
function KeyActions({ of: key, usage, open }: { of: Key | null; usage: Usage | null; open: Open }) {
  const [mayChange, mayDelete] = [useMay('operator'), useMay('admin')];
  const button = (dialog: KeyDialogName, text: string, kind = '') =>
    html`<button type="button" class=${kind} onClick=${() => open(dialog)}>${text}</button>`;
  const state = key === null ? 'tokens' : stateOf(key);
  const isLive = state !== 'revoked' && state !== 'tokens';
  const more: (readonly [string, KeyDialogName])[] = [];
  if (mayChange && isLive && state !== 'expired') more.push(['Rotate the secret…', 'rotate']);
  if (mayChange && isLive) more.push(['Move…', 'move']);
  if (mayChange && state === 'active') more.push(['Suspend…', 'suspend']);
  if (mayChange && isLive) more.push(['Revoke…', 'revoke']);
  if (mayDelete && key !== null && hasEnded(key)) more.push(['Delete…', 'delete']);
  return html`
    ${mayChange && usage?.ban != null && button('lift', 'Lift the ban…', 'primary')}
    ${mayChange && isLive && key?.suspended !== undefined && button('resume', 'Resume…', 'primary')}
    ${mayChange && isLive && button('topup', 'Top up…')}
    ${mayChange && isLive && button('reset', 'Reset usage…')}
    ${mayChange && isLive && button('edit', 'Edit…')}
    <${MoreMenu} entries=${more.map(([text, dialog]) => [text, () => open(dialog)])} />`;
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
