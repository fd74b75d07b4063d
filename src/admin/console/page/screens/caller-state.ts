import { html } from '../html.ts';
import { millisecondsOf, Time, Until } from '../kit/format.ts';
import { Badge } from '../kit/page.ts';
import type { Key, KeyOrCustomer } from '../types.ts';

// The states of keys and customers, and what is said of them.

export function isSuspended({ suspended }: KeyOrCustomer): boolean {
  return suspended !== undefined && (suspended.until === null || millisecondsOf(suspended.until) > Date.now());
}

export function SuspendedText({ since, until, reason }: NonNullable<KeyOrCustomer['suspended']>) {
  return html`<${Time} at=${since} />, ${until === null ? 'until it is resumed' : html`until <${Until} at=${until} />`}
    ${reason !== null && html`<br /><bdi>${reason}</bdi>`}`;
}

export function stateOf(key: Key): 'active' | 'suspended' | 'revoked' | 'expired' {
  const { revokedAt, expiresAt } = key;
  const isPast = (moment: string) => millisecondsOf(moment) <= Date.now();
  if (revokedAt !== null) return 'revoked';
  if (expiresAt !== null && isPast(expiresAt)) return 'expired';
  return isSuspended(key) ? 'suspended' : 'active';
}

/** Whether a key is revoked or expired. */
export function hasEnded(key: Key): boolean {
  const state = stateOf(key);
  return state === 'revoked' || state === 'expired';
}

/** Why a key admits no request, whatever its limits are; null if it may. */
export function refusalOf(key: Key): string | null {
  const state = stateOf(key);
  if (state !== 'active') return `the key is ${state}`;
  const ofCustomer = key.customer?.state ?? 'active';
  return ofCustomer === 'active' ? null : `its customer is ${ofCustomer}`;
}

export function KeyState({ of: key, isBanned }: { of: Key; isBanned: boolean }) {
  const state = stateOf(key);
  const ofCustomer = key.customer?.state ?? 'active';
  if (state === 'active' && ofCustomer !== 'active') {
    return html`<${Badge} kind=${ofCustomer === 'suspended' ? 'warn' : 'plain'}>Customer ${ofCustomer}</${Badge}>`;
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
