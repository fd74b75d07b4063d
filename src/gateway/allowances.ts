import { type Allowance, allowanceOf, bitOfUnit, withBudgets } from '../admit/allowance.ts';
import type { Consumer } from '../identify/identify.ts';
import type { Limits, Plan, Plans } from '../model/plan.ts';
import { type GroupedRequest, PathGroups } from '../routing/path-groups.ts';

/** The members of a consumer that decide its limits. */
type Limited = Pick<Consumer, 'plan' | 'limits' | 'customer'>;

/**
 * The allowances of consumers under the plans in force.
 *
 * Consumers without limits of their own, whose customer has none either, share their plan's allowance: a million separate ones
 * would fill memory with the same few numbers, and requests under one allowance are sent to the store in one call. A consumer
 * with limits of its own is the same object from request to request, so its allowance is computed once.
 */
export class Allowances {
  readonly #plans: Plans['plans'];
  readonly #keepsHistory: boolean;
  readonly #shared = new Map<Plan, Allowance | null>();
  readonly #sharedOfCustomers = new Map<Plan, Allowance | null>();
  readonly #own = new WeakMap<Limited, Allowance | null>();
  /** By the groups of a plan. */
  readonly #pathGroups = new Map<NonNullable<Allowance['groups']>, PathGroups>();
  readonly #charged = new WeakMap<Allowance, Map<number, Allowance>>();

  /** @param keepsHistory whether the store keeps a history of what each consumer uses */
  constructor({ plans }: Plans, keepsHistory: boolean) {
    this.#plans = plans;
    this.#keepsHistory = keepsHistory;
    for (const { groups } of plans.values()) {
      if (groups !== undefined) this.#pathGroups.set(groups, new PathGroups(groups));
    }
  }

  /** Null if plans.yaml no longer has the plan, or the plan leaves out a limit that the consumer does not set. */
  of(consumer: Limited): Allowance | null {
    const plan = this.#plans.get(consumer.plan);
    if (plan === undefined) return null;
    const { limits, customer } = consumer;
    const isOwn = hasAny(limits) || (customer !== null && hasAny(customer.limits));
    const shared = customer === null ? this.#shared : this.#sharedOfCustomers;
    const before = isOwn ? this.#own.get(consumer) : shared.get(plan);
    if (before !== undefined) return before;
    const found = allowanceOf(plan, limits, this.#keepsHistory, customer);
    const allowance = 'missing' in found ? null : found;
    if (isOwn) this.#own.set(consumer, allowance);
    else shared.set(plan, allowance);
    return allowance;
  }

  /**
   * The allowance of one request: with the budgets of the groups of routes to which it belongs, and of the units that it charges.
   * @param named groups to which a policy counts it besides; null for none. Those that the plan lacks have no effect
   * @param charges of its route; null for none. Units that the plan lacks have no effect
   */
  ofRequest(
    allowance: Allowance,
    request: GroupedRequest,
    named: readonly string[] | null = null,
    charges: readonly { readonly unit: string }[] | null = null,
  ): Allowance {
    const { groups, units } = allowance;
    if (groups === undefined && (units === undefined || charges === null)) return allowance;
    let bits = groups === undefined ? 0 : (this.#pathGroups.get(groups)?.matching(request) ?? 0);
    for (const name of named ?? []) {
      const index = groups?.findIndex((group) => group.name === name) ?? -1;
      if (index >= 0) bits |= 1 << index;
    }
    for (const { unit } of charges ?? []) {
      const index = units?.names.indexOf(unit) ?? -1;
      if (index >= 0) bits |= bitOfUnit(index);
    }
    if (bits === 0) return allowance;
    let variants = this.#charged.get(allowance);
    if (variants === undefined) {
      variants = new Map();
      this.#charged.set(allowance, variants);
    }
    let charged = variants.get(bits);
    if (charged === undefined) {
      charged = withBudgets(allowance, bits);
      variants.set(bits, charged);
    }
    return charged;
  }
}

function hasAny(limits: Limits): boolean {
  for (const _ in limits) return true;
  return false;
}
