import type { WindowName } from '../model/values.ts';
import { countIn, givenBack, type ToppedUpLimit, type WindowCount } from './windows.ts';

/*
 * Leases: units of an account that one gateway has borrowed. The store has counted them in every window and in the history, as if
 * they had been used, so the gateway may admit requests from them without asking again. stores/redis/decide.lua has the twins of
 * these functions.
 */

/** Units that a gateway has borrowed. */
export interface Lease {
  /** A number that no other lease of the account has. */
  readonly id: number;
  /**
   * Negative if no window of this account has counted them, as for a group of routes with limits instead of the plan's: then they
   * matter to its ban alone. 0 for a notice: until it has ended, nothing of the account is lent.
   */
  readonly units: number;
  /** From then on no request is admitted from it (store's clock, Unix milliseconds). */
  readonly endsAtMs: number;
}

/** What a gateway says about leases when it asks for a decision. */
export interface LeaseTerms {
  /** The gateway asks for at most this many units, under this id. */
  readonly borrows?: { readonly id: number; readonly units: number };
  /** It returns what it did not use of a lease. */
  readonly returned?: ReturnedLease;
  /** Requests that do not fit are refused, even if others may still return units. */
  readonly isFinal?: true;
}

export interface ReturnedLease {
  readonly id: number;
  readonly unused: number;
  /** Where the lease was counted (`placeOf`), by account and window; 0 for a window that was not open. */
  readonly places: readonly (readonly number[])[];
}

/** What a decision has lent. */
export interface Lent {
  readonly units: number;
  /** How long requests may be admitted from them, milliseconds from the decision. */
  readonly forMs: number;
}

const HOUR_MS = 3_600_000;
/** The longest lease. It is short because requests may wait until the lease of a killed gateway has ended. */
export const MAX_LEASE_MS = 250;
/** Shorter leases are not worth a call. */
const MIN_LEASE_MS = 10;
/** Which part of the room in the tightest window is lent at most. */
const SHARE = 16;
/** Fewer units, and fewer requests, are not worth a call. */
const MIN_UNITS = 4;
const MIN_REQUESTS = 2;
/** How long after the end of a lease its return may be on the way, so that a request waits for it and is not refused. */
export const RETURN_WITHIN_MS = 100;
/** How long after its end the store knows a lease, and takes back what was not used: the gateway may have been busy. */
const KNOWN_FOR_MS = 2_000;
/** A lease that ends this much later than one that begins now was lent before the clock was set back by more than that. */
const MAX_AHEAD_MS = 5_000;
/** What is lent of an account is called back at most this often. */
const RECALL_EVERY_MS = 20;
/** The most leases of one account. */
const MAX_LEASES = 64;

/** One account under its budget, while a decision is made about it. */
interface LendingAccount {
  readonly limits: readonly ToppedUpLimit[];
  windows: Readonly<Partial<Record<WindowName, WindowCount>>>;
  readonly strikes: { readonly count: number };
  leases: readonly Lease[];
}

/** Of an account of which nothing is lent. */
export const NO_LEASES: readonly Lease[] = Object.freeze([]);

/** The leases that the store still knows. If its clock was set back a little, none ends later than one that begins now. */
function knownLeases(leases: readonly Lease[], nowMs: number): readonly Lease[] {
  if (leases.length === 0) return leases;
  const latestMs = nowMs + MAX_LEASE_MS;
  return leases
    .filter(({ endsAtMs }) => nowMs < endsAtMs + KNOWN_FOR_MS && endsAtMs <= latestMs + MAX_AHEAD_MS)
    .map((lease) => (lease.endsAtMs > latestMs ? { ...lease, endsAtMs: latestMs } : lease));
}

/** Whether units of an account may still come back, be it too late for a request to wait for them. */
export function mayReturn({ leases }: Pick<LendingAccount, 'leases'>, nowMs: number): boolean {
  return knownLeases(leases, nowMs).some(({ units }) => units !== 0);
}

