import { useState } from 'preact/hooks';
import { ApiError, isPassing, useRefresh, useResource } from '../api.ts';
import { LiftDialog, ResetDialog, TopUpDialog, useUsage } from '../help.ts';
import { html } from '../html.ts';
import { auditHref, nameOf, pathOf } from '../kit/callers.ts';
import { ChangeDialog, settledText } from '../kit/dialog.ts';
import { plural, Until } from '../kit/format.ts';
import { Badge, Page, Section } from '../kit/page.ts';
import { calm, Empty, Problem, Shown } from '../kit/states.ts';
import { Use, useHistories } from '../kit/use.ts';
import { Limits } from '../limits.ts';
import { decoded, hrefOf, navigate } from '../router.ts';
import { useMay } from '../session.ts';
import type { ChangePage, DeletedCustomer, InForce, Plan, ShownCustomer, Usage } from '../types.ts';
import { LastChanges } from './changes.ts';
import { CustomerFacts, CustomerState } from './customer-facts.ts';
import { changeIfSame } from './key-dialogs.ts';
import { CreateDialog, EditDialog } from './key-form.ts';
import { KeyTable } from './key-table.ts';
import { isSuspended, ResumeDialog, SuspendDialog } from './suspension.ts';

type DialogName = 'edit' | 'suspend' | 'resume' | 'delete' | 'create-key' | 'lift' | 'topup' | 'reset';

/** The customer as it was when a dialog was opened: a later reading does not change what the user agrees to. */
interface Opened {
  readonly dialog: DialogName;
  readonly customer: ShownCustomer;
  readonly etag: string | null;
}

type Open = (dialog: DialogName) => void;

/** How often counts are read again, and what changes slowly, in milliseconds. */
const COUNTS_MS = 5_000;
const REST_MS = 60_000;

/** `/customers/ID`: all about one customer: what its keys share and have used together, and its keys. */
export function CustomerScreen({ rest }: { rest: string }) {
  const id = decoded(rest);
  const path = pathOf(id);
  const customer = useResource<ShownCustomer>(path);
  const plans = useResource<InForce>('/admin/plans');
  const usage = useUsage(id);
  const { hours, days } = useHistories(path);
  const changes = useResource<ChangePage>(`/admin/audit?key=${encodeURIComponent(id)}&limit=10`);
  // The screen shows an outage once, not in each section.
  const outage = [customer, usage, hours, days, changes].find(({ error }) => error !== null && isPassing(error))?.error;
  const [opened, setOpened] = useState<Opened | null>(null);
  const isGone = customer.error?.status === 404;
  const readCounts = () => Promise.all([customer.reload(), usage.reload()]);
  const readRest = () => Promise.all([hours, days, changes].map(({ reload }) => reload()));
  const readAll = () => void Promise.all([readCounts(), readRest()]);
  useRefresh(() => !isGone && readCounts(), COUNTS_MS);
  useRefresh(() => !isGone && readRest(), REST_MS);
  const { data } = customer;
  const open: Open = (dialog) => data !== null && setOpened({ dialog, customer: data, etag: customer.etag });
  if (isGone) {
    return html`<${Page} title=${id}>
      <${Problem} error=${new ApiError(404, 'not_found', 'There is no customer with this id. It may have been deleted.')} />
      <p class="actions"><a class="button" href=${hrefOf('/customers')}>All customers</a> <a class="button" href=${auditHref(id)}>Its records in Audit</a></p>
    </${Page}>`;
  }
  if (data === null) {
    const why = customer.error ?? outage;
    return html`<${Page} title=${id}>${why ? html`<${Problem} error=${why} retry=${customer.reload} />` : html`<${Shown} of=${customer} what="the customer">${() => null}</${Shown}>`}</${Page}>`;
  }
  const plan = plans.data?.plans.find(({ name }) => name === data.plan);
  return html`<${Page} title=${nameOf(data)} beside=${html`<${CustomerActions} of=${data} open=${open} />`}>
    ${outage && html`<${Problem} error=${outage} />`}
    <${Head} of=${data} usage=${usage.data} />
    <${Limits} of=${data} usage=${calm(usage)} plan=${plan} isLive=${true} open=${open} />
    <${KeysOfIt} of=${data} open=${open} />
    <${Use} hours=${hours} days=${days} usage=${usage.data} />
    <${CustomerFacts} of=${data} />
    <${LastChanges} id=${id} what="customer" changes=${calm(changes)} />
    ${
      opened !== null &&
      html`<${Dialogs}
        ...${opened}
        usage=${usage.data}
        plans=${plans.data?.plans ?? null}
        onClose=${() => setOpened(null)}
        onChanged=${readAll}
      />`
    }
  </${Page}>`;
}

