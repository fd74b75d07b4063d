import { useState } from 'preact/hooks';
import { callersText } from '../../../../model/caller-count.ts';
import { Act } from '../kit/act.tsx';
import { callerColumn } from '../kit/callers.tsx';
import { type Column, Table } from '../kit/data-table.tsx';
import { countText, Prose, say } from '../kit/format.tsx';
import type { AffectedCaller, AffectedPlan } from '../types.ts';

// The keys and customers for which a change of plans changes something.

/** @param affected null if they could not be counted */
export function Affected({ affected }: { affected: readonly AffectedPlan[] | null }) {
  if (affected === null) return <p class="muted">Not known: the active keys could not be counted.</p>;
  if (affected.length === 0) return <p class="muted">No active key, and no customer.</p>;
  return (
    <div class="stack">
      {affected.map((one) => (
        <OfPlan key={one.plan} {...one} />
      ))}
    </div>
  );
}

const COLUMNS: readonly Column<AffectedCaller>[] = [
  callerColumn('Name'),
  { title: 'Limits', cell: ({ limits, breaks }) => <Limits of={limits} breaks={breaks} /> },
];

function OfPlan({ plan, keys, customers, keysOfCustomers, callers }: AffectedPlan) {
  const [isOpen, setOpen] = useState(false);
  const more = keys + customers - callers.length;
  return (
    <div class="panel stack">
      <p class="row">
        <strong class="clamp">
          <bdi>{plan}</bdi>
        </strong>
        <span class="muted">
          <Prose text={callersText({ customers, keysOfCustomers, ownKeys: keys })} />
        </span>
        <Act text={isOpen ? 'Hide them' : 'Show them'} aria-expanded={isOpen} on={() => setOpen(!isOpen)} />
      </p>
      {isOpen && (
        <Table caption={`Keys and customers of ${plan}`} rows={callers} keyOf={({ id }) => id} columns={COLUMNS} />
      )}
      {isOpen && more > 0 && <p class="muted">And {countText(more)} more.</p>}
    </div>
  );
}

function Limits({ of: limits, breaks }: { of: AffectedCaller['limits']; breaks: boolean }) {
  if (breaks) return <span class="badge bad">Could not be served any more</span>;
  if (limits.length === 0) return <span class="muted">unchanged; other settings of the plan change</span>;
  return limits.map(
    ({ window, from, to }, i) =>
      say`${i > 0 && ', '}${window} ${limitText(from)} → ${<strong>{limitText(to)}</strong>}`,
  );
}

function limitText(limit: AffectedCaller['limits'][number]['from']): string {
  return limit === null ? 'none' : countText(limit);
}
