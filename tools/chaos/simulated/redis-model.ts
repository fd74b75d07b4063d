import { historyBehind } from '../../../src/admit/account-id.ts';
import type { Allowance } from '../../../src/admit/allowance.ts';
import { accountsAfter, decide, type SettledWindow, settled } from '../../../src/admit/decision.ts';
import { limitAt, type WindowLimit } from '../../../src/admit/windows.ts';
import { countIn, presentCount, WINDOW_MS } from '../../../src/engine/counting.ts';
import { UNSEEN } from '../../../src/engine/decide.ts';
import { MAX_LEASE_MS, RECALL_FOR_MS } from '../../../src/engine/leasing.ts';
import { lift } from '../../../src/engine/operator-changes.ts';
import type { AccountState, Decision, Lease, LeaseTerms } from '../../../src/engine/types.ts';
import type { WindowCount } from '../../../src/model/account.ts';
import { WINDOWS, type WindowName } from '../../../src/model/values.ts';
import { type Addition, allowanceIn, type DecisionPart, type SettlementCall, windowOf } from './script-arguments.ts';

/** What one script call has done to one consumer or account. */
export type Executed = ExecutedDecision | ExecutedAddition | ExecutedReport | ExecutedSettlement;

/** A part of a call of the decision script. */
export interface ExecutedDecision {
  readonly kind: 'decision';
  readonly consumerId: string;
  readonly decision: Decision;
  /** In the order of the budgets. */
  readonly accounts: readonly ChargedAccount[];
  /** The process that asked, if requests in flight are bounded, and how many it had in each account, with those of this call. */
  readonly holder: string;
  readonly ownInFlight: readonly number[] | null;
  /** What was added to each history. */
  readonly recorded: readonly Recorded[];
  readonly leaseTerms: LeaseTerms;
  /** The accounts of which the call has called back what is lent. */
  readonly recalled: readonly string[];
}

export interface ChargedAccount {
  readonly accountId: string;
  /** Undefined: the store had nothing of this account. */
  readonly before: AccountState | undefined;
  readonly stored: AccountState;
  readonly tickets: readonly Ticket[];
}

interface Recorded {
  readonly accountId: string;
  readonly cost: number;
}

/** A call of the script for late usage. */
export interface ExecutedAddition {
  readonly kind: 'addition';
  readonly accountId: string;
  readonly nowMs: number;
  readonly windows: readonly AddedWindow[];
  readonly stored: AccountState;
}

/** A call of the script that settles. */
export interface ExecutedSettlement {
  readonly kind: 'settlement';
  readonly accountId: string;
  readonly delta: number;
  readonly windows: readonly SettledWindow[];
  readonly nowMs: number;
  readonly stored: AccountState;
}

/** A call of the script for reports of requests in flight. */
export interface ExecutedReport {
  readonly kind: 'report';
  readonly accountId: string;
  readonly holder: string;
  readonly count: number;
  readonly nowMs: number;
}

export interface AddedWindow {
  readonly window: WindowName;
  readonly slices: number;
  readonly isCalendar: boolean;
  readonly spent: number;
  /** By the store's clock, Unix milliseconds. */
  readonly endsAtMs: number;
  /** False: the window had ended. */
  readonly isAdded: boolean;
}

/** How many requests of an account a process has in flight, as it reported last. */
export interface Ticket {
  readonly holder: string;
  readonly count: number;
  /** By the store's clock, Unix milliseconds. */
  readonly endsAtMs: number;
}

/** How long after its end a lease is known, and what is unused of it is taken back. */
export const KNOWN_FOR_MS = 2_000;
/** How much later than a lease that begins now one may end, after the clock was set back. */
const MAX_AHEAD_MS = 5_000;

/** How long a report of requests in flight holds (engine/special.ts). */
export const TICKET_MS = 10_000;

interface StoredAccount {
  readonly state: AccountState;
  readonly tickets: readonly Ticket[];
}

/** What the store holds: accounts, and the whole cost in each history. */
interface Data {
  readonly accounts: ReadonlyMap<string, StoredAccount>;
  readonly histories: ReadonlyMap<string, number>;
}

const NOTHING: StoredAccount = { state: UNSEEN, tickets: [] };

