import { useState } from 'preact/hooks';
import { html } from '../html.ts';

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
