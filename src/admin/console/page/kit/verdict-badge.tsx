import { windowText } from './limit-windows.tsx';
import { Badge, type BadgeKind } from './page.tsx';

/** The judgements of the log, in words. */
export const VERDICTS: Readonly<Record<string, readonly [title: string, kind: BadgeKind]>> = {
  admitted: ['Admitted', 'plain'],
  refused: ['Refused', 'warn'],
  banned: ['Banned', 'bad'],
  unauthenticated: ['Unknown caller', 'warn'],
  shed: ['Shed', 'warn'],
  forbidden: ['Suspended', 'warn'],
  denied: ['Refused by a policy', 'warn'],
  undecided: ['Undecided', 'bad'],
  malformed: ['Malformed', 'warn'],
  preflight: ['Preflight', 'plain'],
  usage: ['Usage asked', 'plain'],
};

export function VerdictBadge({ verdict, window = null }: { verdict: string; window?: string | null }) {
  const [title, kind] = VERDICTS[verdict] ?? [verdict, 'plain'];
  // By the limits alone: its service may have failed.
  if (verdict === 'admitted') return <>{title}</>;
  return (
    <Badge kind={kind}>
      {title}
      {window !== null && verdict === 'refused' && ` (${windowText(window)})`}
    </Badge>
  );
}
