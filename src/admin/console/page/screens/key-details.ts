import { html } from '../html.ts';
import { CustomerLink } from '../kit/callers.ts';
import { Table } from '../kit/data-table.ts';
import { countText, Time, Until, UtcDay } from '../kit/format.ts';
import { Section } from '../kit/page.ts';
import { Empty, Shown } from '../kit/states.ts';
import type { Resource } from '../requests.ts';
import { useMay } from '../signed-in.ts';
import type { DeprecatedRoute, DeprecatedRoutes, Key, ShownKey } from '../types.ts';
import { FurtherFacts, ListedFacts } from './attribute-fields.ts';
import { LastFour } from './caller-facts.ts';
import { hasEnded, stateOf } from './caller-state.ts';

// What changes seldom about a key: its facts, its secrets, and the deprecated routes that it calls.

export function About({ of: key }: { of: Key }) {
  const own = Object.entries(key.ownLimits).map(([window, limit]) => `${countText(limit!)} a ${window}`);
  return html`<${Section} title="About">
    <dl class="facts panel">
      <${ListedFacts} of=${key} />
      ${key.customer !== undefined && html`<dt>Customer</dt><dd><${CustomerLink} ...${key.customer} /></dd>`}
      <dt>Created</dt>
      <dd><${Time} at=${key.createdAt} dayOnly=${true} /></dd>
      <dt>Expires</dt>
      <dd>${key.expiresAt === null ? 'never' : hasEnded(key) ? html`<${Time} at=${key.expiresAt} />` : html`<${Until} at=${key.expiresAt} />`}</dd>
      ${key.lastUsedOn !== undefined && html`<dt>Last used</dt><dd>${key.lastUsedOn === null ? 'not within 92 days' : html`<${UtcDay} of=${key.lastUsedOn} />`}</dd>`}
      <dt>Own limits</dt>
      <dd>${own.join(', ') || 'none'}</dd>
      <${FurtherFacts} of=${key} />
    </dl>
  </${Section}>`;
}

export function Secrets({
  of: key,
  open,
}: {
  of: ShownKey;
  open: (dialog: string, secret?: Key['secrets'][number]) => void;
}) {
  const mayRotate = useMay('operator') && !hasEnded(key);
  const mayEnd = useMay('operator') && stateOf(key) !== 'revoked' && key.secrets.length > 1;
  return html`<${Section} title="Secrets" note="Those that work, by their last four characters.">
    ${
      key.secrets.length === 0
        ? html`<${Empty} title="No secret works." />`
        : html`<ul class="panel secrets">
            ${key.secrets.map(
              (secret) => html`<li key=${`${secret.createdAt} ${secret.last4}`}>
                <strong><${LastFour} of=${{ secrets: [secret] }} /></strong>
                <span class="muted">Created <${Time} at=${secret.createdAt} dayOnly=${true} />, ${
                  secret.lastUsedOn === null ? 'no use recorded' : html`last used <${UtcDay} of=${secret.lastUsedOn} />`
                }, ends ${secret.expiresAt === null ? 'together with the key' : html`<${Until} at=${secret.expiresAt} />`}</span>
                ${mayEnd && html`<button type="button" aria-label=${`End the secret ${secret.last4 ?? 'known by its hash'}`} onClick=${() => open('end', secret)}>End…</button>`}
              </li>`,
            )}
          </ul>`
    }
    ${mayRotate && html`<p class="actions after"><button type="button" onClick=${() => open('rotate')}>Rotate…</button></p>`}
  </${Section}>`;
}

export function Deprecated({ routes }: { routes: Resource<DeprecatedRoutes> }) {
  return html`<${Section} title="Deprecated routes" note="In the last 30 days.">
    <${Shown} of=${routes} what="the deprecated routes">
      ${({ routes }: DeprecatedRoutes) =>
        routes.length === 0
          ? html`<${Empty} title="No calls of deprecated routes." />`
          : html`<${Table}
              caption="Deprecated routes that this key calls"
              rows=${routes}
              keyOf=${({ route, methods }: DeprecatedRoute) => `${methods} ${route}`}
              columns=${[
                {
                  title: 'Route',
                  isName: true,
                  cell: ({ route, methods }: DeprecatedRoute) => html`<code>${methods.join(', ')} ${route}</code>`,
                },
                { title: 'Calls', isNumber: true, cell: ({ calls }: DeprecatedRoute) => countText(calls) },
                { title: 'Last call', cell: ({ lastDay }: DeprecatedRoute) => html`<${UtcDay} of=${lastDay} />` },
                {
                  title: 'Ends',
                  cell: ({ sunset }: DeprecatedRoute) =>
                    sunset === null ? 'not set' : html`<${Until} at=${sunset} />`,
                },
                {
                  title: 'Successor',
                  cell: ({ successor }: DeprecatedRoute) => html`<code>${successor ?? '–'}</code>`,
                },
              ]}
            />`}
    </${Shown}>
  </${Section}>`;
}
