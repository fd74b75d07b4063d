import type { Ban, TopUp, TopUpNote, WindowCount } from '../model/account.ts';
import type { BanRule } from '../model/plan.ts';
import type { WindowName } from '../model/values.ts';

/*
 * The values that the engine reads and makes. It leaves out a member without a value: null would differ from absent in TypeScript and
 * not in Lua. The engine changes no object that it was given, so a store saves what is not identical to what it had.
 */

/** The count of each open window. */
export type WindowCounts = Readonly<Partial<Record<WindowName, WindowCount>>>;

export type TopUps = Readonly<Partial<Record<WindowName, TopUp>>>;

/** Refusals that count towards a ban. The count starts from 0 again at `endsAtMs`. */
export interface Strikes {
  /** From 1. */
  readonly count: number;
  /** Unix milliseconds by the store's clock, as every `…AtMs` and `untilMs` here. */
  readonly endsAtMs: number;
}

/** Units that a gateway has borrowed. */
export interface Lease {
  /** The number of the lease: every lease of the account has another one. */
  readonly id: number;
  /**
   * Negative if no window of this account has counted the units, as for a group of routes with limits instead of the plan's: then they
   * matter to its ban alone. 0 for a recall: until the recall has ended, the store lends nothing of the account.
   */
  readonly units: number;
  /** From then on the gateway admits no request from it. */
  readonly endsAtMs: number;
}

/** A report of one process: how many requests of an account it has in flight. */
export interface Ticket {
  /** The name of the process. */
  readonly holder: string;
  readonly count: number;
  /** From then on the store ignores the report. */
  readonly endsAtMs: number;
}

/** The state of one account, as a store keeps it. */
export interface AccountState {
  readonly windows: WindowCounts;
  readonly strikes?: Strikes | undefined;
  /** The last ban, which a store keeps after its end, because the next one has `number + 1`. */
  readonly ban?: Ban | undefined;
  /** The amounts that operators have added to limits, by window. */
  readonly topUps?: TopUps | undefined;
  /** The single top-ups of those sums, for operators. A decision leaves them out, and `accountAfter` keeps them. */
  readonly topUpNotes?: readonly TopUpNote[] | undefined;
  /** The leases that gateways have borrowed. */
  readonly leases?: readonly Lease[] | undefined;
  /** The reports of requests in flight of all processes; absent in a store that serves one process. */
  readonly tickets?: readonly Ticket[] | undefined;
}

/** The accounts of the budgets of a rule, in their order. */
export type Accounts = readonly [AccountState, ...AccountState[]];

/**
 * One window that a decision counts. There are three kinds:
 *
 * - A fixed window, with neither `slices` nor `instants`, opens with the first request that is counted in it.
 * - A sliding window has `slices`. Its grid of slices opens with the first request after quiet. What was counted in a slice
 *   leaves one length after the end of that slice, so no span of that length admits more than the limit.
 * - A calendar window has `instants`. It ends at the first of them after the present.
 */
export interface Limit {
  readonly window: WindowName;
  /** How long the window lasts, milliseconds; of a month the longest. */
  readonly lengthMs: number;
  readonly limit: number;
  /** The number of slices in one length. */
  readonly slices?: number | undefined;
  /** The ends of periods of the calendar, ascending. The caller passes enough of them, so that the last one is in the future. */
  readonly instants?: readonly number[] | undefined;
  /** The top-up that `toppedUp` has added to `limit`. */
  readonly topUp?: TopUp | undefined;
  /** Absent here: the caller replaces the calendar of a limit by its instants first. */
  readonly calendar?: never;
}

/** The limits of one account. */
export interface RuleBudget {
  /** Empty for the consumer's own. */
  readonly name: string;
  /** The unit that the budget counts, such as `tokens`; absent for the cost of requests. */
  readonly unit?: string | undefined;
  /** The maximum of requests in flight; absent if any number may be. */
  readonly inFlight?: number | undefined;
  readonly limits: readonly Limit[];
}

