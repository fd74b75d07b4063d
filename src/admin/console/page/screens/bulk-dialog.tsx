import { useRef, useState } from 'preact/hooks';
import { Fields, inputIn } from '../fields.tsx';
import { isCustomer, nameOf } from '../kit/callers.tsx';
import { ChangeDialog, notify } from '../kit/dialog.tsx';
import { countText, plural, say } from '../kit/format.tsx';
import { send } from '../operation-dialog.tsx';
import { operationOn, titleOf } from '../operation-words.ts';
import { ApiError, isPassing } from '../requests.ts';
import type { KeyOrCustomer } from '../types.ts';
import { FIND_CUSTOMER } from './opened-dialog.tsx';

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

const HINTS = { until: { empty: 'until it is resumed' }, customer: { hint: FIND_CUSTOMER }, plan: null, keys: null };

/** One change of several keys or customers, one after the other. What fails of some is shown, and does not stop the others. */
export function BulkDialog({ verb, noun, of, onClose, onChanged }: BulkProps) {
  // As they were when the dialog was opened: the list is read anew before it closes.
  const [records] = useState(of);
  const [failed, setFailed] = useState<readonly Failed[] | null>(null);
  const [done, setDone] = useState(0);
  const message = useRef('');
  const operation = operationOn(records[0]!.id, verb);
  const act = async (form: FormData) => {
    const ofAll = verb === 'lift' && isCustomer(records[0]!.id) ? { keys: true } : {};
    const input = { ...inputIn(form, operation.fields), ...ofAll };
    const faults: Failed[] = [];
    let made = 0;
    for (const [i, record] of records.entries()) {
      try {
        await send(operation, record.id, input);
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
      title={`${titleOf(verb)} ${plural(records.length, noun)}`}
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
      <p>{operation.effect}</p>
      <p class="effect">
        {records.slice(0, NAMED).map((one, i) => say`${i > 0 && ', '}${<bdi>{nameOf(one)}</bdi>}`)}
        {records.length > NAMED && ` and ${countText(records.length - NAMED)} more`}
      </p>
      <Fields of={operation.fields} hints={HINTS} />
      {done > 0 && <p role="status">{`${countText(done)} of ${countText(records.length)} done.`}</p>}
    </ChangeDialog>
  );
}

/** How many records the dialog names. */
const NAMED = 10;
