import { LiftDialog, ResetDialog, TopUpDialog } from '../help.ts';
import { html } from '../html.ts';
import { isCustomer, nameOf, pathOf } from '../kit/callers.ts';
import { ChangeDialog, settledText } from '../kit/dialog.ts';
import { plural } from '../kit/format.ts';
import { spentIn } from '../kit/windows.ts';
import { navigate } from '../router.ts';
import type { DeletedCustomer, Key, Plan, ShownCustomer, Usage } from '../types.ts';
import { type Changing, changeIfSame, EndSecretDialog, MoveDialog, RotateDialog, type Secret } from './key-dialogs.ts';
import { CreateDialog, EditDialog } from './key-form.ts';
import { RecentUse } from './recent-use.ts';
import { ResumeDialog, SuspendDialog } from './suspension.ts';

// The dialogs of the screens of a key and of a customer, which the browser loads when the first one is opened.

type DialogName = 'lift' | 'topup' | 'reset' | 'suspend' | 'resume' | 'edit' | 'delete';
export type KeyDialogName = DialogName | 'rotate' | 'end-secret' | 'revoke' | 'move';
export type CustomerDialogName = DialogName | 'create-key';

interface Opened<Name, Of> extends Omit<Changing, 'of'> {
  readonly dialog: Name;
  /** Null for a caller with tokens. */
  readonly of: Of;
  readonly id: string;
  readonly usage: Usage | null;
  readonly plans: readonly Plan[] | null;
}

export function OpenedKeyDialog({
  secret,
  ...opened
}: Opened<KeyDialogName, Key | null> & { readonly secret: Secret | null }) {
  const { dialog, of: key } = opened;
  if (key === null) return html`<${SharedDialog} ...${opened} />`;
  if (dialog === 'move') return html`<${MoveDialog} ...${opened} />`;
  if (dialog === 'rotate') return html`<${RotateDialog} ...${opened} />`;
  if (dialog === 'end-secret') return html`<${EndSecretDialog} ...${opened} secret=${secret} />`;
  if (dialog === 'revoke') return html`<${RevokeDialog} ...${opened} />`;
  if (dialog === 'delete') return html`<${DeleteKeyDialog} ...${opened} />`;
  return html`<${SharedDialog} ...${opened} customer=${key.customer} />`;
}

export function OpenedCustomerDialog(opened: Opened<CustomerDialogName, ShownCustomer>) {
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
}: Opened<DialogName, Key | ShownCustomer | null> & { readonly customer?: Key['customer'] }) {
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
  if (dialog === 'resume') return html`<${ResumeDialog} ...${opened} />`;
  return html`<${EditDialog} ...${opened} />`;
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
    <${RecentUse} id=${key.id} />
  </${ChangeDialog}>`;
}

function DeleteKeyDialog(changing: Changing) {
  const { of: key, onClose } = changing;
  const act = async () => {
    const { status } = await changeIfSame<unknown>(changing, 'POST', `${pathOf(key.id)}/delete`);
    navigate('/keys');
    return `${nameOf(key)} (${key.id}) is deleted.${settledText(status)}`;
  };
  return html`<${ChangeDialog} title=${`Delete ${nameOf(key)}`} action="Delete for good" isDangerous=${true} act=${act} onClose=${onClose}>
    <p>All attributes, counts and the ban of <code>${key.id}</code> are removed for good. Audit keeps its records of the key.</p>
  </${ChangeDialog}>`;
}

function DeleteCustomerDialog(changing: Opened<CustomerDialogName, ShownCustomer>) {
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
    <p>All attributes, counts and the ban of <code>${id}</code> are removed for good. Audit keeps its records.</p>
    ${
      keys.length > 0 &&
      html`<p>It has ${some}. To keep one, move it first.</p>
        <label class="check"><input type="checkbox" name="revoke" required /> Revoke its keys for good: each of their requests gets a 401</label>`
    }
  </${ChangeDialog}>`;
}
