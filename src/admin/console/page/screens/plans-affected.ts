import { useState } from 'preact/hooks';
import { useResource } from '../api.ts';
import { html } from '../html.ts';
import { CallerName } from '../kit/callers.ts';
import { countText, plural } from '../kit/format.ts';
import { Badge, Section } from '../kit/page.ts';
import { Problem, Shown } from '../kit/states.ts';
import { Table } from '../kit/table.ts';
import type { Customer, CustomerPage, Key, KeyPage, PlanChange } from '../types.ts';

// The keys and customers whose plan a draft changes.

/** How many of each are named. */
const MOST = 50;

interface AffectedPlan {
  readonly plan: string;
  readonly keys: number | null;
  readonly customers: number | null;
  readonly changes: readonly PlanChange[];
}

export function Affected({ changes }: { changes: readonly PlanChange[] }) {
  const plans = [...Map.groupBy(changes, ({ plan }) => plan)].flatMap(([plan, all]): AffectedPlan[] => {
    if (plan === null) return [];
    const most = (of: 'keys' | 'customers') =>
      all.some((one) => one[of] === null) ? null : Math.max(...all.map((one) => one[of]!));
    const affected = { plan, keys: most('keys'), customers: most('customers'), changes: all };
    return affected.keys === 0 && affected.customers === 0 ? [] : [affected];
  });
  if (plans.length === 0) return null;
  return html`<${Section} title="Who is affected" note="Keys and customers of the plans that change, with their own limits, which stay.">
    <div class="stack">${plans.map((one) => html`<${OfPlan} key=${one.plan} ...${one} />`)}</div>
  </${Section}>`;
}

function OfPlan({ plan, keys, customers, changes }: AffectedPlan) {
  const [isOpen, setOpen] = useState(false);
  const some = [
    keys === null ? 'keys not counted' : plural(keys, 'active key'),
    ...(customers ? [plural(customers, 'customer')] : []),
  ];
  return html`<div class="panel stack">
    <p class="actions">
      <strong class="plan-name"><bdi>${plan}</bdi></strong>
      <span class="muted">${some.join(', ')}; ${plural(changes.length, 'change')}</span>
      <button type="button" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? 'Hide them' : 'Show them'}</button>
    </p>
    ${isOpen && html`<${Users} plan=${plan} hasCustomers=${customers !== 0} windows=${windowsOf(changes)} />`}
  </div>`;
}

/** The windows whose limits change. */
function windowsOf(changes: readonly PlanChange[]): readonly string[] {
  return changes.flatMap(({ what }) => /^limits\.([a-z]+)$/.exec(what)?.[1] ?? []);
}

function Users({ plan, hasCustomers, windows }: { plan: string; hasCustomers: boolean; windows: readonly string[] }) {
  const query = `plan=${encodeURIComponent(plan)}&limit=${MOST}`;
  const keys = useResource<KeyPage>(`/admin/keys?${query}`);
  const customers = useResource<CustomerPage>(hasCustomers ? `/admin/customers?${query}` : null);
  return html`<${Shown} of=${keys} what="the keys">
    ${({ keys: found, cursor }: KeyPage) => {
      const all = [...(customers.data?.customers ?? []), ...found];
      const hasMore = cursor !== null || (customers.data?.cursor ?? null) !== null;
      return html`${customers.error !== null && html`<${Problem} error=${customers.error} retry=${customers.reload} />`}
        <${Table}
          caption=${`Keys and customers of ${plan}`}
          rows=${all}
          keyOf=${({ id }: Key | Customer) => id}
          columns=${[
            {
              title: 'Name',
              isName: true,
              sort: ({ id, name }: Key | Customer) => name ?? id,
              cell: ({ id, name, owner }: Key | Customer) =>
                html`<${CallerName} id=${id} name=${name} owner=${owner} />`,
            },
            {
              title: 'Own limits',
              cell: (one: Key | Customer) => html`<${OwnLimits} of=${one} windows=${windows} />`,
            },
          ]}
        />
        ${hasMore && html`<p class="muted">The first ${MOST} of each; there are more.</p>`}`;
    }}
  </${Shown}>`;
}

/** A limit of its own stays as it is, whatever the plan says of that window. */
function OwnLimits({ of: one, windows }: { of: Key | Customer; windows: readonly string[] }) {
  const own = Object.entries(one.ownLimits);
  if (own.length === 0) {
    // The customer may have limits of its own, which stay.
    const isOfCustomer = 'customer' in one && one.customer !== undefined;
    return html`<span class="muted">${isOfCustomer ? 'none: its customer’s limits apply' : 'none: the change applies'}</span>`;
  }
  return own.map(
    ([window, limit], i) =>
      html`${i > 0 && ', '}${countText(limit!)} a ${window}${windows.includes(window) && html` <${Badge} kind="plain">not changed</${Badge}>`}`,
  );
}
