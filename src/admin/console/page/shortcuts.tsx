import { useEffect, useRef, useState } from 'preact/hooks';
import { Act } from './kit/act.tsx';
import type { IconName } from './kit/icon.tsx';
import { navigate } from './place.ts';
import { signal } from './signal.ts';

// The shortcuts of the console. Find (find.tsx) has its own beside these, and they are listed here.

/** How long after `g` a letter may come, in milliseconds. */
const PAUSE_MS = 1_500;
/** In the storage of the browser: `off` for people whose voice control or slip of the hand types letters (WCAG 2.1.4). */
const SETTING = 'tollgate-shortcuts';

/** Whether a pressed key is meant for the page: no field and no dialog has it, no modifier is held, and shortcuts without one are on. */
export function isBare({ target, metaKey, ctrlKey, altKey }: KeyboardEvent): boolean {
  const isTaken = target instanceof Element && target.closest('input, textarea, select, dialog') !== null;
  return !isTaken && !metaKey && !ctrlKey && !altKey && areOn();
}

function areOn(): boolean {
  try {
    return localStorage.getItem(SETTING) !== 'off';
  } catch {
    // The browser keeps nothing for this page.
    return true;
  }
}

/** Shows the list of the shortcuts. */
export const listAsked = signal();

interface Keyed {
  readonly path: string;
  readonly key: string;
  readonly title: string;
  readonly icon: IconName;
}

/** `g` and the letter of a screen go there, and `?` lists all shortcuts. */
export function Shortcuts({ screens }: { screens: readonly Keyed[] }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    let goesAtMs = Number.NEGATIVE_INFINITY;
    const key = (event: KeyboardEvent) => {
      if (!isBare(event) || document.querySelector('dialog[open]') !== null) return;
      const isSecond = event.timeStamp - goesAtMs < PAUSE_MS;
      goesAtMs = event.key === 'g' ? event.timeStamp : Number.NEGATIVE_INFINITY;
      const screen = isSecond ? screens.find((one) => one.key === event.key) : undefined;
      if (screen !== undefined) navigate(screen.path);
      else if (event.key === '?') setOpen(true);
      else return;
      event.preventDefault();
    };
    const stop = listAsked.listen(() => setOpen(true));
    document.addEventListener('keydown', key);
    return () => {
      document.removeEventListener('keydown', key);
      stop();
    };
  }, [screens]);
  return isOpen ? <List screens={screens} onClose={() => setOpen(false)} /> : null;
}

const OTHERS: readonly (readonly [title: string, ...keys: string[]])[] = [
  ['Find anything', '/'],
  ['Find anything, also in a field', /Mac|iP/.test(navigator.platform) ? '⌘K' : 'Ctrl K'],
  ['From entry to entry of a menu', '↓', '↑'],
  ['Close a dialog or a menu', 'Esc'],
  ['This list', '?'],
];

function List({ screens, onClose }: { screens: readonly Keyed[]; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  const rows = [...screens.map(({ title, key }) => [title, 'g', key] as const), ...OTHERS];
  const set = (event: Event) =>
    localStorage.setItem(SETTING, (event.target as HTMLInputElement).checked ? 'on' : 'off');
  return (
    <dialog ref={dialog} aria-labelledby="keys-title" onClose={onClose}>
      <div class="dialog-body">
        <h2 id="keys-title">Keyboard shortcuts</h2>
        <dl class="shortcuts">
          {rows.map(([title, ...keys]) => (
            <div key={title}>
              <dt>{title}</dt>
              <dd>
                {keys.map((one) => (
                  <kbd key={one}>{one}</kbd>
                ))}
              </dd>
            </div>
          ))}
        </dl>
        <label class="check">
          <input type="checkbox" defaultChecked={areOn()} onChange={set} />
          Letters, / and ? are shortcuts
        </label>
        <div class="dialog-actions">
          <Act text="Close" kind="primary" on={() => dialog.current?.close()} />
        </div>
      </div>
    </dialog>
  );
}
