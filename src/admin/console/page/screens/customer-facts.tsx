import { countText, millisecondsOf, plural, Time, Until } from '../kit/format.tsx';
import { isRefusing } from '../kit/limit-windows.tsx';
import { Badge, Section } from '../kit/page.tsx';
import { Good, NotKnown } from '../kit/seen.tsx';
import type { Reading } from '../reading.ts';
import type { Customer, CustomerStanding, Usage } from '../types.ts';
import { FurtherFacts, ListedFacts } from './attribute-fields.tsx';
import { StandingBadge } from './caller-facts.tsx';
import { isSuspended } from './caller-state.ts';

// What is said of one customer, on its screen and in the list.

export function hasExpired({ expiresAt }: Customer): boolean {
  return expiresAt !== null && millisecondsOf(expiresAt) <= Date.now();
}

/**
 * The state of a customer, which is that of its keys.
 * @param counts what it has used; left out in a list
 */
export function CustomerState({
  of: customer,
  standing,
  counts,
}: {
  of: Customer;
  standing: Reading<CustomerStanding>;
  counts?: Reading<Usage>;
}) {
  if (hasExpired(customer)) return <Badge kind="plain">Expired</Badge>;
  if (isSuspended(customer)) return <Badge kind="warn">Suspended</Badge>;
  if (standing.state !== 'known') return <NotKnown of={standing} />;
  const { ban, keys, banned, until, complete } = standing.value;
  if (ban !== null) return <StandingBadge of={{ ...standing, value: { kind: 'banned', until: ban.until } }} />;
  if (banned > 0) {
    const all = complete ? plural(keys, 'key') : `more than ${plural(keys, 'key')}`;
    return (
      <Badge kind={banned === keys ? 'bad' : 'warn'}>
        {countText(banned)} of {all} banned, until <Until at={until!} />
      </Badge>
    );
  }
  if (!complete) return <Badge kind="plain">No ban of {plural(keys, 'key')}, others not looked at</Badge>;
  if (counts !== undefined && counts.state !== 'known') return <NotKnown of={counts} />;
  // Its limits say which window is spent.
  return counts?.state === 'known' && isRefusing(counts.value) ? null : <Good of={standing}>Active</Good>;
}

export function CustomerFacts({ of: customer }: { of: Customer }) {
  const { createdAt, expiresAt, ownLimits, entry } = customer;
  const own = Object.entries(ownLimits).map(([window, limit]) => `${countText(limit!)} a ${window}`);
  return (
    <Section title="About">
      <dl class="facts panel">
        <ListedFacts of={customer} />
        <dt>Created</dt>
        <dd>
          <Time at={createdAt} dayOnly={true} />
        </dd>
        <dt>Expires</dt>
        <dd>
          {expiresAt === null ? 'never' : hasExpired(customer) ? <Time at={expiresAt} /> : <Until at={expiresAt} />}
        </dd>
        <dt>Own limits</dt>
        <dd>{own.join(', ') || 'none'}</dd>
        {entry !== undefined && (
          <>
            <dt>keys.yaml</dt>
            <dd>
              <code>{entry}</code>
            </dd>
          </>
        )}
        <FurtherFacts of={customer} />
      </dl>
    </Section>
  );
}
