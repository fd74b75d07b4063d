import type { Failed } from './acme-records.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** A wait that the authority asks for, or that a stored attempt names, is never longer than this: 7 days, in milliseconds. */
export const MAX_WAIT_MS = 7 * 24 * HOUR_MS;

/**
 * When a certificate is to be renewed, in Unix milliseconds: when a third of its lifetime is left, or up to a thirtieth of the
 * lifetime earlier. The share of that thirtieth follows from the certificate itself, so that all gateways compute the same time, and
 * certificates that were issued together are not renewed together. Of 90 days 30 to 33 are left then, of 6 days 48 to 53 hours.
 * @param digest a hash of the certificate, hexadecimal
 */
export function renewalAtMs(
  { validFromMs, expiresAtMs }: { readonly validFromMs: number; readonly expiresAtMs: number },
  digest: string,
): number {
  const lifetimeMs = expiresAtMs - validFromMs;
  const share = Number.parseInt(digest.slice(0, 8), 16) / 0xffffffff;
  return Math.round(expiresAtMs - lifetimeMs / 3 - (share * lifetimeMs) / 30);
}

/**
 * How long to wait after a number of failures in a row, in milliseconds. An authority that cannot be reached is tried again after
 * seconds. A refusal counts against the authority's limits: Let's Encrypt allows 5 failed validations of a name in an hour, and
 * waits of 2, 4, 8, 16, 32 minutes and so on, up to 6 hours, stay within that.
 * @param failures at least 1
 * @param retryAfterMs what the authority has asked for; 0 if it has not
 * @param random from 0 to 1: each wait is up to a quarter longer
 */
export function waitAfterMs(
  { failures, kind, retryAfterMs }: Pick<Failed, 'failures' | 'kind'> & { readonly retryAfterMs: number },
  random: number,
): number {
  const [firstMs, maxMs] = kind === 'unreachable' ? [5 * SECOND_MS, 10 * MINUTE_MS] : [2 * MINUTE_MS, 6 * HOUR_MS];
  const waitMs = Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs);
  return Math.round(Math.max(waitMs * (1 + random / 4), Math.min(retryAfterMs, MAX_WAIT_MS)));
}

/**
 * Whether the time of the next try has come. A time that is further away than any wait is one from before the clock was set back,
 * and does not count.
 */
export function isTime(nextTryAtMs: number, nowMs: number): boolean {
  return nowMs >= nextTryAtMs || nextTryAtMs - nowMs > MAX_WAIT_MS * 1.25;
}