/** The limits and bans of one consumer at one moment. */
export interface Rule {
  readonly budgets: readonly RuleBudget[];
  /** Absent: refusals lead to no ban. */
  readonly bans?: BanRule | undefined;
  /** The index of the budget whose account has the strikes and bans. */
  readonly bansIn: number;
  /** Whether some budget has `inFlight`. */
  readonly isBounded?: boolean | undefined;
  /** The name of the process that asks, if the store keeps a ticket of its requests in flight. */
  readonly holder?: string | undefined;
}

/** Whole numbers from 0, by the name of the unit. */
export type Amounts = Readonly<Record<string, number>>;

/** The parts of a decision request that few requests have. */
export interface Details {
  /** The amount that each request takes of each budget in a unit of its own. */
  readonly amounts?: Amounts | undefined;
  /** How many requests the process has in flight in each account. -1: it does not know, and its ticket holds. */
  readonly inFlight?: readonly number[] | undefined;
  readonly terms?: LeaseTerms | undefined;
}

/** What a gateway asks for or returns of leases with a decision. */
export interface LeaseTerms {
  readonly borrows?: Borrows | undefined;
  /** The gateway returns what it did not use of a lease. */
  readonly returned?: ReturnedLease | undefined;
  /** The store refuses requests that do not fit, even if other gateways may still return units. */
  readonly isFinal?: true | undefined;
}

/** The gateway asks for at most this many units, under this id. */
export interface Borrows {
  readonly id: number;
  readonly units: number;
  /** For how long it can use them, milliseconds. The store may lend them for a shorter time. */
  readonly forMs: number;
}

export interface ReturnedLease {
  readonly id: number;
  readonly unused: number;
  /** Where the store counted the lease (`placeOf`), by account and window; 0 for a window that was not open. */
  readonly places: readonly (readonly number[])[];
}

/** The units that a decision has lent. */
interface Loan {
  readonly units: number;
  /** How long the gateway may admit requests from them, milliseconds from the decision. */
  readonly forMs: number;
}

/** The decision about `n` simultaneous requests of one consumer: it admits the first, refuses the next and bans the last. */
export interface Decision {
  /** The time of the decision by the store's clock, Unix milliseconds. */
  readonly nowMs: number;
  readonly cost: number;
  /** The amount that each request takes of each budget in a unit of its own; absent if the allowance has no such budget. */
  readonly amounts?: Amounts | undefined;
  readonly n: number;
  /** How many requests are admitted: the first ones. */
  readonly admitted: number;
  /** The index of the first request that gets the ban answer; `n` if none does. */
  readonly bannedFrom: number;
  /** Set if this decision imposed the ban, with the request at `bannedFrom`; absent if the ban was in force before. */
  readonly imposesBan?: true | undefined;
  /** Set if the store may not have counted the admitted requests, because it did not answer. */
  readonly isUncertain?: true | undefined;
  /** Set if the requests in flight alone refuse the refused requests: those are no strikes, and no limit refuses them. */
  readonly isCrowded?: true | undefined;
  /** What the store has lent to the gateway, which `accounts` have counted. */
  readonly lent?: Loan | undefined;
  /** Set if other gateways may return units of these accounts, and no ban refuses requests in any case. */
  readonly mayReturn?: true | undefined;
  /**
   * Set if the decision neither admits nor refuses the requests behind the admitted ones, because such units may be enough for them: for
   * how long they may wait, milliseconds.
   */
  readonly waitMs?: number | undefined;
  /** The requests in flight of each account after the last request, -1 without such a limit; absent if none has one. */
  readonly inFlight?: readonly number[] | undefined;
  /** The accounts after the last request, as far as the rule counts them. */
  readonly accounts: Accounts;
  /** The indexes of the accounts whose leases the store must recall. */
  readonly recalls?: readonly number[] | undefined;
  /** What the store took back of a returned lease, and the hour since 1970 in whose history it was. */
  readonly tookBack?: { readonly units: number; readonly hour: number } | undefined;
  /** Set if requests wait before counts move to another form of their window: the store keeps the counts as they are. */
  readonly awaitsMove?: true | undefined;
}

/** An object that the engine is still making. */
export type Draft<T> = { -readonly [K in keyof T]: T[K] };
