import { useState } from 'preact/hooks';
import { ApiError, isPassing, useRefresh, useResource } from '../api.ts';
import { html } from '../html.ts';
import { auditHref, nameOf, pathOf } from '../kit/callers.ts';
import { plural } from '../kit/format.ts';
import { later } from '../kit/later.ts';
import { MoreMenu } from '../kit/menu.ts';
import { Page, Section } from '../kit/page.ts';
import { calm, Empty, Problem, Shown } from '../kit/states.ts';
import { UseSection, useUse } from '../kit/use.ts';
import { Limits, useUsage } from '../limits.ts';
import { decoded, hrefOf } from '../router.ts';
import { useMay } from '../session.ts';
import type { ChangePage, InForce, RefusalsOfCaller, ShownCustomer, Usage } from '../types.ts';
import { CallerCard } from './caller-card.ts';
import { isSuspended, SuspendedText } from './caller-state.ts';
import { LastChanges } from './changes.ts';
import { CustomerFacts, CustomerState } from './customer-facts.ts';
import { KeyTable } from './key-table.ts';
import { LastRefusals } from './last-refusals.ts';
import type { CustomerDialogName } from './opened-customer-dialog.ts';

const OpenedCustomerDialog = later(async () => (await import('./opened-customer-dialog.ts')).OpenedCustomerDialog);

/** The customer as it was when a dialog was opened: a later reading does not change what the user agrees to. */
interface Opened {
  readonly dialog: CustomerDialogName;
  readonly customer: ShownCustomer;
  readonly etag: string | null;
}

type Open = (dialog: CustomerDialogName) => void;

/** How often counts, refusals and what changes slowly are read again, in milliseconds. */
const COUNTS_MS = 5_000;
const REFUSALS_MS = 15_000;
const REST_MS = 60_000;

/** `/customers/ID`: all about one customer: what its keys share and have used together, and its keys. */
export function CustomerScreen({ rest }: { rest: string }) {
  const id = decoded(rest);
  const path = pathOf(id);
  const customer = useResource<ShownCustomer>(path);
  const plans = useResource<InForce>('/admin/plans');
  const usage = useUsage(id);
  const use = useUse(path, usage.data);
  const recent = useResource<RefusalsOfCaller>(`/admin/refusals?caller=${encodeURIComponent(id)}`);
  const changes = useResource<ChangePage>(`/admin/audit?key=${encodeURIComponent(id)}&limit=10`);
  // The screen shows an outage once, not in each section.
  const all = [customer, usage, use.history, changes];
  const outage = all.find(({ error }) => error !== null && isPassing(error))?.error;
  const [opened, setOpened] = useState<Opened | null>(null);
  const isGone = customer.error?.status === 404;
  const readCounts = () => Promise.all([customer.reload(), usage.reload()]);
  const readRest = () => Promise.all([use.history, changes].map(({ reload }) => reload()));
  const readAll = () => void Promise.all([readCounts(), recent.reload(), readRest()]);
  useRefresh(() => !isGone && readCounts(), COUNTS_MS);
  useRefresh(() => !isGone && recent.reload(), REFUSALS_MS);
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
  const ended =
    data.suspended !== undefined && isSuspended(data)
      ? html`Each request of its keys gets a 403: suspended since <${SuspendedText} ...${data.suspended} />`
      : null;
  return html`<${Page} title=${nameOf(data)}>
    ${outage && html`<${Problem} error=${outage} />`}
    <div class="with-aside">
      <div>
        <${CallerCard}
          id=${id}
          state=${html`<${CustomerState} of=${data} />`}
          ended=${ended}
          facts=${html`<span>plan <strong>${data.plan}</strong></span>`}
          usage=${usage.data}
          recent=${recent}
          actions=${html`<${CustomerActions} of=${data} usage=${usage.data} open=${open} />`}
        />
        ${ended === null && html`<${Limits} of=${data} usage=${calm(usage)} plan=${plan} isLive=${true} />`}
        <${KeysOfIt} of=${data} open=${open} />
        <${LastRefusals} id=${id} recent=${recent} />
        <${UseSection} id=${id} use=${use} usage=${usage.data} />
      </div>
      <aside aria-label="About the customer"><${CustomerFacts} of=${data} /></aside>
    </div>
    <${LastChanges} id=${id} what="customer" changes=${calm(changes)} />
    ${
      opened !== null &&
      html`<${OpenedCustomerDialog}
        ...${opened}
        usage=${usage.data}
        plans=${plans.data?.plans ?? null}
        onClose=${() => setOpened(null)}
        onChanged=${readAll}
      />`
    }
  </${Page}>`;
}

function CustomerActions({ of: customer, usage, open }: { of: ShownCustomer; usage: Usage | null; open: Open }) {
  const [mayChange, mayDelete] = [useMay('operator'), useMay('admin')];
  if (!mayChange) return null;
  const button = (dialog: CustomerDialogName, text: string, kind = '') =>
    html`<button type="button" class=${kind} onClick=${() => open(dialog)}>${text}</button>`;
  const more: (readonly [string, CustomerDialogName])[] = [];
  if (!isSuspended(customer)) more.push(['Suspend…', 'suspend']);
  if (mayDelete) more.push(['Delete…', 'delete']);
  return html`
    ${usage?.ban != null && button('lift', 'Lift the ban…', 'primary')}
    ${customer.suspended !== undefined && button('resume', 'Resume…', 'primary')}
    ${button('topup', 'Top up…')}
    ${button('reset', 'Reset usage…')}
    ${button('edit', 'Edit…')}
    <${MoreMenu} entries=${more.map(([text, dialog]) => [text, () => open(dialog)])} />`;
}

/** Its keys that are not revoked, oldest first. */
function KeysOfIt({ of: { id, keys, keysCursor }, open }: { of: ShownCustomer; open: Open }) {
  const mayCreate = useMay('admin');
  const all = html`<a href=${hrefOf(`/keys?customer=${encodeURIComponent(id)}&all=true`)}>All, with those that are revoked</a>`;
  return html`<${Section} title="Keys" note=${all}>
    ${
      keys.length === 0
        ? html`<${Empty} title="No keys yet."><p>Create one here, or move a key to this customer on the screen of the key.</p></${Empty}>`
        : html`<${KeyTable} keys=${keys} isOfOne=${true} />`
    }
    ${keysCursor !== null && html`<p class="muted">The first ${plural(keys.length, 'key')}; there are more.</p>`}
    ${mayCreate && html`<p class="actions after"><button type="button" onClick=${() => open('create-key')}>Create key…</button></p>`}
  </${Section}>`;
}
