import { type Allowance, allowanceOf, type Limits, type Plan, type Plans } from '../admit/plan.ts';
import type { Consumer } from '../identify/identify.ts';

/**
 * The allowances of consumers under the plans in force.
 *
 * Consumers without limits of their own share their plan's allowance: a million separate ones would fill memory with
 * the same few numbers, and requests under one allowance are sent to the store in one call. A consumer with limits of
 * its own is the same object from request to request, so its allowance is computed once.
 */
export class Allowances {
  readonly #plans: Plans['plans'];
  readonly #shared = new Map<Plan, Allowance | null>();
  readonly #own = new WeakMap<Consumer, Allowance | null>();

  constructor({ plans }: Plans) {
    this.#plans = plans;
  }

  /** Null if the plan is gone or lacks a limit. */
  of(consumer: Consumer): Allowance | null {
    const plan = this.#plans.get(consumer.plan);
    if (plan === undefined) return null;
    const isOwn = hasAny(consumer.limits);
    const before = isOwn ? this.#own.get(consumer) : this.#shared.get(plan);
    if (before !== undefined) return before;
    const found = allowanceOf(plan, consumer.limits);
    const allowance = 'missing' in found ? null : found;
    if (isOwn) this.#own.set(consumer, allowance);
    else this.#shared.set(plan, allowance);
    return allowance;
  }
}

function hasAny(limits: Limits): boolean {
  for (const _ in limits) return true;
  return false;
}
