import type { ComponentChildren } from 'preact';
import { nameOf } from './kit/callers.tsx';
import { ChangeDialog, settledText } from './kit/dialog.tsx';
import { operationOn, titleOf } from './operation-words.ts';
import { ApiError, request } from './requests.ts';
import type { KeyOrCustomer } from './types.ts';

// The dialog of an operation on a key or a customer, with what the operation says of itself.

/** A record as it was when the dialog was opened, and what happens afterwards. */
export interface Changing<Of = KeyOrCustomer> {
  readonly of: Of;
  readonly etag: string | null;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

/** Makes a change of the record as it was read with `etag`, and reports it in words if the record has changed since. */
export async function changeIfSame<T>(
  { of: { id }, etag, onChanged }: Pick<Changing, 'of' | 'etag' | 'onChanged'>,
  verb: string,
  body?: object,
) {
  const [method = '', path = ''] = operationOn(id, verb).line.split(' ');
  const headers = { 'If-Match': etag ?? '*' };
  const whole = `/admin${path.replace('{id}', encodeURIComponent(id))}`;
  try {
    return await request<T>(method, whole, body === undefined ? { headers } : { body, headers });
  } catch (failure) {
    if (!(failure instanceof ApiError) || failure.status !== 412) throw failure;
    onChanged();
    const message =
      'It was changed since this dialog was opened, by someone else or by an earlier attempt of yours. Nothing was done now. Close this dialog, look at it on the page, and decide again.';
    throw new ApiError(412, failure.code, message);
  }
}

export function OperationDialog<T>({
  verb,
  changing,
  title,
  bodyOf,
  done,
  onDone,
  children,
}: {
  verb: string;
  changing: Changing;
  /** The verb and the name, unless given. */
  title?: string;
  /** What is sent; nothing unless given. */
  bodyOf?: (form: FormData) => object;
  /** What happened, in words. */
  done?: (output: T) => string;
  /** In place of reading the record again. */
  onDone?: () => void;
  /** Fields and sentences below the effect. */
  children?: ComponentChildren;
}) {
  const { of: record, onClose, onChanged } = changing;
  const { effect, isFinal = false } = operationOn(record.id, verb);
  const name = title ?? `${titleOf(verb)} ${nameOf(record)}`;
  const act = async (form: FormData) => {
    const { status, data } = await changeIfSame<T>(changing, verb, bodyOf?.(form));
    (onDone ?? onChanged)();
    return `${done?.(data) ?? `${name}: done.`}${settledText(status)}`;
  };
  return (
    <ChangeDialog
      title={name}
      action={isFinal ? `${titleOf(verb)} for good` : titleOf(verb)}
      isDangerous={isFinal}
      isOneRequest={true}
      act={act}
      onClose={onClose}
    >
      {isFinal && (
        <p>
          <code>{record.id}</code>
          {record.owner !== null && (
            <>
              {' '}
              of <bdi>{record.owner}</bdi>
            </>
          )}
        </p>
      )}
      <p>{effect}</p>
      {children}
    </ChangeDialog>
  );
}
