import { Failure } from '../failure.ts';

/** A Failure of an operation that the admin API answers with a code of its own, or with more than a message. */
export class Refused extends Failure {
  readonly refusal: RefusedCode;
  readonly more: {
    /** Further members of the error. */
    readonly members?: object;
    /** The present version. */
    readonly version?: string;
    /** The key that the refusal is about. */
    readonly keyId?: string;
  };

  constructor(refusal: RefusedCode, message: string, more: Refused['more'] = {}) {
    super(CONFLICTS.includes(refusal) ? 'conflict' : 'refused', message);
    this.refusal = refusal;
    this.more = more;
  }
}

/** Refusals because of something that is there already. */
const CONFLICTS: readonly string[] = ['conflict', 'idempotency_key_reused', 'precondition_failed'];

export type RefusedCode =
  | 'busy'
  | 'conflict'
  | 'forbidden'
  | 'idempotency_key_reused'
  | 'invalid_plans'
  | 'invalid_request'
  | 'payload_too_large'
  | 'precondition_failed'
  | 'precondition_required'
  | 'too_costly';
