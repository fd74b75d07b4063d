import { useEffect, useRef, useState } from 'preact/hooks';
import type { Destination } from './finder.ts';
import { html } from './html.ts';
import { Icon } from './kit/icon.ts';
import { later } from './kit/later.ts';

const Finder = later(async () => (await import('./finder.ts')).Finder);

/** The field of the header that finds anything. It opens with a click, with ⌘K or Ctrl+K, and with `/` outside of a field. */
export function Find({ screens }: { screens: readonly Destination[] }) {
  const [isOpen, setOpen] = useState(false);
  /** Gives what was typed since the reader asked for the finder; null while it is closed. */
  const typed = useRef<(() => string) | null>(null);
  const open = () => {
    typed.current ??= keepTyped();
    setOpen(true);
  };
  const close = () => {
    typed.current?.();
    typed.current = null;
    setOpen(false);
  };
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const { target, metaKey, ctrlKey, shiftKey } = event;
      const isTyping = target instanceof Element && target.closest('input, textarea, select, dialog') !== null;
      const isAsked =
        (event.key.toLowerCase() === 'k' && (metaKey || ctrlKey) && !shiftKey) || (event.key === '/' && !isTyping);
      if (!isAsked || document.querySelector('dialog[open]') !== null) return;
      event.preventDefault();
      open();
    };
    document.addEventListener('keydown', key);
    return () => document.removeEventListener('keydown', key);
  }, []);
  return html`<button type="button" class="find" aria-keyshortcuts="Meta+K Control+K /" onClick=${open}>
      <${Icon} of="search" /><span>Find anything</span><kbd aria-hidden="true">${/Mac|iP/.test(navigator.platform) ? '⌘K' : 'Ctrl K'}</kbd>
    </button>
    ${isOpen && html`<${Finder} screens=${screens} typed=${typed.current} onClose=${close} />`}`;
}

/** Keeps what is typed and pasted while no field is there yet for it. @returns a function that ends this and gives the text */
function keepTyped(): () => string {
  let text = '';
  const key = (event: KeyboardEvent) => {
    if (event.key.length !== 1 || event.metaKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    text += event.key;
  };
  const paste = (event: ClipboardEvent) => {
    text += event.clipboardData?.getData('text') ?? '';
  };
  document.addEventListener('keydown', key);
  document.addEventListener('paste', paste);
  return () => {
    document.removeEventListener('keydown', key);
    document.removeEventListener('paste', paste);
    return text;
  };
}
