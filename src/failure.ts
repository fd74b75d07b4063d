/** 0 done, 1 refused or failed, 2 wrong usage. */
export type ExitCode = 0 | 1 | 2;
/**
 * The error that ends a command, a start or a call to the store. In the pipeline of a request an expected refusal is not a
 * Failure but a value.
 *
 * `message` is one or two sentences for operators, in the terminal or in the log, and says what to do. `cause` holds the
 * underlying error, which no client ever sees.
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
  /** gateway.yaml, plans.yaml or the environment has a fault. */
  | 'bad_settings'
  /** A command has an unknown option, a wrong value, or too few or too many arguments. Exit code 2. */
  | 'bad_usage'
  /** A command or an admin request names a key, plan or ban that does not exist. */
  | 'not_found'
  /** A rule refuses the change, for example a `custom` plan without limits, or a name of two lines. */
  | 'refused'
  /** The state of the key does not allow the change, for example the rotation of a revoked key. */
  | 'conflict'
  /** The store does not answer, or answers with an error. */
  | 'store_unavailable'
  /** `audit.required` is set and the change could not be recorded, so it was not made. */
  | 'audit_unavailable'
  /** The gateway that a command asks does not answer, or answers what no gateway of this version does. */
  | 'gateway_unavailable'
  /** Another gateway, or a command, owns this embedded store. */
  | 'store_owned'
  /** KEY_PEPPER is not the pepper of the digests in the store. */
  | 'pepper_mismatch'
  /** The store holds something that this version cannot read. */
  | 'store_corrupt'
  /** The embedded store lacks changes that it acknowledged. */
  | 'store_rolled_back'
  /** The process cannot listen on an address. */
  | 'cannot_listen'
  /** None of a gateway's workers could be started. */
  | 'no_worker'
  /** This version of Node.js lacks something that the gateway relies on. */
  | 'unsupported_node';

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
    /** The customer that it is about. */
    readonly customerId?: string;
  };

  constructor(refusal: RefusedCode, message: string, more: Refused['more'] = {}) {
    super(CONFLICTS.includes(refusal) ? 'conflict' : 'refused', message);
    this.refusal = refusal;
    this.more = more;
  }
}

/** Refusals because of something that is there already. */
const CONFLICTS: readonly string[] = ['conflict', 'idempotency_key_reused', 'precondition_failed'];

type RefusedCode =
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

/** What a log line says of an error: of an expected one its sentence with its cause, of any other its stack. */
export function reasonOrError(error: unknown): { readonly reason: string } | { readonly err: unknown } {
  if (!(error instanceof Failure)) return { err: error };
  const { message, cause } = error;
  return { reason: cause instanceof Error ? `${message} ${cause.message}` : message };
}
