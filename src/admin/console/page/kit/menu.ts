import { useEffect, useRef, useState } from 'preact/hooks';
import { type Children, html } from '../html.ts';
import { usePlace } from '../router.ts';

/**
 * A button that opens a panel of links and buttons below it. The panel closes with Escape, by a click beside it, when the focus
 * leaves it, and when the screen changes.
 * @param button what the button shows
 * @param children of the panel, which is made only while it is open
 */
export function Menu({ button, children }: { button: Children; children: () => Children }) {
  const [isOpen, setOpen] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  const { path } = usePlace();
  useEffect(() => setOpen(false), [path]);
  useEffect(() => {
    if (!isOpen) return;
    const leave = ({ target }: Event) => {
      if (!frame.current!.contains(target as Node)) setOpen(false);
    };
    const key = (event: KeyboardEvent) => {
      if (event.key !== 'Escape') return;
      setOpen(false);
      frame.current!.querySelector('button')!.focus();
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
  return html`<div class="account" ref=${frame}>
    <button type="button" class="quiet" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${button}</button>
    ${isOpen && html`<div class="menu">${children()}</div>`}
  </div>`;
}
