/**
 * Broken machinery: something that should have worked did not. An expected refusal is never a Failure, it is a value.
 *
 * `message` is one or two sentences for the person at the terminal or in the log and says what to do; the private
 * cause goes into `cause` and never to a client.
 */
export class Failure extends Error {
  readonly code: FailureCode;

  constructor(code: FailureCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'Failure';
    this.code = code;
  }
}

export type FailureCode =
  /** gateway.yaml, plans.yaml or the environment cannot be used as they are. */
  | 'bad_settings'
  /** A command was given words it does not know, or not enough of them. Exit code 2. */
  | 'bad_usage'
  /** A command names a key, plan or ban that is not there. */
  | 'not_found'
  /** A command asks for something that the rules refuse (a custom plan without limits, a name of two lines). */
  | 'refused'
  /** A command asks for something that the present state of a key does not allow (a revoked key rotated). */
  | 'conflict'
  /** The store does not answer, or answers with an error. */
  | 'store_unavailable'
  /** A change could not be recorded, and `audit.required` asks for that; it was not made. */
  | 'audit_unavailable'
  /** Another gateway owns this embedded store. */
  | 'store_owned'
  /** KEY_PEPPER is not the one that the keys in the store were made under. */
  | 'pepper_mismatch'
  /** The store holds something that this version cannot read. */
  | 'store_corrupt'
  /** An address cannot be listened on. */
  | 'cannot_listen'
  /** None of a gateway's workers could be started. */
  | 'no_worker'
  /** This version of Node.js lacks something that the gateway relies on. */
  | 'unsupported_node';
