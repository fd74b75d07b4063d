import { Time, Until } from '../kit/format.tsx';
import { Badge } from '../kit/page.tsx';
import { Good, NotKnown } from '../kit/seen.tsx';
import type { Reading } from '../reading.ts';
import type { Key, KeyOrCustomer } from '../types.ts';
import { type Standing, stateOf } from './caller-state.ts';

// What is shown of the states of keys and customers.

export function SuspendedText({ since, until, reason }: NonNullable<KeyOrCustomer['suspended']>) {
  return (
    <>
      <Time at={since} />,{' '}
      {until === null ? (
        'until it is resumed'
      ) : (
        <>
          until <Until at={until} />
        </>
      )}
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
    return (
      <Badge kind="bad">
        Banned until <Until at={value.until} />
      </Badge>
    );
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
  return secrets.map(({ last4 }, i) => (
    <>
      {i > 0 && ', '}
      <code>{last4 === null ? 'unknown' : `…${last4}`}</code>
    </>
  ));
}
