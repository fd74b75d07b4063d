import type { ButtonHTMLAttributes, ComponentChildren } from 'preact';
import { hrefOf } from '../place.ts';

type ButtonProps = Omit<ButtonHTMLAttributes, 'class' | 'type' | 'onClick' | 'ref'>;

/** A button that acts when it is clicked. @param kind its class, such as `primary`; a usual one unless given */
export function Act({
  text,
  on,
  kind,
  ...rest
}: ButtonProps & { text: ComponentChildren; on: (event: MouseEvent) => unknown; kind?: string | undefined }) {
  return (
    <button type="button" class={kind} onClick={on} {...rest}>
      {text}
    </button>
  );
}

/** A link to a screen that looks like a button. */
export function Go({ text, path, kind = '' }: { text: ComponentChildren; path: string; kind?: string }) {
  return (
    <a class={`button ${kind}`} href={hrefOf(path)}>
      {text}
    </a>
  );
}

/** What is wrong with a form; nothing if it is null. */
export function Fault({ of }: { of: ComponentChildren }) {
  if (of === null) return null;
  return (
    <p class="problem-line wide" role="alert">
      {of}
    </p>
  );
}
