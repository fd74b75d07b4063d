import { Time, Until } from '../kit/format.tsx';
import { Badge } from '../kit/page.tsx';
import type { Key, KeyOrCustomer } from '../types.ts';
import { stateOf } from './caller-state.ts';

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

export function KeyState({ of: key, isBanned }: { of: Key; isBanned: boolean }) {
  const state = stateOf(key);
  const ofCustomer = key.customer?.state ?? 'active';
  if (state === 'active' && ofCustomer !== 'active') {
    const kind = ofCustomer === 'suspended' ? 'warn' : ofCustomer === 'unreadable' ? 'bad' : 'plain';
    return <Badge kind={kind}>Customer {ofCustomer}</Badge>;
  }
  if (isBanned && state === 'active') return <Badge kind="bad">Banned</Badge>;
  if (state === 'active') return <Badge kind="good">Active</Badge>;
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
