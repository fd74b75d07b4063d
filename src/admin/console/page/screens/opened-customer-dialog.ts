import { LiftDialog, ResetDialog, TopUpDialog } from '../help.ts';
import { html } from '../html.ts';
import { nameOf, pathOf } from '../kit/callers.ts';
import { ChangeDialog, settledText } from '../kit/dialog.ts';
import { plural } from '../kit/format.ts';
import { spentIn } from '../kit/windows.ts';
import { navigate } from '../router.ts';
import type { DeletedCustomer, Plan, ShownCustomer, Usage } from '../types.ts';
import { changeIfSame } from './key-dialogs.ts';
import { CreateDialog, EditDialog } from './key-form.ts';
import { ResumeDialog, SuspendDialog } from './suspension.ts';

// The dialogs of the screen of a customer, which the browser loads when the first one is opened.

export type CustomerDialogName = 'edit' | 'suspend' | 'resume' | 'delete' | 'create-key' | 'lift' | 'topup' | 'reset';

interface Changing {
  readonly of: ShownCustomer;
  readonly etag: string | null;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

export function OpenedCustomerDialog({
  dialog,
  customer,
  usage,
  plans,
  ...rest
}: Omit<Changing, 'of'> & {
  dialog: CustomerDialogName;
  customer: ShownCustomer;
  usage: Usage | null;
  plans: readonly Plan[] | null;
}) {
  const { id, name } = customer;
  const { onClose, onChanged } = rest;
  // The one that refuses for longest.
  const spent = spentIn(usage?.windows ?? {}).at(-1)?.[0];
  if (dialog === 'lift')
    return html`<${LiftDialog} of=${{ how: 'lift', id, name, window: spent }} onClose=${onClose} onChanged=${onChanged} />`;
  if (dialog === 'topup') {
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