/**
 * A model of Redis as the gateways use it: it takes the arguments of the scripts, decides with `decide`, and gives their replies. test/tools/chaos/redis-model.test.ts compares it with a real Redis.
 */
export class RedisModel {
  readonly #nowMs: () => number;
  #data: Data = { accounts: new Map(), histories: new Map() };
  /** The data before each of the last writes, the oldest first. */
  #before: Data[] = [];

  /** @param nowMs the store's clock, whole Unix milliseconds */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** The stored state, with what has ended; undefined if there is none. */
  account(accountId: string): AccountState | undefined {
    return this.#data.accounts.get(accountId)?.state;
  }

  /** The reports of requests in flight that hold, by account. */
  tickets(): [accountId: string, tickets: readonly Ticket[]][] {
    return [...this.#data.accounts].map(([id, { tickets }]) => [id, inForce(tickets, this.#nowMs())]);
  }

  /** The whole cost in the history of each consumer and customer. */
  get histories(): ReadonlyMap<string, number> {
    return this.#data.histories;
  }

  /** Undoes the last writes, as a restart or a failover does that loses them. */
  lose(writes: number): void {
    for (let i = 0; i < writes; i++) this.#data = this.#before.pop() ?? this.#data;
  }

  /** The decision script. @returns the reply, and what was done */
  decide(parts: readonly DecisionPart[]): { reply: readonly number[]; executed: Executed[] } {
    const nowMs = this.#nowMs();
    const allowances = new Map(parts.map(({ rule }) => [rule, allowanceIn(rule, nowMs)]));
    if ([...allowances.values()].includes(null)) return { reply: [nowMs], executed: [] };
    const executed: Executed[] = [];
    const reply = [nowMs];
    const begun = new Map<string, number>();
    for (const part of parts) {
      const allowance = allowances.get(part.rule)!;
      const ownInFlight = part.inFlight?.map((count, i) =>
        count < 0 ? count : count + (begun.get(part.accountIds[i]!) ?? 0),
      );
      const done = this.#decideOne({ ...part, inFlight: ownInFlight ?? null }, allowance, nowMs);
      executed.push(done);
      for (const [i, bounded] of done.decision.inFlight?.entries() ?? []) {
        const id = part.accountIds[i]!;
        if (bounded >= 0) begun.set(id, (begun.get(id) ?? 0) + done.decision.admitted);
      }
      const told = numbersOf(done.decision, allowance);
      reply.push(told.length, ...told);
    }
    return { reply, executed };
  }

  #decideOne(
    { rule, n, cost, amounts, accountIds, historyIds, inFlight: ownInFlight, leaseTerms = {} }: DecisionPart,
    allowance: Allowance,
    nowMs: number,
  ): ExecutedDecision {
    const { accounts } = this.#data;
    const known = accountIds.map((id) => accounts.get(id));
    const before = known.map((account) => account?.state ?? UNSEEN);
    const others = known.map((account, i) => {
      const tickets = inForce(account?.tickets ?? [], nowMs).map((ticket) => endingBy(ticket, nowMs + TICKET_MS));
      return ownInFlight?.[i] === -1 ? tickets : tickets.filter(({ holder }) => holder !== rule.holder);
    });
    const inFlight = others.map((tickets, i) => Math.max(ownInFlight?.[i] ?? 0, 0) + sumOf(tickets));
    const decision = decide(before, allowance, nowMs, cost, n, inFlight, amounts, leaseTerms);
    const isWritten = n > 0 || leaseTerms.returned !== undefined;
    const after = isWritten ? accountsAfter(before, decision, allowance) : before;
    const charged = accountIds.map((accountId, i): ChargedAccount => {
      const isBounded = rule.budgets[i]!.inFlight !== undefined && n > 0;
      const mine = {
        holder: rule.holder ?? '',
        count: (ownInFlight?.[i] ?? 0) + decision.admitted,
        endsAtMs: nowMs + TICKET_MS,
      };
      const tickets = isBounded ? [...others[i]!, ...(mine.count > 0 ? [mine] : [])] : (known[i]?.tickets ?? []);
      return { accountId, before: known[i]?.state, stored: after[i]!, tickets };
    });
    const charges = [cost, ...Object.values(amounts ?? {})];
    const borrowed = (decision.lent?.units ?? 0) - takenBack(before, leaseTerms, nowMs);
    const recorded = historyIds.map((accountId, i) => {
      const admitted = charges[Math.floor(i / rule.histories)]! * decision.admitted;
      return { accountId, cost: i < rule.histories ? admitted + borrowed : admitted };
    });
    if (isWritten) this.#write(charged, recorded);
    // A notice that nothing more is lent goes with a recall.
    const isNoticed = (state: AccountState | undefined) =>
      state?.leases?.some(({ units, endsAtMs }) => units === 0 && endsAtMs === nowMs + RECALL_FOR_MS) === true;
    const recalled = accountIds.filter((_, i) => isNoticed(charged[i]!.stored) && !isNoticed(known[i]?.state));
    return {
      kind: 'decision',
      consumerId: accountIds[0]!,
      decision,
      accounts: charged,
      holder: rule.holder ?? '',
      ownInFlight,
      recorded,
      leaseTerms,
      recalled,
    };
  }

