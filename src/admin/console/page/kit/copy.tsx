import { useEffect, useRef, useState } from 'preact/hooks';
import { Act } from './act.tsx';
import { Icon } from './icon.tsx';

/** Copies the text of an element. Without TLS there is no clipboard: the text is then selected. @returns whether it was copied */
async function copyOf(element: HTMLElement): Promise<boolean> {
  const field = element instanceof HTMLTextAreaElement ? element : null;
  try {
    await navigator.clipboard.writeText(field?.value ?? element.textContent ?? '');
    return true;
  } catch {
    field?.focus();
    if (field === null) window.getSelection()?.selectAllChildren(element);
    else field.select();
    return false;
  }
}

/** A button that copies the text of the element `of`. @param text what it is now: "Copied." goes when it changes */
export function CopyButton({ of: id, what, text }: { of: string; what: string; text?: string }) {
  const [said, setSaid] = useState('');
  useEffect(() => setSaid(''), [text]);
  const copy = async () => {
    const element = document.getElementById(id)!;
    setSaid((await copyOf(element)) ? 'Copied.' : 'Selected: copy it with Ctrl+C or ⌘C.');
  };
  return (
    <>
      <Act text={`Copy ${what}`} on={copy} /> <span role="status">{said}</span>
    </>
  );
}

/** An id with a button that copies it. */
export function CopyId({ id }: { id: string }) {
  return (
    <span class="copy-id">
      <CopyIcon what={id} id={id} />
    </span>
  );
}

/** A button that copies a text, which is in sight beside it as the id, or only where the browser has no clipboard and it must be selected. */
export function CopyIcon({ what, id, text }: { what: string; id?: string; text?: string }) {
  const place = useRef<HTMLElement>(null);
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 2_000);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    if (text !== undefined) place.current!.textContent = text;
    const isDone = await copyOf(place.current!);
    if (text !== undefined && isDone) place.current!.textContent = '';
    setCopied(isDone);
  };
  return (
    <>
      <code ref={place}>{id}</code>
      <button
        type="button"
        class="quiet icon-only"
        aria-label={isCopied ? 'Copied' : `Copy ${what}`}
        title={`Copy${id === undefined ? ` ${what}` : ''}`}
        onClick={copy}
      >
        <Icon of={isCopied ? 'check' : 'copy'} />
      </button>
    </>
  );
}
