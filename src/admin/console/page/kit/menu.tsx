import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { usePlace } from '../place.ts';
import { Act } from './act.tsx';
import { say } from './format.tsx';
import { Icon } from './icon.tsx';

interface MenuProps {
  readonly button: ComponentChildren;
  readonly kind?: string;
  readonly children: (close: () => void) => ComponentChildren;
}

/**
 * A button that opens a panel of links and buttons below it. The panel closes with Escape, by a click beside it, when the focus
 * leaves it, and when the screen changes. The arrow keys, Home and End go from entry to entry.
 * @param button what the button shows
 * @param kind the class of the button
 * @param children of the panel, which is made only while it is open; they get what closes it and gives the focus back
 */
export function Menu({ button, kind = 'quiet', children }: MenuProps) {
  const [isOpen, setOpen] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  /** Whether the arrow key opens it, which goes to the first entry. */
  const isByArrow = useRef(false);
  const { path } = usePlace();
  const close = () => {
    setOpen(false);
    frame.current!.querySelector('button')!.focus();
  };
  useEffect(() => setOpen(false), [path]);
  useEffect(() => {
    if (!isOpen) return;
    const leave = ({ target }: Event) => {
      if (!frame.current!.contains(target as Node)) setOpen(false);
    };
    const entries = [...frame.current!.querySelectorAll<HTMLElement>('.menu :is(button, a)')];
    if (isByArrow.current) entries[0]?.focus();
    isByArrow.current = false;
    const key = (event: KeyboardEvent) => {
      if (event.key === 'Escape') close();
      const at = entries.indexOf(document.activeElement as HTMLElement);
      const next = { ArrowDown: at + 1, ArrowUp: at === -1 ? -1 : at - 1, Home: 0, End: -1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      entries.at(next % entries.length)!.focus();
    };
    document.addEventListener('pointerdown', leave);
    document.addEventListener('focusin', leave);
    document.addEventListener('keydown', key);
    return () => {
      document.removeEventListener('pointerdown', leave);
      document.removeEventListener('focusin', leave);
      document.removeEventListener('keydown', key);
    };
  }, [isOpen]);
  return (
    <div class="account" ref={frame}>
      <Act
        text={button}
        kind={kind}
        aria-expanded={isOpen}
        on={() => setOpen(!isOpen)}
        onKeyDown={(event: KeyboardEvent) => {
          if (event.key !== 'ArrowDown' || isOpen) return;
          event.preventDefault();
          isByArrow.current = true;
          setOpen(true);
        }}
      />
      {isOpen && <div class="menu">{children(close)}</div>}
    </div>
  );
}

/** @param isFinal whether it ends something for good: it is then red, and below the others */
type MenuEntry = readonly [text: string, act: () => void, isFinal: boolean];

/** Buttons of a menu that open dialogs: the menu closes first, so that the focus returns to its button afterwards. */
export function MoreMenu({ entries }: { entries: readonly MenuEntry[] }) {
  if (entries.length === 0) return null;
  return (
    <Menu kind="" button={say`More${<Icon of="down" />}`}>
      {(close: () => void) => {
        const run = (act: () => void) => {
          close();
          act();
        };
        const groups = Map.groupBy(entries, ([, , isFinal]) => isFinal);
        return [false, true].map((isFinal) => (
          <div key={String(isFinal)} class={isFinal ? 'final' : ''}>
            {groups.get(isFinal)?.map(([text, act]) => (
              <Act text={text} key={text} on={() => run(act)} />
            ))}
          </div>
        ));
      }}
    </Menu>
  );
}
