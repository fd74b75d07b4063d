import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Destination, Listed } from './finder.tsx';
import { Icon } from './kit/icon.tsx';
import { later } from './kit/later.tsx';
import { isBare } from './shortcuts.tsx';

const Finder = later(async () => (await import('./finder.tsx')).Finder);

/** Until the finder is loaded, it offers nothing, and leaves the keys to the field. */
const NONE: Listed = { active: undefined, key: () => {} };

/** The field of the header that finds anything. It opens with a click, with ⌘K or Ctrl+K, and with `/` outside of a field. */
export function Find({ screens }: { screens: readonly Destination[] }) {
  /** Which opening is shown; null while it is closed. The browser says late that a dialog has closed: by then another may be open. */
  const [opening, setOpening] = useState<number | null>(null);
  const openings = useRef(0);
  const open = () => setOpening(++openings.current);
  useLayoutEffect(() => {
    if (opening === null) refocus();
  }, [opening]);
  // With the page, and not after it is drawn: no shortcut is lost.
  useLayoutEffect(() => {
    const key = (event: KeyboardEvent) => {
      const { metaKey, ctrlKey, shiftKey } = event;
      const isAsked =
        (event.key.toLowerCase() === 'k' && (metaKey || ctrlKey) && !shiftKey) || (event.key === '/' && isBare(event));
      if (!isAsked || document.querySelector('dialog[open]') !== null) return;
      event.preventDefault();
      open();
    };
    document.addEventListener('keydown', key);
    return () => document.removeEventListener('keydown', key);
  }, []);
  return (
    <>
      <button type="button" class="find" aria-keyshortcuts="Meta+K Control+K /" onClick={open}>
        <Icon of="search" />
        <span>Find anything</span>
        {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: a kbd takes no focus */}
        <kbd aria-hidden="true">{/Mac|iP/.test(navigator.platform) ? '⌘K' : 'Ctrl K'}</kbd>
      </button>
      {opening !== null && (
        <FindDialog
          key={opening}
          screens={screens}
          onClose={() => setOpening((now) => (now === opening ? null : now))}
        />
      )}
    </>
  );
}

/** Chromium gives no letters to a field that had the focus before a dialog, and has it again, until it gets the focus once more. */
function refocus(): void {
  const focused = document.activeElement as HTMLElement;
  if (!focused.matches('input, textarea')) return;
  focused.blur();
  focused.focus();
}

/**
 * The field, which is there at once, so that no letter after the shortcut is lost, and what is found for its text, which the browser
 * loads when it is first asked for.
 */
function FindDialog({ screens, onClose }: { screens: readonly Destination[]; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState('');
  const [{ active, key }, setListed] = useState(NONE);
  const close = () => dialog.current?.close();
  // Before the browser draws, so that the next letter finds the field.
  useLayoutEffect(() => dialog.current!.showModal(), []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the browser closes a dialog on Escape
    <dialog
      ref={dialog}
      class="finder"
      aria-label="Find anything"
      onClose={onClose}
      onClick={({ target }: Event) => target === dialog.current && close()}
    >
      <div class="finder-body">
        <label>
          <Icon of="search" />
          <span class="hidden">Find</span>
          <input
            value={text}
            placeholder="Name, owner, id, last four, a secret, X-Request-Id…"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            maxlength={4096}
            role="combobox"
            aria-expanded={active !== undefined}
            aria-controls="found"
            aria-activedescendant={active}
            onKeyDown={key}
            onInput={(event: Event) => setText((event.target as HTMLInputElement).value)}
          />
          <kbd>Esc</kbd>
        </label>
        <Finder screens={screens} wanted={text.trim()} onListed={setListed} onClose={close} />
      </div>
    </dialog>
  );
}
