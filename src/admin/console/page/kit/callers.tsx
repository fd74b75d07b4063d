import { hrefOf } from '../place.ts';
import { CopyId } from './copy.tsx';
import type { Column } from './data-table.tsx';
import { say } from './format.tsx';

// Keys, callers with tokens and customers, by their names and by their paths.

/** Whether an id is that of a customer. */
export function isCustomer(id: string): boolean {
  return id.startsWith('cus_');
}

/** Whether a text is a whole id of a key, a customer or a caller with tokens, as Tollgate makes them. */
export function isWholeId(text: string): boolean {
  return /^(?:(?:key|cus)_[0-9A-Za-z]{16}|jwt_[\w-]{32})$/.test(text);
}

/** The pattern of the ids of callers. */
const CALLER = 'key_[0-9A-Za-z]{1,16}|jwt_[A-Za-z0-9_\\-]{32}';

export function isCallerId(text: string): boolean {
  return new RegExp(`^(${CALLER})$`).test(text);
}

/** Whether a text is the id of a caller or of a customer. */
export function isRecordId(text: string): boolean {
  return new RegExp(`^(cus_[0-9A-Za-z]{1,16}|${CALLER})$`).test(text);
}

/** The path of a key, of a caller with tokens or of a customer in the admin API. */
export function pathOf(id: string): string {
  return `/admin/${isCustomer(id) ? 'customers' : 'keys'}/${encodeURIComponent(id)}`;
}

/** The address of its screen. @param plan for a token caller, whose tokens alone name it */
export function callerHref(id: string, plan: string | null = null): string {
  const query = id.startsWith('jwt_') && plan ? `?plan=${encodeURIComponent(plan)}` : '';
  return hrefOf(`/${isCustomer(id) ? 'customers' : 'keys'}/${encodeURIComponent(id)}${query}`);
}

/** The record of changes of a key, a caller or a customer. */
export function auditHref(id: string): string {
  return hrefOf(`/audit?key=${encodeURIComponent(id)}`);
}

export function nameOf({ id, name }: { readonly id: string; readonly name: string | null }): string {
  return name ?? id;
}

/** The customer of a key, as reports of keys have it. */
export interface CustomerOfKey {
  readonly id: string;
  readonly name: string | null;
}

interface CallerNameProps {
  readonly id: string;
  readonly name: string | null;
  readonly owner?: string | null | undefined;
  /** Of a token caller, whose tokens alone name it. */
  readonly plan?: string | null;
  readonly customer?: CustomerOfKey | undefined;
}

/** The column that names each row by its caller, with its owner only if `withOwner`. @param share as of Column */
export function callerColumn<Row extends CallerNameProps>(
  title: string,
  withOwner = true,
  share?: number,
): Column<Row> {
  return {
    ...{ title, isName: true },
    ...(share === undefined ? {} : { share }),
    sort: nameOf,
    cell: ({ id, name, owner, plan = null, customer }) => (
      <CallerName {...{ id, name, plan, customer }} owner={withOwner ? owner : null} />
    ),
  };
}

/** A caller by its name, or by its id if it has none, with a link to its screen, and its customer. */
export function CallerName({ id, name, owner = null, plan = null, customer }: CallerNameProps) {
  return (
    <span class="caller">
      <a href={callerHref(id, plan)}>
        <bdi>{name ?? id}</bdi>
      </a>
      <span class="muted small">
        {owner !== null && owner !== name && <bdi>{owner} </bdi>}
        {customer && say`of ${<CustomerLink {...customer} />} `}
        {name !== null && <CopyId id={id} />}
      </span>
    </span>
  );
}

export function CustomerLink(customer: CustomerOfKey) {
  return (
    <a href={callerHref(customer.id)}>
      <bdi>{nameOf(customer)}</bdi>
    </a>
  );
}
