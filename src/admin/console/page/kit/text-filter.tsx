import { useEffect, useRef, useState } from 'preact/hooks';
import { isWholeId } from './callers.tsx';

/** Whether a text may be a secret: one of ours, or long without spaces, and neither an id nor an address of e-mail. */
export function isSecretLike(text: string): boolean {
  const bare = text.trim();
  if (bare.includes('tg_live_')) return true;
  if (isWholeId(bare) || /^[^@\s]+@[^@\s]+\.[a-z]{2,}$/.test(bare)) return false;
  return bare.length >= 20 && !/\s/.test(bare);
}

/** How long after the last letter a search begins, in milliseconds. */
const PAUSE_MS = 400;

/**
 * A filter of text, applied while the user types. A secret in it never gets into the address: the field is emptied.
 * @param onSecret is given the secret
 */
export function TextFilter({
  name,
  label,
  value,
  placeholder = label,
  isWide = false,
  set,
  onSecret,
}: {
  name: string;
  label: string;
  value: string;
  /** What may be typed, if the label does not say it. */
  placeholder?: string;
  isWide?: boolean;
  set: (name: string, value: string) => void;
  onSecret: (secret: string) => void;
}) {
  const [text, setText] = useState(value);
  const sent = useRef(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    // The address was changed by something other than this field.
    if (value === sent.current) return;
    sent.current = value;
    setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const commit = (input: HTMLInputElement) => {
    clearTimeout(timer.current);
    const wanted = input.value.trim();
    if (name === 'q' ? isSecretLike(wanted) : wanted.includes('tg_live_')) {
      setText('');
      input.value = '';
      sent.current = '';
      if (value !== '') set(name, '');
      onSecret(wanted);
    } else if (wanted !== sent.current) {
      sent.current = wanted;
      set(name, wanted);
    }
  };
  const onInput = (event: InputEvent) => {
    const input = event.target as HTMLInputElement;
    if (event.inputType === 'insertFromPaste' || event.inputType === 'insertFromDrop') {
      commit(input);
      if (input.value !== '') setText(input.value);
      return;
    }
    setText(input.value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => commit(input), PAUSE_MS);
  };
  const id = `filter-${name}`;
  return (
    <div class={`field ${isWide ? 'wide' : ''}`}>
      <label for={id}>{label}</label>
      <input
        id={id}
        type="search"
        value={text}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        maxlength={4096}
        placeholder={placeholder}
        class={value === '' ? '' : 'is-set'}
        onInput={onInput}
        onChange={(event: Event) => commit(event.target as HTMLInputElement)}
      />
    </div>
  );
}

/** The address of a screen with its filters, one of them changed. */
export function pathWith<Name extends string>(
  path: string,
  given: readonly (readonly [Name, string])[],
  name: Name,
  value: string,
): string {
  const query = new URLSearchParams(given.map(([name, value]) => [name, value]));
  if (value === '') query.delete(name);
  else query.set(name, value);
  const text = query.toString();
  return text === '' ? path : `${path}?${text}`;
}
