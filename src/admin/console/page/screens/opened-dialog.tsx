import { LiftDialog, ResetDialog, TopUpDialog } from '../help.tsx';
import { isCustomer, nameOf } from '../kit/callers.tsx';
import { Field } from '../kit/dialog.tsx';
import { momentText, plural } from '../kit/format.tsx';
import { spentIn } from '../kit/limit-windows.tsx';
import { MomentField, momentIn } from '../kit/moment-field.tsx';
import { type Changing, OperationDialog } from '../operation-dialog.tsx';
import { navigate } from '../place.ts';
import type { DeletedCustomer, Key, KeyOrCustomer, NewSuspension, Plan, ShownCustomer, Usage } from '../types.ts';
import { EndSecretDialog, MoveDialog, RotateDialog, type Secret } from './key-dialogs.tsx';
import { CreateDialog, EditDialog } from './key-form.tsx';
import { RecentUse } from './recent-use.tsx';

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
  if (key === null) return <SharedDialog {...opened} />;
  const ofKey = { ...opened, of: key };
  if (dialog === 'move') return <MoveDialog {...ofKey} />;
  if (dialog === 'rotate') return <RotateDialog {...ofKey} />;
  if (dialog === 'end' && secret !== null) return <EndSecretDialog {...ofKey} secret={secret} />;
  if (dialog === 'revoke') return <RevokeDialog {...ofKey} />;
  if (dialog === 'delete') return <DeleteKeyDialog {...ofKey} />;
  return <SharedDialog {...opened} customer={key.customer} />;
}

/** @param banned how many of its keys are banned */
export function OpenedCustomerDialog(opened: DialogProps<ShownCustomer> & { readonly banned: number }) {
  const { dialog, of: customer, plans, onClose, onChanged } = opened;
  if (dialog === 'delete') return <DeleteCustomerDialog {...opened} />;
  if (dialog !== 'create-key') return <SharedDialog {...opened} />;
  const close = (key: string | null) => {
    onClose();
    if (key !== null) onChanged();
  };
  const { id, name } = customer;
  return <CreateDialog customer={{ id, name }} plans={plans} onClose={close} />;
}

/** Those that keys and customers have alike, and callers with tokens in part. */
function SharedDialog({
  customer,
  banned,
  ...opened
}: DialogProps<Key | ShownCustomer | null> & { readonly customer?: Key['customer']; readonly banned?: number }) {
  const { dialog, of, id, usage, onClose, onChanged } = opened;
  const name = of?.name ?? null;
  // The one that refuses for longest.
  const window = spentIn(usage?.windows ?? {}).at(-1)?.[0];
  if (dialog === 'lift') {
    const plan = isCustomer(id) ? undefined : usage?.plan;
    return <LiftDialog of={{ how: 'lift', id, name, plan, window, banned }} onClose={onClose} onChanged={onChanged} />;
  }
  if (dialog === 'topup') {
    return <TopUpDialog of={{ how: 'topup', id, name, window, customer }} onClose={onClose} onChanged={onChanged} />;
  }
  if (of === null) return null;
  const changing = { ...opened, of };
  if (dialog === 'reset') return <ResetDialog {...changing} />;
  if (dialog === 'suspend') return <SuspendDialog {...changing} />;
  if (dialog === 'edit') return <EditDialog {...changing} />;
  const done = dialog === 'resume' ? { done: () => `${nameOf(of)} is resumed.` } : {};
  return <OperationDialog verb={dialog} changing={changing} {...done} />;
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
  return (
    <OperationDialog verb="suspend" changing={changing} bodyOf={bodyOf} done={done}>
      <RecentUse id={record.id} />
      <MomentField id="suspend-until" name="until" label="Until" empty="until it is resumed" />
      <Field id="suspend-reason" label="Reason" hint="For operators. Callers never see it.">
        <input
          id="suspend-reason"
          name="reason"
          maxlength={200}
          autocomplete="off"
          aria-describedby="suspend-reason-hint"
        />
      </Field>
    </OperationDialog>
  );
}

function RevokeDialog(changing: Changing) {
  const { of: key } = changing;
  const done = () => `${nameOf(key)} is revoked. Every gateway refuses it within a second.`;
  return (
    <OperationDialog verb="revoke" changing={changing} done={done}>
      <RecentUse id={key.id} />
    </OperationDialog>
  );
}

function DeleteKeyDialog(changing: Changing) {
  const done = () => `${nameOf(changing.of)} (${changing.of.id}) is deleted.`;
  return <OperationDialog verb="delete" changing={changing} done={done} onDone={() => navigate('/keys')} />;
}

function DeleteCustomerDialog(changing: Changing<ShownCustomer>) {
  const { of: customer } = changing;
  const { id, keys, keysCursor } = customer;
  const some = keysCursor === null ? plural(keys.length, 'key') : `more than ${plural(keys.length, 'key')}`;
  const bodyOf = () => (keys.length === 0 ? {} : { keys: 'revoke' });
  const done = ({ keysRevoked }: DeletedCustomer) =>
    `${nameOf(customer)} (${id}) is deleted.${keysRevoked === 0 ? '' : ` ${plural(keysRevoked, 'key')} revoked with it.`}`;
  return (
    <OperationDialog
      verb="delete"
      changing={changing}
      bodyOf={bodyOf}
      done={done}
      onDone={() => navigate('/customers')}
    >
      {keys.length > 0 && (
        <>
          <p>It has {some}. To keep one, move it first.</p>
          <label class="check">
            <input type="checkbox" name="revoke" required /> Revoke its keys for good: each of their requests gets a 401
          </label>
        </>
      )}
    </OperationDialog>
  );
}
