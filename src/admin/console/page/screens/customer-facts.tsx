import { countText, millisecondsOf, Time, Until } from '../kit/format.tsx';
import { Badge, Section } from '../kit/page.tsx';
import type { Reading } from '../reading.ts';
import type { Customer } from '../types.ts';
import { FurtherFacts, ListedFacts } from './attribute-fields.tsx';
import { StandingBadge } from './caller-facts.tsx';
import { isSuspended, type Standing } from './caller-state.ts';

// What is said of one customer, on its screen and in the list.

export function hasExpired({ expiresAt }: Customer): boolean {
  return expiresAt !== null && millisecondsOf(expiresAt) <= Date.now();
}

export function CustomerState({ of: customer, standing }: { of: Customer; standing: Reading<Standing> }) {
  if (hasExpired(customer)) return <Badge kind="plain">Expired</Badge>;
  if (isSuspended(customer)) return <Badge kind="warn">Suspended</Badge>;
  return <StandingBadge of={standing} />;
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
