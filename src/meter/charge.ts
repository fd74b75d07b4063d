import type { CostSource } from './cost.ts';

/** What a request of a route charges in one unit, such as tokens. */
export interface Charge {
  readonly unit: string;
  /** What it takes in advance, when it is admitted. */
  readonly reserve: Reserve;
  /** Where its real cost stands in the answer; empty if that is what it took in advance. */
  readonly sources: readonly CostSource[];
  /** The statuses after which it costs nothing. */
  readonly refund: readonly StatusRange[];
}

/** A number; or what a field or the JSON body of the request says, as far as it says a whole number. */
export type Reserve =
  | { readonly kind: 'fixed'; readonly amount: number }
  | (ReadReserve & { readonly kind: 'header'; readonly name: string })
  | (ReadReserve & { readonly kind: 'json'; readonly pointer: readonly string[] });

interface ReadReserve {
  /** What is taken if the request does not say it, or not as a number from 0. */
  readonly otherwise: number;
  /** What is taken at least, and at most. */
  readonly least: number;
  readonly most: number;
}

interface StatusRange {
  readonly from: number;
  readonly to: number;
}

export function isRefunded({ refund }: Pick<Charge, 'refund'>, status: number): boolean {
  return refund.some(({ from, to }) => status >= from && status <= to);
}
