import { html } from '../html.ts';
import { Time, Until } from '../kit/format.ts';
import { Badge } from '../kit/page.ts';
import type { Key, KeyOrCustomer } from '../types.ts';
import { stateOf } from './caller-state.ts';

// What is shown of the states of keys and customers.

export function SuspendedText({ since, until, reason }: NonNullable<KeyOrCustomer['suspended']>) {
  return html`<${Time} at=${since} />, ${until === null ? 'until it is resumed' : html`until <${Until} at=${until} />`}
    ${reason !== null && html`<br /><bdi>${reason}</bdi>`}`;
}

export function KeyState({ of: key, isBanned }: { of: Key; isBanned: boolean }) {
  const state = stateOf(key);
  const ofCustomer = key.customer?.state ?? 'active';
  if (state === 'active' && ofCustomer !== 'active') {
    const kind = ofCustomer === 'suspended' ? 'warn' : ofCustomer === 'unreadable' ? 'bad' : 'plain';
    return html`<${Badge} kind=${kind}>Customer ${ofCustomer}</${Badge}>`;
  }
  if (isBanned && state === 'active') return html`<${Badge} kind="bad">Banned</${Badge}>`;
  if (state === 'active') return html`<${Badge} kind="good">Active</${Badge}>`;
  if (state === 'suspended') return html`<${Badge} kind="warn">Suspended</${Badge}>`;
  return html`<${Badge} kind="plain">${state === 'revoked' ? 'Revoked' : 'Expired'}</${Badge}>`;
}

/** The last four characters of the secrets that work. */
export function LastFour({ of: { secrets } }: { of: Key }) {
  return secrets.map(({ last4 }, i) => html`${i > 0 && ', '}<code>${last4 === null ? 'unknown' : `…${last4}`}</code>`);
}
