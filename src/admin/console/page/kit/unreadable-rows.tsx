import type { SearchPage } from '../types.ts';
import { Badge } from './page.tsx';

/** Records that the store has and cannot read. Nothing more is known of them, so they have no columns. */
export function UnreadableRows({ rows, noun }: { rows: SearchPage['unreadable']; noun: string }) {
  if (rows.length === 0) return null;
  return (
    <ul class="panel stack" aria-label={`Unreadable ${noun}s`}>
      {rows.map(({ id, reason }) => (
        <li key={id}>
          <Badge kind="bad">Unreadable</Badge> <code>{id}</code> <span class="muted">{reason}</span>
        </li>
      ))}
    </ul>
  );
}