/** Lends nothing of these accounts for a while, because a request waits for what is lent. */
export function notice(accounts: readonly LendingAccount[], nowMs: number): void {
  for (const account of accounts) {
    const known = knownLeases(account.leases, nowMs);
    const lent = known.filter(({ units }) => units !== 0);
    if (lent.length === 0) continue;
    const sinceMs = nowMs + MAX_LEASE_MS - RECALL_EVERY_MS;
    if (known.some(({ units, endsAtMs }) => units === 0 && endsAtMs > sinceMs)) continue;
    account.leases = [...lent, { id: 0, units: 0, endsAtMs: nowMs + MAX_LEASE_MS }];
  }
}

/** How many units a request may wait for that the windows of an account have counted. */
export function unreturnedUnits({ leases }: Pick<LendingAccount, 'leases'>, nowMs: number): number {
  let units = 0;
  for (const lease of knownLeases(leases, nowMs)) {
    if (nowMs < lease.endsAtMs + RETURN_WITHIN_MS) units += Math.max(lease.units, 0);
  }
  return units;
}

/** For how long a request may wait for units of these accounts, milliseconds; 0 if none are lent. */
export function waitFor(accounts: readonly Pick<LendingAccount, 'leases'>[], nowMs: number): number {
  let longest = 0;
  for (const { leases } of accounts) {
    for (const { units, endsAtMs } of knownLeases(leases, nowMs)) {
      if (units !== 0) longest = Math.max(longest, endsAtMs + RETURN_WITHIN_MS - nowMs);
    }
  }
  return longest;
}

/** Takes back what a gateway did not use of a lease: once, because the lease is then gone. */
export function takeBack(
  accounts: readonly LendingAccount[],
  { id, unused, places }: ReturnedLease,
  nowMs: number,
): void {
  for (const [i, account] of accounts.entries()) {
    const known = knownLeases(account.leases, nowMs);
    const lease = known.find((one) => one.id === id);
    if (lease === undefined) continue;
    account.leases = known.filter((one) => one !== lease);
    const windows: Partial<Record<WindowName, WindowCount>> = { ...account.windows };
    for (const [j, of] of account.limits.entries()) {
      const count = windows[of.window];
      const place = places[i]?.[j] ?? 0;
      if (count === undefined || unused === 0) continue;
      const left = givenBack(count, of, place, Math.min(unused, Math.abs(lease.units)));
      if (left === undefined) delete windows[of.window];
      else windows[of.window] = left;
    }
    account.windows = windows;
  }
}

/**
 * Lends units after all requests of a decision were admitted: at most a sixteenth of the room that is left in the tightest window,
 * and only while no refusal is near. The lease ends before any window, slice, hour or top-up in which it is counted.
 * @returns null if nothing is lent
 */
export function lend(
  accounts: readonly LendingAccount[],
  { id, units: most, cost }: { readonly id: number; readonly units: number; readonly cost: number },
  nowMs: number,
): Lent | null {
  let room = Number.POSITIVE_INFINITY;
  let forMs = Math.min(MAX_LEASE_MS, HOUR_MS - (nowMs % HOUR_MS));
  for (const { limits, windows, strikes, leases } of accounts) {
    const known = knownLeases(leases, nowMs);
    const isNoticed = known.some(({ units, endsAtMs }) => units === 0 && nowMs < endsAtMs);
    if (strikes.count > 0 || isNoticed || known.length >= MAX_LEASES) return null;
    for (const { window, limit, lengthMs, topUp } of limits) {
      const count = windows[window];
      if (count === undefined) return null;
      room = Math.min(room, limit - count.used);
      const partEndsAtMs = count.slices === undefined ? count.endsAtMs : count.endsAtMs - lengthMs;
      forMs = Math.min(forMs, partEndsAtMs - nowMs);
      if (topUp !== undefined) forMs = Math.min(forMs, topUp.untilMs - nowMs);
    }
  }
  const units = Math.min(most, Math.floor(room / SHARE));
  if (units < Math.max(MIN_UNITS, MIN_REQUESTS * cost) || forMs < MIN_LEASE_MS) return null;
  for (const account of accounts) {
    const counted = { ...account.windows };
    for (const limit of account.limits) counted[limit.window] = countIn(counted[limit.window], limit, nowMs, units);
    account.windows = counted;
    const noted = account.limits.length === 0 ? -units : units;
    account.leases = [...knownLeases(account.leases, nowMs), { id, units: noted, endsAtMs: nowMs + forMs }];
  }
  return { units, forMs };
}
