import { html } from '../html.ts';
import { countText, millisecondsOf, Time, Until } from '../kit/format.ts';
import { Badge, Section } from '../kit/page.ts';
import type { Customer } from '../types.ts';
import { FurtherFacts, ListedFacts } from './attribute-fields.ts';
import { isSuspended } from './caller-state.ts';

// What is said of one customer, on its screen and in the list.

export function hasExpired({ expiresAt }: Customer): boolean {
  return expiresAt !== null && millisecondsOf(expiresAt) <= Date.now();
}

/** @param isRefusing whether a limit refuses its requests, which says more than that it is active */
export function CustomerState({ of: customer, isRefusing = false }: { of: Customer; isRefusing?: boolean }) {
  if (hasExpired(customer)) return html`<${Badge} kind="plain">Expired</${Badge}>`;
  if (isSuspended(customer)) return html`<${Badge} kind="warn">Suspended</${Badge}>`;
  return isRefusing ? null : html`<${Badge} kind="good">Active</${Badge}>`;
}

export function CustomerFacts({ of: customer }: { of: Customer }) {
  const { createdAt, expiresAt, ownLimits, entry } = customer;
  const own = Object.entries(ownLimits).map(([window, limit]) => `${countText(limit!)} a ${window}`);
  return html`<${Section} title="About">
    <dl class="facts panel">
      <${ListedFacts} of=${customer} />
      <dt>Created</dt>
      <dd><${Time} at=${createdAt} dayOnly=${true} /></dd>
      <dt>Expires</dt>
      <dd>${expiresAt === null ? 'never' : hasExpired(customer) ? html`<${Time} at=${expiresAt} />` : html`<${Until} at=${expiresAt} />`}</dd>
      <dt>Own limits</dt>
      <dd>${own.join(', ') || 'none'}</dd>
      ${entry !== undefined && html`<dt>keys.yaml</dt><dd><code>${entry}</code></dd>`}
      <${FurtherFacts} of=${customer} />
    </dl>
  </${Section}>`;
}
