import type { Amounts } from '../engine/types.ts';
import { throwLater } from '../io/after-reading.ts';
import type { ReplyDeadline } from '../io/deadlines.ts';
import type { AccountIds } from './account-id.ts';
import type { Allowance } from './allowance.ts';
import { type AdmissionResult, sameAmounts } from './verdict.ts';

/** Learns the result of a request. */
export interface ResultListener {
  /** Called once. */
  onResult(result: AdmissionResult): void;
}

/** The wait of requests for units that gateways may return. */
interface LeaseWait {
  /** After this moment the store refuses them if they do not fit (monotonic, milliseconds). */
  readonly untilMs: number;
  /** The gateway asks the store again after this pause. */
  readonly againInMs: number;
}

/** Requests of one consumer that arrived in one turn of the event loop, with the same allowance, cost and amounts. */
export interface Batch {
  readonly consumerId: string;
  /** The accounts that the requests charge. */
  readonly accountIds: AccountIds;
  readonly allowance: Allowance;
  readonly cost: number;
  /** The reserve of each request, by unit; undefined if the allowance counts none. */
  readonly amounts: Amounts | undefined;
  readonly waiting: ResultListener[];
  /** The requests may still wait this long for the store, milliseconds; null: the whole timeout. */
  readonly withinMs: number | null;
  deadline: ReplyDeadline | null;
  state: 'new' | 'sent' | 'answered';
  /** Left out before its requests have waited for units that other gateways may return. */
  wait?: LeaseWait;
}

/** The members in which all requests of one batch are equal. */
export type BatchTerms = Pick<Batch, 'consumerId' | 'allowance' | 'cost' | 'amounts' | 'withinMs'>;

export function isAlike(batch: Batch, { consumerId, allowance, cost, amounts, withinMs }: BatchTerms): boolean {
  return belongsTo(batch, consumerId, allowance, cost, amounts, withinMs);
}

/** Adds the requests of a batch to another one. The requests of both wait for returned units no longer than they would have. */
export function join(batch: Batch, { waiting, wait }: Batch): void {
  batch.waiting.push(...waiting);
  if (wait !== undefined && wait.untilMs < (batch.wait?.untilMs ?? Number.POSITIVE_INFINITY)) batch.wait = wait;
}

/**
 * Whether a request belongs to a batch. Takes its members one by one, because an object of them would be a two-hundredth of what a request
 * allocates.
 */
export function belongsTo(
  batch: Batch,
  consumerId: string,
  allowance: Allowance,
  cost: number,
  amounts: Amounts | undefined,
  withinMs: number | null,
): boolean {
  return (
    batch.consumerId === consumerId &&
    batch.cost === cost &&
    batch.allowance === allowance &&
    batch.withinMs === withinMs &&
    batch.state === 'new' &&
    sameAmounts(batch.amounts, amounts)
  );
}

export function answer(batch: Batch, resultOf: (index: number) => AdmissionResult): void {
  if (batch.state === 'answered') return;
  batch.state = 'answered';
  batch.deadline?.cancel();
  for (let i = 0; i < batch.waiting.length; i++) {
    try {
      batch.waiting[i]!.onResult(resultOf(i));
    } catch (error) {
      // A listener's error becomes an uncaught exception of the process, and the other listeners still get their answers.
      throwLater(error);
    }
  }
}
