import { CustomerLink } from '../kit/callers.tsx';
import { countText, millisecondsOf, plural, say, Time, Until, UtcDay } from '../kit/format.tsx';
import { isRefusing } from '../kit/limit-windows.tsx';
import { Badge, Facts, Section } from '../kit/page.tsx';
import { Good, NotKnown } from '../kit/seen.tsx';
import type { Reading } from '../reading.ts';
import type { Customer, CustomerStanding, Key, KeyOrCustomer, Usage } from '../types.ts';
import { furtherFacts, listedFacts } from './attribute-fields.tsx';
import { type Standing, stateOf } from './caller-state.ts';

// What is shown of the states of keys and customers.

export function SuspendedText({ since, until, reason }: NonNullable<KeyOrCustomer['suspended']>) {
  return (
    <>
      <Time at={since} />, {until === null ? 'until it is resumed' : say`until ${<Until at={until} />}`}
      {reason !== null && (
        <>
          <br />
          <bdi>{reason}</bdi>
        </>
      )}
    </>
  );
}

/** What the limits of a caller do with its requests now. */
export function StandingBadge({ of }: { of: Reading<Standing> }) {
  if (of.state !== 'known') return <NotKnown of={of} />;
  const { value } = of;
  if (value.kind === 'banned') {
    return <Badge kind="bad">{say`Banned until ${<Until at={value.until} />}`}</Badge>;
  }
  if (value.kind === 'refused') return <Badge kind="warn">Refused</Badge>;
  // Its limits say which window is spent.
  return value.kind === 'spent' ? null : <Good of={of}>Active</Good>;
}

export function KeyState({ of: key, standing }: { of: Key; standing: Reading<Standing> }) {
  const state = stateOf(key);
  const ofCustomer = key.customer?.state ?? 'active';
  if (state === 'active' && ofCustomer !== 'active') {
    const kind = ofCustomer === 'suspended' ? 'warn' : ofCustomer === 'unreadable' ? 'bad' : 'plain';
    return <Badge kind={kind}>Customer {ofCustomer}</Badge>;
  }
  if (state === 'active') return <StandingBadge of={standing} />;
  if (state === 'suspended') return <Badge kind="warn">Suspended</Badge>;
  return <Badge kind="plain">{state === 'revoked' ? 'Revoked' : 'Expired'}</Badge>;
}

/** The last four characters of the secrets that work. */
export function LastFour({
  of: { secrets },
}: {
  of: { readonly secrets: readonly Pick<Key['secrets'][number], 'last4'>[] };
}) {
  return secrets.map(({ last4 }, i) => say`${i > 0 && ', '}${<code>{last4 === null ? 'unknown' : `…${last4}`}</code>}`);
}

interface CustomerStateProps {
  readonly of: Customer;
  readonly standing: Reading<CustomerStanding>;
  readonly counts?: Reading<Usage>;
}

/**
 * The state of a customer, which is that of its keys.
 * @param counts what it has used; left out in a list
 */
export function CustomerState({ of: customer, standing, counts }: CustomerStateProps) {
  const state = stateOf(customer);
  if (state === 'expired') return <Badge kind="plain">Expired</Badge>;
  if (state === 'suspended') return <Badge kind="warn">Suspended</Badge>;
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

/** What changes seldom about a key or a customer. */
export function About({ of: record }: { of: KeyOrCustomer }) {
  const { createdAt, expiresAt, ownLimits } = record;
  const { customer, lastUsedOn } = record as Partial<Key>;
  const Moment = expiresAt !== null && millisecondsOf(expiresAt) <= Date.now() ? Time : Until;
  const own = Object.entries(ownLimits).map(([window, limit]) => `${countText(limit!)} a ${window}`);
  return (
    <Section title="About">
      <Facts
        kind="panel"
        of={[
          ...listedFacts(record),
          ['Customer', customer && <CustomerLink {...customer} />],
          ['Created', <Time at={createdAt} dayOnly={true} />],
          ['Expires', expiresAt === null ? 'never' : <Moment at={expiresAt} />],
          ['Last used', lastUsedOn === null ? 'not within 92 days' : lastUsedOn && <UtcDay of={lastUsedOn} />],
          ['Own limits', own.join(', ') || 'none'],
          ['keys.yaml', 'entry' in record && <code>{record.entry}</code>],
          ...furtherFacts(record),
        ]}
      />
    </Section>
  );
}
