import { useRef, useState } from 'preact/hooks';
import { isCustomer, nameOf } from '../kit/callers.tsx';
import { ChangeDialog, notify, ReasonField, reasonIn } from '../kit/dialog.tsx';
import { countText, plural } from '../kit/format.tsx';
import { changeIfSame } from '../operation-dialog.tsx';
import { effectOf, titleOf } from '../operation-words.ts';
import { ApiError, isPassing, request } from '../requests.ts';
import type { KeyOrCustomer } from '../types.ts';
import { CustomerField } from './key-dialogs.tsx';
import { SuspendFields, suspensionIn } from './opened-dialog.tsx';

interface BulkProps {
  /** Of the operation: `suspend`, `resume`, `lift` or `move`. */
  readonly verb: string;
  /** What one record is: `key`. */
  readonly noun: string;
  readonly of: readonly KeyOrCustomer[];
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

/** What was not done, and why. */
interface Failed {
  readonly of: KeyOrCustomer;
  readonly why: string;
}

/** One change of several keys or customers, one after the other. What fails of some is shown, and does not stop the others. */
export function BulkDialog({ verb, noun, of, onClose, onChanged }: BulkProps) {
  // As they were when the dialog was opened: the list is read anew before it closes.
  const [records] = useState(of);
  const [failed, setFailed] = useState<readonly Failed[] | null>(null);
  const [done, setDone] = useState(0);
  const [customer, setCustomer] = useState('');
  const message = useRef('');
  const title = `${titleOf(verb)} ${plural(records.length, noun)}`;
  const act = async (form: FormData) => {
    const faults: Failed[] = [];
    let made = 0;
    for (const [i, record] of records.entries()) {
      try {
        await change(verb, record, form, customer);
        made++;
      } catch (failure) {
        if (!(failure instanceof ApiError)) throw failure;
        faults.push({ of: record, why: failure.message });
        if (isPassing(failure)) {
          faults.push(...records.slice(i + 1).map((of) => ({ of, why: 'Not tried.' })));
          break;
        }
      }
      setDone(i + 1);
    }
    message.current = `${titleOf(verb)}: done for ${countText(made)} of ${plural(records.length, noun)}.`;
    if (faults.length > 0) setFailed(faults);
    else onChanged();
    return faults.length > 0 ? null : message.current;
  };
  const close = () => {
    onClose();
    if (failed === null) return;
    onChanged();
    notify(message.current);
  };
  return (
    <ChangeDialog
      title={title}
      action={titleOf(verb)}
      act={act}
      onClose={close}
      result={
        failed !== null && (
          <>
            <p>{message.current} Not for:</p>
            <ul class="bullets">
              {failed.map(({ of, why }) => (
                <li key={of.id}>
                  <strong>
                    <bdi>{nameOf(of)}</bdi>
                  </strong>
                  : {why}
                </li>
              ))}
            </ul>
          </>
        )
      }
    >
      <p>{effectOf(records[0]!.id, verb)}</p>
      <p class="effect">
        {records.slice(0, NAMED).map((one, i) => (
          <>
            {i > 0 && ', '}
            <bdi>{nameOf(one)}</bdi>
          </>
        ))}
        {records.length > NAMED && ` and ${countText(records.length - NAMED)} more`}
      </p>
      {verb === 'suspend' && <SuspendFields />}
      {verb === 'lift' && <ReasonField hint="For operators, in the record of changes. Callers never see it." />}
      {verb === 'move' && <CustomerField value={customer} onInput={setCustomer} />}
      {done > 0 && <p role="status">{`${countText(done)} of ${countText(records.length)} done.`}</p>}
    </ChangeDialog>
  );
}

/** How many records the dialog names. */
const NAMED = 10;

/** @throws ApiError */
async function change(verb: string, record: KeyOrCustomer, form: FormData, customer: string): Promise<unknown> {
  if (verb === 'lift') {
    const reason = reasonIn(form);
    const query = new URLSearchParams({
      ...(reason !== '' && { reason }),
      ...(isCustomer(record.id) && { keys: 'true' }),
    });
    return request('DELETE', `/admin/bans/${encodeURIComponent(record.id)}?${query}`);
  }
  const body = verb === 'suspend' ? suspensionIn(form) : verb === 'move' ? { customer: customer || null } : undefined;
  return changeIfSame({ of: record, etag: null, onChanged: () => {} }, verb, body);
}
