import { type ErrorResponse, insufficientScope } from '../annotate/errors.ts';
import type { Route } from '../routing/router.ts';
import type { Caller } from './exchange.ts';

// Who may call what: the rules of a caller and of a route that have nothing to do with how often it calls.

/** What a caller may do: the scopes of its key or token. A caller that is known by its address alone has none. */
export function scopesOf({ consumer }: Caller): readonly string[] {
  return consumer === null ? NONE : consumer.scopes;
}

const NONE: readonly string[] = Object.freeze([]);

/**
 * 403 if a caller lacks a scope that the route requires; null if it may call the route. The request has been admitted and
 * counted before, so trying routes is held to the caller's quota.
 */
export function scopeRefusal({ scopes }: Route, caller: Caller): ErrorResponse | null {
  if (scopes === null) return null;
  const own = scopesOf(caller);
  return scopes.every((scope) => own.includes(scope)) ? null : insufficientScope(scopes);
}
