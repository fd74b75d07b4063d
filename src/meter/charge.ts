import { statusClass } from '../http1/response-head.ts';
import { type CostSource, leastTimes, mostTimes, type RowChoice, type Table, type Times } from './cost.ts';
import { type Factor, weightedSum } from './factor.ts';

/** What a request of a route charges in one unit, such as tokens. @typeParam T what parts of sums are multiplied by */
export interface Charge<T = Times> {
  readonly unit: string;
  /** What it takes in advance, when it is admitted. */
  readonly reserve: Reserve<T>;
  /** Where its real cost stands in the answer; empty if that is what it took in advance. */
  readonly sources: readonly CostSource<T>[];
  /** The statuses, and classes of them, after which it costs nothing. */
  readonly refund: readonly (number | '4xx' | '5xx')[];
}

/** A number; what a field or the JSON body of the request says, rounded up; or a sum of these, each multiplied, rounded up. */
export type Reserve<T = Times> =
  | PlainReserve
  | {
      readonly kind: 'sum';
      readonly parts: readonly { readonly reserve: PlainReserve; readonly times: T }[];
      readonly least: number;
      readonly most: number;
    };

/**
 * `otherwise`: what is taken if the request does not say it. `least`, `most`: what is taken at least, and at most or if the request does
 * not say it as one number from 0.
 */
export type PlainReserve =
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

/** What a reserve takes. @param of what each of its parts takes @param times what a part of a sum is multiplied by */
export function reserveBy(
  reserve: Reserve,
  of: (plain: PlainReserve) => number,
  times: (times: Times) => Factor,
): number {
  if (reserve.kind !== 'sum') return of(reserve);
  const { parts, least, most } = reserve;
  const sum = weightedSum(parts.map((part) => ({ amount: of(part.reserve), factor: times(part.times) })));
  return Math.min(Math.max(sum, least), most);
}

/** A reserve with the numbers of its tables: its bounds are what it takes at least and at most of any request. */
export function boundedReserve(reserve: Reserve): Reserve {
  if (reserve.kind !== 'sum') return reserve;
  const least = reserveBy(reserve, leastOf, leastTimes);
  const most = reserveBy(reserve, (one) => (one.kind === 'fixed' ? one.amount : one.most), mostTimes);
  return { ...reserve, least, most };
}

/** The least that a reserve takes, whatever a request says. */
export function leastOf(reserve: Reserve): number {
  return reserve.kind === 'fixed' ? reserve.amount : Math.min(reserve.least, reserve.most);
}

/** What it takes at least of a request that does not say it. */
export function unsaidOf(reserve: Reserve): number {
  return reserveBy(
    reserve,
    (one) => (one.kind === 'fixed' ? one.amount : Math.min(Math.max(one.otherwise, one.least), one.most)),
    leastTimes,
  );
}

export function isRefunded({ refund }: Pick<Charge, 'refund'>, status: number): boolean {
  return refund.some((one) => one === status || one === statusClass(status));
}

/** What charges need of each request. */
interface Needs {
  /** Whether the JSON body says what is taken in advance, or names a row. */
  readonly hasBody: boolean;
  /** Whether the reserve of some charge depends on the request. */
  readonly isAsked: boolean;
  /** The tables whose rows the request names. */
  readonly tables: readonly (Table & { readonly by: Extract<RowChoice, { of: 'request' }> })[];
}

const needs = new WeakMap<readonly Charge[], Needs>();

/** @param charges of a route, of which all its requests have the same */
export function needsOf(charges: readonly Charge[]): Needs {
  let known = needs.get(charges);
  if (known === undefined) {
    const plain = charges.flatMap(({ reserve }) =>
      reserve.kind === 'sum' ? reserve.parts.map((part) => part.reserve) : [reserve],
    );
    const times = charges.flatMap(({ reserve, sources }) => [
      ...(reserve.kind === 'sum' ? reserve.parts : []),
      ...sources.flatMap((source) => (source.kind === 'sum' ? source.parts : [])),
    ]);
    const all = new Set(times.flatMap((one) => ('table' in one.times ? [one.times.table] : [])));
    const tables = [...all].filter((table): table is Needs['tables'][number] => table.by.of === 'request');
    const isInBody = ({ kind }: { readonly kind: string }) => kind === 'json';
    const hasBody = plain.some(isInBody) || tables.some(({ by }) => isInBody(by.source));
    known = { hasBody, isAsked: plain.some(({ kind }) => kind !== 'fixed') || tables.length > 0, tables };
    needs.set(charges, known);
  }
  return known;
}
