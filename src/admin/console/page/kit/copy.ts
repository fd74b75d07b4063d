import { useEffect, useRef, useState } from 'preact/hooks';
import { html } from '../html.ts';
import { Icon } from './icon.ts';

/** A button that copies the text of the element `of`. Without TLS there is no clipboard: the text is then selected. */
export function CopyButton({ of: id, what }: { of: string; what: string }) {
  const [said, setSaid] = useState('');
  const copy = async () => {
    const element = document.getElementById(id)!;
    const field = element instanceof HTMLTextAreaElement ? element : null;
    try {
      await navigator.clipboard.writeText(field?.value ?? element.textContent ?? '');
      setSaid('Copied.');
    } catch {
      field?.focus();
      if (field === null) window.getSelection()?.selectAllChildren(element);
      else field.select();
      setSaid('Selected: copy it with Ctrl+C or ⌘C.');
    }
  };
  return html`<button type="button" onClick=${copy}>Copy ${what}</button> <span role="status">${said}</span>`;
}

/** An id with a button that copies it. */
export function CopyId({ id }: { id: string }) {
  const text = useRef<HTMLElement>(null);
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 2_000);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(id);
      setCopied(true);
    } catch {
      window.getSelection()?.selectAllChildren(text.current!);
    }
  };
  return html`<span class="copy-id"><code ref=${text}>${id}</code><button type="button" class="quiet icon-only" aria-label=${isCopied ? 'Copied' : `Copy ${id}`} title="Copy" onClick=${copy}><${Icon} of=${isCopied ? 'check' : 'copy'} /></button></span>`;
}
