import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { Fields, type Hints, inputIn, type Values } from './fields.tsx';
import { nameOf } from './kit/callers.tsx';
import { ChangeDialog, notify, settledText } from './kit/dialog.tsx';
import { say } from './kit/format.tsx';
import { titleOf, verbOf } from './operation-words.ts';
import { ApiError, type Reply, request, useOnce } from './requests.ts';
import type { KeyOrCustomer, Plan } from './types.ts';
import type { OperationWords } from './words.ts';

// The dialog of an operation, which is made of what the operation says of itself.

/** A record as it was when the dialog was opened, and what happens afterwards. */
export interface Changing<Of = KeyOrCustomer> {
  readonly of: Of;
  readonly etag: string | null;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

/**
 * Does an operation. Where its method has no body, the input is a query.
 * @param id of what it changes; empty if it makes something
 */
export function send<T>(
  { line }: OperationWords,
  id: string,
  input: Input,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply<T>> {
  const [method = '', below = ''] = line.split(' ');
  const path = `/admin${below.replace(/\{\w+\}/, encodeURIComponent(id))}`;
  if (method !== 'DELETE') return request<T>(method, path, { body: input, headers });
  const query = new URLSearchParams(Object.entries(input).map(([name, value]) => [name, String(value)]));
  return request<T>(method, query.size === 0 ? path : `${path}?${query}`, { headers });
}

const STALE =
  'It was changed since this dialog was opened, by someone else or by an earlier attempt of yours. Nothing was done now. Close this dialog, look at it on the page, and decide again.';

/** Of an operation. The gateway checks it. */
type Input = Readonly<Record<string, unknown>>;

interface OperationDialogProps<T, In> {
  readonly operation: OperationWords;
  /** What it changes, with its name; left out if it makes something. */
  readonly of?: { readonly id: string; readonly name: string | null; readonly owner?: string | null };
  /** The version that is to be changed; null for any. */
  readonly etag?: string | null;
  /** The verb and the name, unless given. */
  readonly title?: string;
  /** The verb, unless given. */
  readonly action?: string;
  readonly hints?: Hints;
  /** What the fields held when they were read, for a change of that. */
  readonly values?: Values;
  readonly plans?: readonly Plan[] | null;
  /** Members that are not asked for, or by `children`. @throws ApiError */
  readonly given?: (form: FormData) => object;
  /** Done before it, so that it is not one request: what it did, in words. */
  readonly before?: ((form: FormData) => Promise<void>) | undefined;
  /** Reads again what has another version than `etag`. */
  readonly reload?: () => void;
  /** What to say then, in place of the usual. */
  readonly stale?: string;
  /** What to say if the operation fails. */
  readonly failed?: (failure: ApiError) => ApiError | Promise<ApiError>;
  /** What happened, in words. */
  readonly done?: (output: T, input: In) => string;
  /** The title and the content of the dialog afterwards, such as a secret. Left out, it closes. */
  readonly result?: (output: T, input: In) => readonly [title: string, shown: ComponentChildren];
  /** @param etag the new version */
  readonly onDone?: ((output: T, etag: string | null) => void) | undefined;
  /** @param output null if nothing was done, or the dialog has no result */
  readonly onClose: (output: T | null) => void;
  /** Above the fields, and below them. */
  readonly intro?: ComponentChildren;
  readonly children?: ComponentChildren;
}

/** @param T its output @param In what is read of its input */
export function OperationDialog<T, In = Input>(props: OperationDialogProps<T, In>) {
  const { operation, of, etag = null, hints = {}, values, plans, before, result, intro, children } = props;
  const { effect, isFinal = false, fields } = operation;
  const verb = titleOf(verbOf(operation));
  const { title = `${verb}${of === undefined ? '' : ` ${nameOf(of)}`}`, action = isFinal ? `${verb} for good` : verb } =
    props;
  const [made, setMade] = useState<readonly [output: T, input: In] | null>(null);
  const message = useRef('');
  const once = useOnce();
  const asked = fields.filter(({ name }) => hints[name] !== null);
  const act = async (form: FormData) => {
    const input = { ...inputIn(form, asked, values), ...props.given?.(form) };
    if (values !== undefined && Object.keys(input).length === 0) {
      throw new ApiError(0, 'unchanged', 'Nothing is changed yet.');
    }
    await before?.(form);
    const headers = {
      ...(operation.isVersioned && of !== undefined && { 'If-Match': etag ?? '*' }),
      ...(operation.once && once(input)),
    };
    const reply = await send<T>(operation, of?.id ?? '', input, headers).catch(async (failure) => {
      if (!(failure instanceof ApiError)) throw failure;
      if (props.failed) throw await props.failed(failure);
      if (failure.status !== 412) throw failure;
      props.reload?.();
      throw new ApiError(412, failure.code, props.stale ?? STALE);
    });
    const { data } = reply;
    message.current = `${props.done?.(data, input as In) ?? `${title}: done.`}${settledText(reply.status)}`;
    props.onDone?.(data, reply.etag);
    if (result === undefined) return message.current;
    setMade([data, input as In]);
    return null;
  };
  const [titleMade = title, shown = null] = made === null ? [] : (result?.(...made) ?? []);
  const close = () => {
    props.onClose(made?.[0] ?? null);
    // After onClose, because a notice belongs to the screen on which it appears.
    if (made !== null) notify(message.current);
  };
  return (
    <ChangeDialog
      title={titleMade}
      action={action}
      isDangerous={isFinal}
      isOneRequest={before === undefined}
      act={act}
      onClose={close}
      result={shown}
    >
      {isFinal && of !== undefined && (
        <p>
          <code>{of.id}</code>
          {of.owner != null && say` of ${<bdi>{of.owner}</bdi>}`}
        </p>
      )}
      {effect !== undefined && <p>{effect}</p>}
      {intro}
      <Fields of={asked} hints={hints} values={values} plans={plans} />
      {children}
    </ChangeDialog>
  );
}
