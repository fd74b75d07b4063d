import type { ComponentChildren, SelectHTMLAttributes } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { present, usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { ApiError, useResource } from '../requests.ts';
import { signal } from '../signal.ts';
import type { GatewayList } from '../types.ts';
import { Act, Fault } from './act.tsx';
import { CopyButton } from './copy.tsx';
import { commandOf } from './curl.ts';

// Changes are made in a dialog that names the object, and report afterwards what happened.

const notices = signal<string>();

/** Shows what happened in the notice at the foot of the page, which screen readers read out. */
export function notify(message: string): void {
  notices.send(message);
}

/** How long a notice stays, unless the pointer or the focus is on it, in milliseconds. */
const NOTICE_MS = 20_000;

/** The place of the last notice. It belongs to the screen on which it appeared, and disappears before it is no longer true. */
export function Notices() {
  const { path } = usePlace();
  const [notice, setNotice] = useState<{ message: string; path: string } | null>(null);
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => notices.listen((message) => setNotice({ message, path: present().path })), []);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const hide = () => {
      if (frame.current?.matches(':hover, :focus-within')) wait();
      else setNotice(null);
    };
    const wait = () => {
      timer = setTimeout(hide, NOTICE_MS);
    };
    if (notice !== null) wait();
    return () => clearTimeout(timer);
  }, [notice]);
  return (
    <div class="notices" role="status" aria-live="polite" ref={frame}>
      {notice?.path === path && (
        <div class="notice">
          <p>{notice.message}</p>
          <Act text="Close" kind="quiet" on={() => setNotice(null)} />
        </div>
      )}
    </div>
  );
}

interface ChangeDialogProps {
  /** With the name of the object: `Lift the ban of Jo's shop`. */
  readonly title: string;
  /** The text of the button: `Lift the ban`. */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** Whether `act` sends one request and nothing else, which can then be copied as a command. */
  readonly isOneRequest?: boolean;
  /** Fields and sentences. */
  readonly children?: ComponentChildren;
  /**
   * Makes the change.
   * @returns what happened, for the notice; null if the dialog stays open and shows `result`
   * @throws ApiError, which the dialog shows
   */
  readonly act: (form: FormData) => Promise<string | null>;
  readonly onClose: () => void;
  /** The result of the change, such as a secret, in place of the fields. Only its button closes the dialog then, not Escape. */
  readonly result?: ComponentChildren;
}

/** A dialog that makes one change. The browser keeps the focus inside and gives it back afterwards. */
export function ChangeDialog({
  title,
  action,
  isDangerous = false,
  isOneRequest = false,
  children,
  act,
  onClose,
  result,
}: ChangeDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<string | null>(null);
  const [isRunning, setRunning] = useState(false);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const [command, setCommand] = useState<string | null>(null);
  /** Whether the form can be sent; otherwise it says why not. */
  const isSound = (form: HTMLFormElement) => {
    const wrong = invalidIn(form);
    setError(wrong);
    return wrong === null;
  };
  const showCommand = async (event: Event) => {
    const form = (event.target as HTMLElement).closest('form')!;
    if (!isSound(form)) return;
    try {
      const found = await commandOf(() => act(new FormData(form)));
      setCommand(found);
      if (found === null) setError('There is no change to send.');
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure.message);
    }
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isRunning) return;
    const form = event.target as HTMLFormElement;
    if (!isSound(form)) return;
    setRunning(true);
    setError(null);
    try {
      const message = await act(new FormData(form));
      if (message !== null) {
        // In this order, because a screen reader does not read what is behind an open dialog.
        dialog.current?.close();
        notify(message);
      }
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(atFields(form, failure.message));
    } finally {
      setRunning(false);
    }
  };
  const close = () => dialog.current?.close();
  /** A fault that was mended does not stay. */
  const clear = (event: Event) => {
    const form = (event.target as HTMLInputElement).form;
    if (form === null) return;
    setCommand(null);
    let isWrong = false;
    for (const field of form.elements as unknown as Iterable<HTMLInputElement>) {
      if (field.getAttribute('aria-invalid') !== 'true') continue;
      if (field.validity.valid) field.setAttribute('aria-invalid', 'false');
      else isWrong = true;
    }
    if (!isWrong) setError(null);
  };
  if (result) {
    return (
      <dialog ref={dialog} aria-labelledby="dialog-title" closedby="none" onClose={onClose}>
        <div class="dialog-body">
          <h2 id="dialog-title">{title}</h2>
          {result}
          <div class="dialog-actions">
            <Act text="Done" kind="primary" on={close} />
          </div>
        </div>
      </dialog>
    );
  }
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={onClose}>
      <form noValidate onSubmit={submit} onInput={clear} onChange={clear}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        {command !== null && (
          <div class="field">
            <label for="as-curl">The same for a shell, with your token in TOLLGATE_TOKEN</label>
            <textarea id="as-curl" class="code" readonly rows={5} spellcheck={false} value={command}></textarea>
            <p>
              <CopyButton of="as-curl" what="the command" />
            </p>
          </div>
        )}
        <div class="dialog-actions">
          <Fault of={error} />
          {isOneRequest && <Act text="As curl" kind="quiet" on={showCommand} />}
          <Act text="Cancel" on={close} />
          <button type="submit" class={isDangerous ? 'danger' : 'primary'} aria-busy={isRunning}>
            {isRunning ? 'Working…' : action}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Marks a field as wrong and brings it into sight. */
