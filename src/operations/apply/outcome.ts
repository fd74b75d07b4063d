/** What became of a planned change. `unknown`: it was made, and a failover of the store may undo it. */
export type OutcomeKind = 'done' | 'same' | 'unknown' | 'refused';

/** What is said of an `unknown` outcome. */
export const MAY_BE_UNDONE_TEXT = 'a failover of Redis may still undo it; apply again to be sure.';