  /** The script for late usage. @returns the reply, and what was done */
  reconcile(
    accountId: string,
    { ownNowMs, windows: brought, hours }: Addition,
  ): { reply: number[]; executed: Executed[] } {
    const nowMs = this.#nowMs();
    const shiftMs = ownNowMs > 0 ? nowMs - ownNowMs : 0;
    const { state: before, tickets } = this.#data.accounts.get(accountId) ?? NOTHING;
    const windows: Partial<Record<WindowName, WindowCount>> = { ...before.windows };
    const added: AddedWindow[] = [];
    for (const { window, slices, isCalendar, spent, endsAtMs: ends } of brought) {
      const isFixed = slices === 0 && !isCalendar;
      const latestMs = isFixed ? nowMs + WINDOW_MS[window] : Number.POSITIVE_INFINITY;
      const endsAtMs = Math.min(ends + shiftMs, latestMs);
      const isAdded = endsAtMs > nowMs;
      if (isAdded) {
        const limit = limitAt(
          windowOf(window, 0, slices, () => ({ startsAtMs: nowMs, endsAtMs })),
          nowMs,
        );
        windows[window] = countIn(presentCount(windows[window], limit, nowMs).count, limit, nowMs, spent);
      }
      added.push({ window, slices, isCalendar, spent, endsAtMs, isAdded });
    }
    const stored = { ...before, windows };
    const recorded = hours.map(({ cost }) => ({ accountId, cost }));
    if (added.some(({ isAdded }) => isAdded)) this.#write([{ accountId, stored, tickets }], recorded);
    else if (recorded.length > 0) this.#write([], recorded);
    return {
      reply: added.map(({ isAdded }) => (isAdded ? 1 : 0)),
      executed: [{ kind: 'addition', accountId, nowMs, windows: added, stored }],
    };
  }

  /** The script that settles. @returns what was done; nothing if the periods of a calendar window do not include the present */
  settle({ accountId, historyIds, isRecorded, delta, windowsAt }: SettlementCall): Executed[] {
    const nowMs = this.#nowMs();
    const windows = windowsAt(nowMs);
    if (windows === null) return [];
    const isDeleted = (id: string) => isRecorded && !this.#data.histories.has(historyBehind(id));
    const recorded = historyIds.filter((id) => !isDeleted(id)).map((id) => ({ accountId: id, cost: delta }));
    const { state, tickets } = this.#data.accounts.get(accountId) ?? NOTHING;
    const stored = settled(state, delta, windows, nowMs);
    this.#write(isDeleted(accountId) ? [] : [{ accountId, stored, tickets }], recorded);
    if (isDeleted(accountId)) return [];
    return [{ kind: 'settlement', accountId, delta, windows, nowMs, stored }];
  }

  /** The script for reports of requests in flight. @returns what was done */
  reportInFlight(accountId: string, holder: string, count: number): Executed[] {
    const nowMs = this.#nowMs();
    const { state, tickets } = this.#data.accounts.get(accountId) ?? NOTHING;
    const others = inForce(tickets, nowMs).filter((ticket) => ticket.holder !== holder);
    const left = others.map((ticket) => endingBy(ticket, nowMs + TICKET_MS));
    if (count > 0) left.push({ holder, count, endsAtMs: nowMs + TICKET_MS });
    this.#write([{ accountId, stored: state, tickets: left }], []);
    return [{ kind: 'report', accountId, holder, count, nowMs }];
  }

