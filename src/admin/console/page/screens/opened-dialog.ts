import { LiftDialog, ResetDialog, TopUpDialog } from '../help.ts';
import { html } from '../html.ts';
import { isCustomer, nameOf } from '../kit/callers.ts';
import { Field } from '../kit/dialog.ts';
import { momentText, plural } from '../kit/format.ts';
import { spentIn } from '../kit/limit-windows.ts';
import { MomentField, momentIn } from '../kit/moment-field.ts';
import { type Changing, OperationDialog } from '../operation-dialog.ts';
import { navigate } from '../place.ts';
import type { DeletedCustomer, Key, KeyOrCustomer, NewSuspension, Plan, ShownCustomer, Usage } from '../types.ts';
import { EndSecretDialog, MoveDialog, RotateDialog, type Secret } from './key-dialogs.ts';
import { CreateDialog, EditDialog } from './key-form.ts';
import { RecentUse } from './recent-use.ts';

// The dialogs of the screens of a key and of a customer, which the browser loads when the first one is opened.

interface DialogProps<Of> extends Changing<Of> {
  /** The verb of the operation, `edit` or `create-key`. */
  readonly dialog: string;
  readonly id: string;
  readonly usage: Usage | null;
  readonly plans: readonly Plan[] | null;
}

export function OpenedKeyDialog({ secret, ...opened }: DialogProps<Key | null> & { readonly secret: Secret | null }) {
  const { dialog, of: key } = opened;
  if (key === null) return html`<${SharedDialog} ...${opened} />`;
  if (dialog === 'move') return html`<${MoveDialog} ...${opened} />`;
  if (dialog === 'rotate') return html`<${RotateDialog} ...${opened} />`;
  if (dialog === 'end') return html`<${EndSecretDialog} ...${opened} secret=${secret} />`;
  if (dialog === 'revoke') return html`<${RevokeDialog} ...${opened} />`;
  if (dialog === 'delete') return html`<${DeleteKeyDialog} ...${opened} />`;
  return html`<${SharedDialog} ...${opened} customer=${key.customer} />`;
}

export function OpenedCustomerDialog(opened: DialogProps<ShownCustomer>) {
  const { dialog, of: customer, plans, onClose, onChanged } = opened;
  if (dialog === 'delete') return html`<${DeleteCustomerDialog} ...${opened} />`;
  if (dialog !== 'create-key') return html`<${SharedDialog} ...${opened} />`;
  const close = (key: string | null) => {
    onClose();
    if (key !== null) onChanged();
  };
  const { id, name } = customer;
  return html`<${CreateDialog} customer=${{ id, name }} plans=${plans} onClose=${close} />`;
}

/** Those that keys and customers have alike, and callers with tokens in part. */
function SharedDialog({
  customer,
  ...opened
}: DialogProps<Key | ShownCustomer | null> & { readonly customer?: Key['customer'] }) {
  const { dialog, of, id, usage, onClose, onChanged } = opened;
  const name = of?.name ?? null;
  // The one that refuses for longest.
  const window = spentIn(usage?.windows ?? {}).at(-1)?.[0];
  if (dialog === 'lift') {
    const plan = isCustomer(id) ? undefined : usage?.plan;
    return html`<${LiftDialog} of=${{ how: 'lift', id, name, plan, window }} onClose=${onClose} onChanged=${onChanged} />`;
  }
  if (dialog === 'topup') {
    return html`<${TopUpDialog} of=${{ how: 'topup', id, name, window, customer }} onClose=${onClose} onChanged=${onChanged} />`;
  }
  if (of === null) return null;
  if (dialog === 'reset') return html`<${ResetDialog} ...${opened} />`;
  if (dialog === 'suspend') return html`<${SuspendDialog} ...${opened} />`;
  if (dialog === 'edit') return html`<${EditDialog} ...${opened} />`;
  const done = dialog === 'resume' ? () => `${nameOf(of)} is resumed.` : undefined;
  return html`<${OperationDialog} verb=${dialog} changing=${opened} done=${done} />`;
}

/** Begins the suspension of a key or of a customer. */
function SuspendDialog(changing: Changing) {
  const { of: record } = changing;
  const bodyOf = (form: FormData): NewSuspension => ({
    until: momentIn(String(form.get('until')))?.toISOString() ?? null,
    reason: String(form.get('reason')).trim() || null,
  });
  const done = ({ suspended }: KeyOrCustomer) =>
    `${nameOf(record)} is suspended until ${suspended?.until == null ? 'it is resumed' : momentText(suspended.until)}.`;
  return html`<${OperationDialog} verb="suspend" changing=${changing} bodyOf=${bodyOf} done=${done}>
    <${RecentUse} id=${record.id} />
    <${MomentField} id="suspend-until" name="until" label="Until" empty="until it is resumed" />
    <${Field} id="suspend-reason" label="Reason" hint="For operators. Callers never see it.">
      <input id="suspend-reason" name="reason" maxlength="200" autocomplete="off" aria-describedby="suspend-reason-hint" />
    </${Field}>
  </${OperationDialog}>`;
}

function RevokeDialog(changing: Changing) {
  const { of: key } = changing;
  const done = () => `${nameOf(key)} is revoked. Every gateway refuses it within a second.`;
  return html`<${OperationDialog} verb="revoke" changing=${changing} done=${done}><${RecentUse} id=${key.id} /></${OperationDialog}>`;
}

function DeleteKeyDialog(changing: Changing) {
  const done = () => `${nameOf(changing.of)} (${changing.of.id}) is deleted.`;
  return html`<${OperationDialog} verb="delete" changing=${changing} done=${done} onDone=${() => navigate('/keys')} />`;
}

function DeleteCustomerDialog(changing: Changing<ShownCustomer>) {
  const { of: customer } = changing;
  const { id, keys, keysCursor } = customer;
  const some = keysCursor === null ? plural(keys.length, 'key') : `more than ${plural(keys.length, 'key')}`;
  const bodyOf = () => (keys.length === 0 ? {} : { keys: 'revoke' });
  const done = ({ keysRevoked }: DeletedCustomer) =>
    `${nameOf(customer)} (${id}) is deleted.${keysRevoked === 0 ? '' : ` ${plural(keysRevoked, 'key')} revoked with it.`}`;
  return html`<${OperationDialog} verb="delete" changing=${changing} bodyOf=${bodyOf} done=${done} onDone=${() => navigate('/customers')}>
    ${
      keys.length > 0 &&
      html`<p>It has ${some}. To keep one, move it first.</p>
        <label class="check"><input type="checkbox" name="revoke" required /> Revoke its keys for good: each of their requests gets a 401</label>`
    }
  </${OperationDialog}>`;
}
