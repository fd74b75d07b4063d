/** A cell of a table. `mark` is the CSS class of a highlighted cell. */
type Cell = string | { readonly text: string; readonly mark?: string };

/** Escapes untrusted text for use between tags or in an attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** A table that scrolls horizontally if the page is too narrow for it. */
export function tableOf(heads: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cellHtml = (cell: Cell) =>
    typeof cell === 'string'
      ? `<td>${escapeHtml(cell)}</td>`
      : `<td class="${cell.mark ?? 'text'}">${escapeHtml(cell.text)}</td>`;
  const head = heads.map((text) => `<th>${escapeHtml(text)}</th>`).join('');
  const body = rows.map((row) => `<tr>${row.map(cellHtml).join('')}</tr>`).join('\n');
  return `<div class="wide"><table>\n<tr>${head}</tr>\n${body}\n</table></div>`;
}
