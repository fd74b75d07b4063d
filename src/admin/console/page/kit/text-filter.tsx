import { useEffect, useRef, useState } from 'preact/hooks';
import { isWholeId } from './callers.tsx';
import { faultOf } from './dialog.tsx';

/** Whether a text may be a secret: one of ours, or long without spaces, and neither an id nor an address of e-mail. */
export function isSecretLike(text: string): boolean {
  const bare = text.trim();
  if (bare.includes('tg_live_')) return true;
  if (isWholeId(bare) || /^[^@\s]+@[^@\s]+\.[a-z]{2,}$/.test(bare)) return false;
  return bare.length >= 20 && !/\s/.test(bare);
}

/** Whether the text of a filter may be a secret. `q` is the only one into which people paste secrets of any maker. */
export function isSecretIn(name: string, text: string): boolean {
  return name === 'q' ? isSecretLike(text) : text.includes('tg_live_');
}

/** How long after the last letter a search begins, in milliseconds. */
const PAUSE_MS = 400;

interface TextFilterProps {
  readonly id: string;
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly placeholder?: string;
  readonly pattern?: string;
  readonly title?: string;
  readonly set: (name: string, value: string) => void;
  /** Is given a secret that was typed or pasted. */
  readonly onSecret?: (secret: string) => void;
  /** Is given what is wrong with a text that does not match the pattern. */
  readonly onFault?: (fault: string) => void;
}

/** A filter of text, applied while the user types. A secret in it never gets into the address: the field is emptied. */
export function TextFilter(props: TextFilterProps) {
  const { id, name, label, value, placeholder = label, pattern, title, set, onSecret, onFault } = props;
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
  const commit = (input: HTMLInputElement, isWhole: boolean) => {
    clearTimeout(timer.current);
    const wanted = input.value.trim();
    if (isSecretIn(name, wanted)) {
      setText('');
      input.value = '';
      sent.current = '';
      if (value !== '') set(name, '');
      onSecret?.(wanted);
    } else if (!input.checkValidity()) {
      if (isWhole) onFault?.(faultOf(input));
    } else if (wanted !== sent.current) {
      sent.current = wanted;
      set(name, wanted);
    }
  };
  const onInput = (event: InputEvent) => {
    const input = event.target as HTMLInputElement;
    if (event.inputType === 'insertFromPaste' || event.inputType === 'insertFromDrop') {
      commit(input, false);
      if (input.value !== '') setText(input.value);
      return;
    }
    setText(input.value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => commit(input, false), PAUSE_MS);
  };
  return (
    <div class={`field ${name === 'q' ? 'wide' : ''}`}>
      <label for={id}>{label}</label>
      <input
        {...{ id, pattern, title, placeholder }}
        type="search"
        value={text}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        maxlength={4096}
        class={value === '' ? '' : 'is-set'}
        onInput={onInput}
        onChange={(event: Event) => commit(event.target as HTMLInputElement, true)}
      />
    </div>
  );
}
