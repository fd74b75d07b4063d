/** A cell of a table; `mark` is the class of one that stands out. */
export type Cell = string | { readonly text: string; readonly mark?: string };

/** What anybody may have written, as text between tags or in an attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** A table that scrolls by itself where the page is too narrow for it. */
export function tableOf(heads: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cell = (it: Cell) =>
    typeof it === 'string'
      ? `<td>${escapeHtml(it)}</td>`
      : `<td class="${it.mark ?? 'text'}">${escapeHtml(it.text)}</td>`;
  const head = heads.map((it) => `<th>${escapeHtml(it)}</th>`).join('');
  const body = rows.map((row) => `<tr>${row.map(cell).join('')}</tr>`).join('\n');
  return `<div class="wide"><table>\n<tr>${head}</tr>\n${body}\n</table></div>`;
}