function CustomerActions({ of: customer, open }: { of: ShownCustomer; open: Open }) {
  const [mayChange, mayDelete] = [useMay('operator'), useMay('admin')];
  return html`<span class="actions">
    ${mayChange && html`<button type="button" onClick=${() => open('edit')}>Edit…</button>`}
    ${mayChange && !isSuspended(customer) && html`<button type="button" onClick=${() => open('suspend')}>Suspend…</button>`}
    ${mayChange && customer.suspended !== undefined && html`<button type="button" onClick=${() => open('resume')}>Resume…</button>`}
    ${mayDelete && html`<button type="button" onClick=${() => open('delete')}>Delete…</button>`}
  </span>`;
}

/** Its state, id, plan and owner in one line. */
function Head({ of: customer, usage }: { of: ShownCustomer; usage: Usage | null }) {
  const { id, name, owner, plan } = customer;
  const ban = usage?.ban ?? null;
  return html`<p class="actions key-head">
    <${CustomerState} of=${customer} />
    ${ban !== null && html`<${Badge} kind="bad">Banned until <${Until} at=${ban.until} /></${Badge}>`}
    ${name !== null && html`<code>${id}</code>`}
    <span>plan <strong>${plan}</strong></span>
    ${owner !== null && html`<span class="clamp"><bdi>${owner}</bdi></span>`}
  </p>`;
}

/** Its keys that are not revoked, oldest first. */
function KeysOfIt({ of: { id, keys, keysCursor }, open }: { of: ShownCustomer; open: Open }) {
  const mayCreate = useMay('admin');
  const all = html`<a href=${hrefOf(`/keys?customer=${encodeURIComponent(id)}&all=true`)}>All, with those that are revoked</a>`;
  return html`<${Section} title="Its keys" note=${all}>
    ${
      keys.length === 0
        ? html`<${Empty} title="It has no keys."><p>Create one here, or move a key to it on the screen of the key.</p></${Empty}>`
        : html`<${KeyTable} keys=${keys} isOfOne=${true} />`
    }
    ${keysCursor !== null && html`<p class="muted">The first ${plural(keys.length, 'key')}; there are more.</p>`}
    ${mayCreate && html`<p class="actions after"><button type="button" onClick=${() => open('create-key')}>Create key…</button></p>`}
  </${Section}>`;
}

interface Changing {
  readonly of: ShownCustomer;
  readonly etag: string | null;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

function Dialogs({
  dialog,
  customer,
  usage,
  plans,
  ...rest
}: Omit<Changing, 'of'> & Opened & { usage: Usage | null; plans: readonly Plan[] | null }) {
  const { id, name } = customer;
  const { onClose, onChanged } = rest;
  if (dialog === 'lift')
    return html`<${LiftDialog} of=${{ how: 'lift', id, name }} onClose=${onClose} onChanged=${onChanged} />`;
  if (dialog === 'topup') {
    const spent = Object.entries(usage?.windows ?? {}).find(([, { remaining }]) => remaining === 0)?.[0];
    return html`<${TopUpDialog} of=${{ how: 'topup', id, name, window: spent }} onClose=${onClose} onChanged=${onChanged} />`;
  }
  if (dialog === 'reset') return html`<${ResetDialog} of=${customer} ...${rest} usage=${usage} />`;
  if (dialog === 'suspend') return html`<${SuspendDialog} of=${customer} ...${rest} />`;
  if (dialog === 'resume') return html`<${ResumeDialog} of=${customer} ...${rest} />`;
  if (dialog === 'delete') return html`<${DeleteDialog} of=${customer} ...${rest} />`;
  if (dialog === 'edit') return html`<${EditDialog} of=${customer} ...${rest} plans=${plans} />`;
  const close = (key: string | null) => {
    onClose();
    if (key !== null) onChanged();
  };
  return html`<${CreateDialog} customer=${{ id, name }} plans=${plans} onClose=${close} />`;
}

function DeleteDialog(changing: Changing) {
  const { of: customer, onClose } = changing;
  const { id, keys, keysCursor } = customer;
  const some = keysCursor === null ? plural(keys.length, 'key') : `more than ${plural(keys.length, 'key')}`;
  const act = async () => {
    const body = keys.length === 0 ? {} : { keys: 'revoke' };
    const { status, data } = await changeIfSame<DeletedCustomer>(changing, 'POST', `${pathOf(id)}/delete`, body);
    navigate('/customers');
    const revoked = data.keysRevoked === 0 ? '' : ` ${plural(data.keysRevoked, 'key')} revoked with it.`;
    return `${nameOf(customer)} (${id}) is deleted.${revoked}${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Delete ${nameOf(customer)}`} action="Delete for good" isDangerous=${true} act=${act} onClose=${onClose}>
    <p>Name, owner, notes, counts and ban of <code>${id}</code> are removed for good. Audit keeps its records.</p>
    ${
      keys.length > 0 &&
      html`<p>It has ${some}. To keep one, move it first.</p>
        <label class="check"><input type="checkbox" name="revoke" required /> Revoke its keys for good: each of their requests gets a 401</label>`
    }
  </${ChangeDialog}>`;
}
