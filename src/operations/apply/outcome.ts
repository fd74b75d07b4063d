import { Failure } from '../../failure.ts';
import { UnreadableRecord } from '../../identify/stored-record.ts';

/** What became of a planned change. `unknown`: it was made, and a failover of the store may undo it. */
export type OutcomeKind = 'done' | 'same' | 'unknown' | 'refused';

/** What is said of an `unknown` outcome. */
export const MAY_BE_UNDONE_TEXT = 'a failover of Redis may still undo it; apply again to be sure.';

/** Whether an error is about one entry alone, so that the others are applied all the same. */
export function isRefusal(error: unknown): error is Failure {
  if (error instanceof UnreadableRecord) return true;
  return error instanceof Failure && ['refused', 'conflict', 'not_found'].includes(error.code);
}
