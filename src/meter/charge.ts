import { statusClass } from '../http1/response-head.ts';
import type { CostSource } from './cost.ts';

/** What a request of a route charges in one unit, such as tokens. */
export interface Charge {
  readonly unit: string;
  /** What it takes in advance, when it is admitted. */
  readonly reserve: Reserve;
  /** Where its real cost stands in the answer; empty if that is what it took in advance. */
  readonly sources: readonly CostSource[];
  /** The statuses, and classes of them, after which it costs nothing. */
  readonly refund: readonly (number | '4xx' | '5xx')[];
}

/**
 * A number; or what a field or the JSON body of the request says, rounded up.
 *
 * `otherwise`: what is taken if the request does not say it. `least`, `most`: what is taken at least, and at most or if the request does
 * not say it as one number from 0.
 */
export type Reserve =
  | { readonly kind: 'fixed'; readonly amount: number }
  | {
      readonly kind: 'header';
      readonly name: string;
      readonly otherwise: number;
      readonly least: number;
      readonly most: number;
    }
  | {
      readonly kind: 'json';
      readonly pointer: readonly string[];
      readonly otherwise: number;
      readonly least: number;
      readonly most: number;
    };

export function isRefunded({ refund }: Pick<Charge, 'refund'>, status: number): boolean {
  return refund.some((one) => one === status || one === statusClass(status));
}