  /** The script that lifts. @returns whether a ban was in force */
  lift(accountId: string): boolean {
    const before = this.#data.accounts.get(accountId);
    if (before === undefined) return false;
    const after = lift(before.state, this.#nowMs());
    if (after !== before.state) this.#write([{ accountId, stored: after, tickets: before.tickets }], []);
    return after !== before.state;
  }

  /** What one script writes is written, and lost, as a whole. */
  #write(
    changed: readonly Pick<ChargedAccount, 'accountId' | 'stored' | 'tickets'>[],
    recorded: readonly Recorded[],
  ): void {
    this.#before.push(this.#data);
    if (this.#before.length > MAX_LOST) this.#before.shift();
    const accounts = new Map(this.#data.accounts);
    for (const { accountId, stored, tickets } of changed) accounts.set(accountId, { state: stored, tickets });
    const histories = new Map(this.#data.histories);
    for (const { accountId, cost } of recorded) histories.set(accountId, (histories.get(accountId) ?? 0) + cost);
    this.#data = { accounts, histories };
  }
}

/** The most writes that a replica may lag behind. */
const MAX_LOST = 16;

/** Whether the store still knows a lease. One that ends too late was lent before the clock was set back. */
function isKnown({ endsAtMs }: Lease, nowMs: number): boolean {
  return nowMs < endsAtMs + KNOWN_FOR_MS && endsAtMs <= nowMs + MAX_LEASE_MS + MAX_AHEAD_MS;
}

/** How many units of a returned lease are taken out of the histories again. */
export function takenBack(accounts: readonly AccountState[], { returned }: LeaseTerms, nowMs: number): number {
  const leases = accounts.flatMap((account) => account.leases ?? []);
  const lease = leases.find((one) => one.id === returned?.id && isKnown(one, nowMs));
  return lease === undefined ? 0 : Math.min(returned!.unused, Math.abs(lease.units));
}

function inForce(tickets: readonly Ticket[], nowMs: number): readonly Ticket[] {
  return tickets.filter(({ endsAtMs }) => endsAtMs > nowMs);
}

/** After the clock was set back, a ticket ends no later than one that begins now. */
function endingBy(ticket: Ticket, latestMs: number): Ticket {
  return { ...ticket, endsAtMs: Math.min(ticket.endsAtMs, latestMs) };
}

function sumOf(tickets: readonly Ticket[]): number {
  return tickets.reduce((sum, { count }) => sum + count, 0);
}

/** The numbers of the decision script's reply about one consumer. */
function numbersOf(decision: Decision, { budgets }: Allowance) {
  const { admitted, bannedFrom, imposesBan, isCrowded, waitMs = 0, mayReturn, lent } = decision;
  const { inFlight = [], accounts } = decision;
  const numbers = [admitted];
  for (const [i, { windows }] of accounts.entries()) {
    for (const limit of budgets[i]!.limits) numbers.push(...countNumbers(windows, limit));
  }
  for (const count of inFlight) if (count >= 0) numbers.push(count);
  const isPlain = !isCrowded && waitMs === 0 && !mayReturn && lent === undefined;
  if (isPlain && accounts.every(({ strikes, ban }) => strikes === undefined && ban === undefined)) return numbers;
  numbers.push(bannedFrom, imposesBan ? 1 : 0, isCrowded ? 1 : 0);
  numbers.push(waitMs, mayReturn ? 1 : 0, lent?.units ?? 0, lent?.forMs ?? 0);
  for (const { strikes, ban } of accounts) {
    const budget = budgets.findIndex(({ name }) => name === (ban?.budget ?? ''));
    const window = ban === undefined ? 0 : WINDOWS.indexOf(ban.window) + 1 + 10 * budget;
    numbers.push(strikes?.count ?? 0, strikes?.endsAtMs ?? 0, ban?.number ?? 0, ban?.untilMs ?? 0, window);
  }
  return numbers;
}

function countNumbers(windows: AccountState['windows'], { window, slices }: WindowLimit): number[] {
  const count = windows[window];
  if (slices === undefined) return [count?.used ?? 0, count?.endsAtMs ?? 0];
  if (count?.slices === undefined) return [0];
  return [count.slices.counts.length, count.slices.startsAtMs, count.slices.first, ...count.slices.counts];
}
