import type { Plans } from '../model/plan.ts';
import { type Allowance, type Budget, groupNamesIn, unitNamesIn } from './allowance.ts';

/*
 * The ids of accounts. An account is what a store counts for one budget: that of a consumer, of a customer, of a group of
 * routes, or of any of these in a unit of its own. All accounts that one decision charges are in one slot of a Redis Cluster.
 */

/** How the ids of customers begin. */
export const CUSTOMER = 'cus_';
const SEPARATOR = '/';
const GROUP = '#';
const UNIT = '%';
/** Ends the id of an account's shadow. No other id contains it. */
const SHADOW = '~shadow';
const SHADOW_AT = /~shadow(?=[#%]|$)/;

/**
 * The id of a consumer's account: its own id, or `CUSTOMER/ID` for a consumer of a customer. It changes when the consumer
 * is moved to another customer, so its counts start anew.
 */
export function accountIdOf(consumerId: string, customerId: string | null): string {
  return customerId === null ? consumerId : `${customerId}${SEPARATOR}${consumerId}`;
}

/** True if an account belongs to a consumer of this customer. */
export function isOfCustomer(accountId: string, customerId: string): boolean {
  return accountId.startsWith(`${customerId}${SEPARATOR}`);
}

/** Whose requests an account counts, and in which unit. */
interface AccountParts {
  /** Null for the account of a customer itself. */
  readonly consumerId: string | null;
  /** Null for a consumer without a customer. */
  readonly customerId: string | null;
  /** The group of routes; null for all requests. */
  readonly group: string | null;
  /** The unit; null for the cost of requests. */
  readonly unit: string | null;
}

/** The parts of an account id, which may be that of a shadow. */
export function partsOfAccount(accountId: string): AccountParts {
  const [counted, unit] = cutAt(withoutShadow(accountId), UNIT);
  const [whole, group] = cutAt(counted, GROUP);
  if (!whole.startsWith(CUSTOMER)) return { consumerId: whole, customerId: null, group, unit };
  const at = whole.indexOf(SEPARATOR);
  if (at < 0) return { consumerId: null, customerId: whole, group, unit };
  return { consumerId: whole.slice(at + 1), customerId: whole.slice(0, at), group, unit };
}

/** The ids of the accounts that a request charges, in the order of the budgets. */
export type AccountIds = readonly [string, ...string[]];

/** The accounts of the budgets of an allowance. @param accountId that of the consumer's own budget */
export function accountIdsOf(accountId: string, { budgets }: Pick<Allowance, 'budgets'>): AccountIds {
  const ids: [string, ...string[]] = [accountId];
  for (let i = 1; i < budgets.length; i++) ids.push(accountIdOfBudget(accountId, budgets[i]!));
  return ids;
}

/** The account of one budget. */
export function accountIdOfBudget(
  accountId: string,
  { scope, group, unit }: Pick<Budget, 'scope' | 'group' | 'unit'>,
): string {
  const owner = scope === 'key' ? accountId : ownerOf(accountId);
  const grouped = group === null ? owner : `${owner}${GROUP}${group}`;
  return unit === undefined ? grouped : inUnit(grouped, unit);
}

/** The account of the customer, or of its shadow. */
function ownerOf(accountId: string): string {
  const customerId = accountId.slice(0, accountId.indexOf(SEPARATOR));
  return isShadowId(accountId) ? shadowIdOf(customerId) : customerId;
}

/**
 * The length of the part of an account id that decides its slot in a Redis Cluster: the id of the customer, or of the consumer. The
 * shadow of a consumer without a customer has a slot of its own.
 */
export function lengthOfOwner(accountId: string): number {
  const end = accountId.search(accountId.startsWith(CUSTOMER) ? /[/#%~]/ : /[#%]/);
  return end < 0 ? accountId.length : end;
}

/** The part of an account id that decides its slot: the same for all accounts of one decision. */
export function ownerIdOf(accountId: string): string {
  return accountId.slice(0, lengthOfOwner(accountId));
}

export function shadowIdOf(accountId: string): string {
  return `${accountId}${SHADOW}`;
}

/** An account, those of its groups of routes and of its units in all plans, and the shadows of all of them. */
export function accountsUnder(accountId: string, plans: Plans): readonly string[] {
  const [groups, units] = [groupNamesIn(plans), unitNamesIn(plans)];
  const owners = [accountId, shadowIdOf(accountId)];
  const ofRequests = owners.flatMap((id) => [id, ...groups.map((group) => `${id}${GROUP}${group}`)]);
  return ofRequests.flatMap((id) => [id, ...units.map((unit) => inUnit(id, unit))]);
}

/** The id of the account, or the history, that counts a unit for the owner of another account. */
export function inUnit(accountId: string, unit: string): string {
  return `${accountId}${UNIT}${unit}`;
}

export function isShadowId(accountId: string): boolean {
  return SHADOW_AT.test(accountId);
}

/** Removes the ending of a shadow from an account id that may have it. */
export function withoutShadow(accountId: string): string {
  return accountId.replace(SHADOW_AT, '');
}

function cutAt(id: string, mark: string): readonly [string, string | null] {
  const at = id.indexOf(mark);
  return at < 0 ? [id, null] : [id.slice(0, at), id.slice(at + 1)];
}

/** The histories that count a consumer's requests: its own, and that of its customer, if it has one. */
export function historiesOf(accountId: string): readonly string[] {
  const { consumerId, customerId } = partsOfAccount(accountId);
  return consumerId === null || customerId === null ? [accountId] : [accountId, customerId];
}

/** The history of requests behind an account, or behind a history of a unit: that of the same key, or of the same customer. */
export function historyBehind(id: string): string {
  const [owner] = cutAt(cutAt(id, UNIT)[0], GROUP);
  return partsOfAccount(id).consumerId === null ? withoutShadow(owner) : owner;
}

/** All accounts of a key: first the present one, then those from before an operator moved the key. */
export function accountsOf(key: {
  readonly id: string;
  readonly customer?: string;
  readonly formerAccounts?: readonly string[];
}): readonly [string, ...string[]] {
  return [accountIdOf(key.id, key.customer ?? null), ...(key.formerAccounts ?? [])];
}
