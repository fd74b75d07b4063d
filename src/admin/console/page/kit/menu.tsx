import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { usePlace } from '../place.ts';
import { Icon } from './icon.tsx';

/**
 * A button that opens a panel of links and buttons below it. The panel closes with Escape, by a click beside it, when the focus
 * leaves it, and when the screen changes.
 * @param button what the button shows
 * @param kind the class of the button
 * @param children of the panel, which is made only while it is open; they get what closes it and gives the focus back
 */
export function Menu({
  button,
  kind = 'quiet',
  children,
}: {
  button: ComponentChildren;
  kind?: string;
  children: (close: () => void) => ComponentChildren;
}) {
  const [isOpen, setOpen] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
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
    const key = (event: KeyboardEvent) => {
      if (event.key === 'Escape') close();
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
      <button type="button" class={kind} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {button}
      </button>
      {isOpen && <div class="menu">{children(close)}</div>}
    </div>
  );
}

/** Buttons of a menu that open dialogs: the menu closes first, so that the focus returns to its button afterwards. */
export function MoreMenu({ entries }: { entries: readonly (readonly [text: string, act: () => void])[] }) {
  if (entries.length === 0) return null;
  return (
    <Menu
      kind=""
      button={
        <>
          More
          <Icon of="down" />
        </>
      }
    >
      {(close: () => void) => {
        const run = (act: () => void) => {
          close();
          act();
        };
        return (
          <div>
            {entries.map(([text, act]) => (
              <button key={text} type="button" onClick={() => run(act)}>
                {text}
              </button>
            ))}
          </div>
        );
      }}
    </Menu>
  );
}
