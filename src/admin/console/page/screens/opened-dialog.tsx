import { LiftDialog, ResetDialog, TopUpDialog } from '../help.tsx';
import { isCustomer, nameOf } from '../kit/callers.tsx';
import { ReasonField, reasonIn } from '../kit/dialog.tsx';
import { momentText, plural } from '../kit/format.tsx';
import { spentIn } from '../kit/limit-windows.tsx';
import { MomentField, momentIn } from '../kit/moment-field.tsx';
import { type Changing, OperationDialog } from '../operation-dialog.tsx';
import { navigate } from '../place.ts';
import type { DeletedCustomer, KeyOrCustomer, NewSuspension, Plan, ShownCustomer, ShownKey, Usage } from '../types.ts';
import { EndSecretDialog, MoveDialog, RotateDialog, type Secret } from './key-dialogs.tsx';
import { CreateDialog, EditDialog } from './key-form.tsx';
import { RecentUse } from './recent-use.tsx';

// The dialogs of the screen of a key or a customer, which the browser loads when the first one is opened.

interface DialogProps extends Changing<ShownKey | ShownCustomer | null> {
  /** The verb of the operation, `edit` or `create-key`. */
  readonly dialog: string;
  readonly id: string;
  readonly usage: Usage | null;
  readonly plans: readonly Plan[] | null;
  /** How many keys of the customer are banned. */
  readonly banned: number;
  readonly secret: Secret | null;
}

export function OpenedDialog({ secret, banned, ...opened }: DialogProps) {
  const { dialog, of, id, usage, plans, onClose, onChanged } = opened;
  const name = of?.name ?? null;
  // The one that refuses for longest.
  const window = spentIn(usage?.windows ?? {}).at(-1)?.[0];
  if (dialog === 'lift') {
    const plan = isCustomer(id) ? undefined : usage?.plan;
    return <LiftDialog of={{ how: 'lift', id, name, plan, window, banned }} onClose={onClose} onChanged={onChanged} />;
  }
  if (dialog === 'topup') {
    const customer = of !== null && 'customer' in of ? of.customer : undefined;
    return <TopUpDialog of={{ how: 'topup', id, name, window, customer }} onClose={onClose} onChanged={onChanged} />;
  }
  if (of === null) return null;
  if (dialog === 'create-key') {
    const close = (key: string | null) => {
      onClose();
      if (key !== null) onChanged();
    };
    return <CreateDialog customer={{ id, name }} plans={plans} onClose={close} />;
  }
  if ('secrets' in of) {
    const ofKey = { ...opened, of };
    if (dialog === 'move') return <MoveDialog {...ofKey} />;
    if (dialog === 'rotate') return <RotateDialog {...ofKey} />;
    if (dialog === 'end' && secret !== null) return <EndSecretDialog {...ofKey} secret={secret} />;
  } else if (dialog === 'delete') return <DeleteCustomerDialog {...opened} of={of} />;
  const changing = { ...opened, of };
  if (dialog === 'reset') return <ResetDialog {...changing} />;
  if (dialog === 'suspend') return <SuspendDialog {...changing} />;
  if (dialog === 'edit') return <EditDialog {...changing} />;
  const done = DONE[dialog];
  return (
    <OperationDialog
      verb={dialog}
      changing={changing}
      {...(done && { done: () => `${nameOf(of)} ${done}` })}
      {...(dialog === 'delete' && { onDone: () => navigate('/keys') })}
    >
      {dialog === 'revoke' && <RecentUse id={id} />}
    </OperationDialog>
  );
}

/** What happened, in words, by the verb. */
const DONE: Readonly<Record<string, string>> = {
  resume: 'is resumed.',
  revoke: 'is revoked. Every gateway refuses it within a second.',
  delete: 'is deleted.',
};

/** The suspension that the fields of SuspendFields ask for. */
export function suspensionIn(form: FormData): NewSuspension {
  return { until: momentIn(String(form.get('until')))?.toISOString() ?? null, reason: reasonIn(form) || null };
}

export function SuspendFields() {
  return (
    <>
      <MomentField id="suspend-until" name="until" label="Until" empty="until it is resumed" />
      <ReasonField hint="For operators. Callers never see it." />
    </>
  );
}

/** Begins the suspension of a key or of a customer. */
function SuspendDialog(changing: Changing) {
  const { of: record } = changing;
  const done = ({ suspended }: KeyOrCustomer) =>
    `${nameOf(record)} is suspended until ${suspended?.until == null ? 'it is resumed' : momentText(suspended.until)}.`;
  return (
    <OperationDialog verb="suspend" changing={changing} bodyOf={suspensionIn} done={done}>
      <RecentUse id={record.id} />
      <SuspendFields />
    </OperationDialog>
  );
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