function goTo(field: HTMLInputElement): void {
  field.setAttribute('aria-invalid', 'true');
  field.closest('details')?.setAttribute('open', '');
  field.focus();
}

/** The faults that the gateway has found, with the labels of the fields in place of its members: `Addresses, line 2: must be …`. */
function atFields(form: HTMLFormElement, message: string): string {
  const found: HTMLInputElement[] = [];
  const said = message.replace(
    /(^|[.] )(\w+)(?:[.](\w+))?(?: is missing:)? (?=[a-z])/g,
    (whole, end, member, part = '') => {
      const isLine = /^\d+$/.test(part);
      const name = part === '' || isLine ? member : part;
      const field = form.elements.namedItem(name);
      if (!(field instanceof HTMLElement)) return whole;
      found.push(field as HTMLInputElement);
      return `${end}${labelOf(field as HTMLInputElement)}${isLine ? `, line ${Number(part) + 1}` : ''}: `;
    },
  );
  for (const field of found.toReversed()) goTo(field);
  return said;
}

function labelOf({ labels }: HTMLInputElement | HTMLSelectElement): string {
  return labels?.[0]?.textContent?.trim() ?? '';
}

/** @returns what is wrong with the first invalid field of a form, which gets the focus; null if all are valid */
function invalidIn(form: HTMLFormElement): string | null {
  let first: HTMLInputElement | null = null;
  for (const field of form.elements as unknown as Iterable<HTMLInputElement>) {
    const isWrong = field.willValidate && !field.validity.valid;
    if (isWrong) first ??= field;
    if (isWrong || field.hasAttribute('aria-invalid')) field.setAttribute('aria-invalid', String(isWrong));
  }
  if (first === null) return null;
  goTo(first);
  return faultOf(first);
}

/** What is wrong with an invalid field: what it takes, if the field says it in its title. */
export function faultOf(field: HTMLInputElement | HTMLSelectElement): string {
  const missing = field instanceof HTMLSelectElement ? 'choose one.' : 'fill this in.';
  return `${labelOf(field)}: ${field.validity.valueMissing ? missing : field.title || field.validationMessage}`;
}

/** What a response with `durability: unknown` adds to a notice. */
export function settledText(status: number): string {
  return status === 202 ? ' It is in force, but a failover of Redis may still undo it.' : '';
}

interface FieldProps {
  readonly id: string;
  readonly label: string;
  readonly hint?: string | undefined;
  readonly children: ComponentChildren;
}

/** A labelled field. `hint` and the label are tied to the input by id. */
export function Field({ id, label, hint, children }: FieldProps) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children}
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

interface SelectProps extends Pick<SelectHTMLAttributes, 'name' | 'required' | 'class' | 'value' | 'onChange'> {
  readonly id: string;
  readonly label: string;
  readonly hint?: string | undefined;
  readonly options: readonly (readonly [value: string, text: ComponentChildren])[];
  /** What is chosen at first, where `value` does not say what is chosen. */
  readonly first?: string | undefined;
}

/** A field with a choice. */
export function SelectField({ id, label, hint, options, first, ...rest }: SelectProps) {
  return (
    <Field id={id} label={label} hint={hint}>
      <select id={id} aria-describedby={hint && `${id}-hint`} {...rest}>
        {options.map(([value, text]) => (
          <option key={value} value={value} selected={first === undefined ? undefined : value === first}>
            {text}
          </option>
        ))}
      </select>
    </Field>
  );
}

/** Fields that few need: they are shown after a click. @param isOpen whether they are shown at once */
export function Fold({ title, isOpen, children }: { title: string; isOpen: boolean; children: ComponentChildren }) {
  return (
    <details open={isOpen}>
      <summary>{title}</summary>
      <div class="stack after">{children}</div>
    </details>
  );
}

/** A new secret, which the gateway cannot show again. It is in the page only as long as this element is. */
export function SecretShown({ secret, children }: { secret: string; children?: ComponentChildren }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const gateways = ifKnown(useResource<GatewayList>('/admin/gateways').reading)?.gateways ?? [];
  const address = gateways.find(({ self }) => self)?.address;
  useEffect(() => {
    field.current!.focus();
    field.current!.select();
  }, []);
  return (
    <>
      <p>Copy the secret now. It is shown only once.</p>
      <div class="field">
        <label for="new-secret">Secret</label>
        <textarea
          ref={field}
          id="new-secret"
          class="code"
          readonly
          rows={2}
          autocomplete="off"
          spellcheck={false}
          value={secret}
        ></textarea>
      </div>
      <p class="row">
        <CopyButton of="new-secret" what="the secret" />
      </p>
      {address !== undefined && (
        <>
          <pre class="effect pre" id="new-secret-curl">
            curl -H 'Authorization: Bearer {secret}' {address}/
          </pre>
          <p class="row">
            <CopyButton of="new-secret-curl" what="a request with it" />
          </p>
        </>
      )}
      {children}
    </>
  );
}
