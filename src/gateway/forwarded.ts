import { type ErrorAnswer, plainError } from '../annotate/error.ts';
import { CLIENT_CLOSED_REQUEST } from './exchange.ts';
import type { UpgradeOnResult } from './upgrade-on.ts';

const SWITCHING_PROTOCOLS = 101;

/** How a request ends that was forwarded: with an answer that has been given, or one that is still to be. */
export type ForwardedEnd =
  | { readonly kind: 'ended'; readonly status: number; readonly code: string | null; readonly cause: string | null }
  | { readonly kind: 'refused'; readonly error: ErrorAnswer; readonly cause: string | null };

/** @param status of the answer, where it has begun */
export function forwardedEnd(result: UpgradeOnResult, status: number): ForwardedEnd {
  if (result.kind === 'answered') return { kind: 'ended', status, code: null, cause: null };
  if (result.kind === 'upgraded') return { kind: 'ended', status: SWITCHING_PROTOCOLS, code: null, cause: null };
  if (result.kind === 'client_gone') {
    return { kind: 'ended', status: CLIENT_CLOSED_REQUEST, code: null, cause: result.cause };
  }
  if (result.kind === 'refused') return { kind: 'refused', error: result.error, cause: null };
  const { code, cause } = result.fault;
  if (result.kind === 'broken') return { kind: 'ended', status, code, cause };
  return { kind: 'refused', error: plainError(result.fault.code, result.fault.retryAfterMs), cause };
}
