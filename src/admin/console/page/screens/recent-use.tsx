import { pathOf } from '../kit/callers.tsx';
import { countText, say, Time } from '../kit/format.tsx';
import { ifKnown } from '../reading.ts';
import { useResource } from '../requests.ts';
import type { History, RefusalsOfCaller } from '../types.ts';

/** What a change would stop: what a key or a customer has called in the last 24 hours, and when last. Nothing while it is not known. */
export function RecentUse({ id }: { id: string }) {
  const history = ifKnown(useResource<History>(`${pathOf(id)}/history?step=hour&from=24h`).reading);
  const recent = useResource<RefusalsOfCaller>(`/admin/refusals?caller=${encodeURIComponent(id)}`).reading;
  const last = ifKnown(recent)?.last ?? null;
  if (history === null) return null;
  const sum = history.buckets.reduce((total, { admitted }) => total + admitted, 0);
  return (
    <p class="effect">
      {sum === 0
        ? 'Nothing was admitted in the last 24 hours.'
        : say`${<strong>{countText(sum)}</strong>} admitted in the last 24 hours.`}
      {last !== null && say` Last request ${<Time at={last.at} />} from ${<code>{last.clientAddress}</code>}.`}
    </p>
  );
}
