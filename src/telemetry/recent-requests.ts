import { WINDOW_MS } from '../engine/counting.ts';
import type { Exchange } from '../gateway/exchange.ts';
import type { Judgement, NearCandidate, TailedRequest, TailFilter } from '../model/refusal.ts';
import { type LimitName, windowOf } from '../model/values.ts';
import { joinedCalls, joinedFound } from '../operations/live/found.ts';
import {
  type DecidedColumns,
  type Finding,
  type LiveQuestion,
  type RefusalQuery,
  type RequestsSeen,
  STEP_MS,
  STEPS_KEPT,
  type TailBatch,
  TRAFFIC_COLUMNS,
} from '../operations/live/shapes.ts';
import { CallerBudget } from './caller-budget.ts';
import { CallerCalls } from './caller-calls.ts';
import { DecidedRequests } from './decided-requests.ts';
import { cut, hasFailed, KeptRefusals, ownCopy, paidAmounts } from './kept-refusals.ts';
import { RefusalCounts } from './refusal-counts.ts';
import type { StoredExplanations } from './stored-explanations.ts';

/** Maximum refusals kept of known callers, and of others, so that a flood of the latter drops no refusal of the former. */
const KNOWN_KEPT = 10_000;
const OTHERS_KEPT = 1_000;
/**
 * Maximum failures kept that the gateway answered with no error of its own, and of one caller in ten minutes.
 *
 * Attack: a caller lets the service fail without end, or leaves before each answer, to push out what is known of others.
 */
const FAILURES_KEPT = 2_000;
const FAILURES_OF_CALLER = 200;
const FAILURES_WITHIN_MS = 600_000;
/** Callers that have used half of a window take at most the half of it, so that they displace none that has used most of one. */
const MAX_NEAR = 4_000;
/** Maximum requests that a tail holds until they are fetched. */
const MAX_TAILED = 50;
const MAX_TAILS = 100;
/** How long a tail lives after the last request for it. */
const TAIL_LEASE_MS = 5_000;

const REFUSALS: readonly Judgement[] = ['refused', 'banned'];
const COLUMNS = TRAFFIC_COLUMNS.length;
const FAILED = TRAFFIC_COLUMNS.indexOf('failed');
const COLUMN_OF: Readonly<Record<Judgement, number>> = {
  admitted: 0,
  refused: 1,
  banned: 2,
  unauthenticated: 3,
  shed: 4,
  undecided: 5,
  malformed: 6,
  denied: 7,
  preflight: 7,
  usage: 7,
  forbidden: 7,
};

/**
 * What one process keeps of its last requests for the admin API: counts, refusals, consumers near a limit, and the decided
 * requests for simulations. Everything is bounded. A process without an admin token has no such object.
 *
 * `note` runs for every request. For an admitted one it adds to a few arrays and compares its counts with its limits.
 */
export class RecentRequests {
  readonly #wallMs: () => number;
  /** A ring of rows; the bucket with number `step` is row `step % STEPS_KEPT`. */
  readonly #counts = new Uint32Array(STEPS_KEPT * COLUMNS);
  #step: number;
  readonly #known = new KeptRefusals(KNOWN_KEPT);
  readonly #others = new KeptRefusals(OTHERS_KEPT);
  readonly #failures = new KeptRefusals(FAILURES_KEPT);
  readonly #failuresOf = new CallerBudget(FAILURES_OF_CALLER, FAILURES_WITHIN_MS);
  /** By consumer, the least recently noted first. */
  readonly #near = new Map<string, Near>();
  readonly #tails = new Map<string, Tail>();
  readonly #record = new DecidedRequests();
  readonly #refused = new RefusalCounts();
  readonly #calls = new CallerCalls();

  readonly #stored: StoredExplanations | null;

  /** @param wallMs Unix milliseconds @param stored keeps some of the refusals and failures in the store */
  constructor(wallMs: () => number, stored: StoredExplanations | null = null) {
    this.#wallMs = wallMs;
    this.#stored = stored;
    this.#step = Math.floor(wallMs() / STEP_MS);
  }

  /** Notes a request that has ended. */
  note(exchange: Exchange): void {
    const nowMs = this.#wallMs();
    this.#turnTo(nowMs);
    const row = (this.#step % STEPS_KEPT) * COLUMNS;
    this.#counts[row + COLUMN_OF[exchange.judgement]]!++;
    if (exchange.status >= 500) this.#counts[row + FAILED]!++;
    this.#noteIfUnserved(exchange, nowMs);
    if (exchange.consumerId !== null) this.#calls.note(exchange, nowMs);
    if (exchange.consumerId !== null && exchange.decidedAtMs !== null) {
      this.#record.add(exchange);
      if (exchange.judgement === 'admitted') this.#noteNear(exchange, nowMs);
      else if (REFUSALS.includes(exchange.judgement)) this.#refused.add(exchange, nowMs);
    }
    if (this.#tails.size > 0) for (const tail of this.#tails.values()) tail.add(exchange, nowMs);
  }

  /** Notes a request that was refused or failed. */
  #noteIfUnserved(exchange: Exchange, nowMs: number): void {
    if (exchange.code !== null) (exchange.consumerId === null ? this.#others : this.#known).add(exchange, nowMs);
    else if (!hasFailed(exchange)) return;
    else if (this.#failuresOf.take(exchange, nowMs)) this.#failures.add(exchange, nowMs);
    this.#stored?.note(exchange, nowMs);
  }

  /** @returns what is asked for. Tails that are new begin now. */
  answer({ queries, tails }: LiveQuestion): RequestsSeen {
    const nowMs = this.#wallMs();
    this.#turnTo(nowMs);
    return {
      traffic: { lastStep: this.#step, counts: this.#traffic() },
      near: this.#nearest(nowMs),
      refused: this.#refused.at(nowMs),
      found: queries.map((one) => this.#find(one, nowMs)),
      tails: this.#batches(tails, nowMs),
    };
  }

  /** The last decided requests of identified callers. */
  decidedColumns(): DecidedColumns {
    return this.#record.columns();
  }

  /** Empties the buckets since the last request. If the clock was set back, the latest bucket continues. */
  #turnTo(nowMs: number): void {
    const step = Math.floor(nowMs / STEP_MS);
    if (step <= this.#step && this.#step - step < STEPS_KEPT) return;
    const [from, to] =
      step < this.#step ? [0, STEPS_KEPT] : [this.#step + 1, Math.min(step, this.#step + STEPS_KEPT) + 1];
    for (let i = from; i < to; i++) this.#counts.fill(0, (i % STEPS_KEPT) * COLUMNS, ((i % STEPS_KEPT) + 1) * COLUMNS);
    this.#step = step;
  }

  #traffic(): Uint32Array {
    const next = ((this.#step + 1) % STEPS_KEPT) * COLUMNS;
    const counts = new Uint32Array(this.#counts.length);
    counts.set(this.#counts.subarray(next));
    counts.set(this.#counts.subarray(0, next), this.#counts.length - next);
    return counts;
  }

  #find(query: RefusalQuery, nowMs: number): Finding {
    if ('caller' in query) {
      const calls = joinedCalls(this.#calls.of(query.caller));
      const refusals = [this.#known, this.#failures].flatMap((kept) => kept.ofCaller(query.caller, nowMs));
      return joinedFound([{ refusals, calls }]);
    }
    const { requestId } = query;
    const refusals = [this.#known, this.#others, this.#failures].flatMap((kept) => kept.of(requestId, nowMs));
    return joinedFound([{ refusals, calls: null }]);
  }

  /** Notes a consumer that has at most half of a window left, or less than one more such request costs. */
  #noteNear({ consumerId, accountId, plan, cost, windows }: Exchange, nowMs: number): void {
    let least = 2;
    let longest: LimitName | null = null;
    let longestMs = 0;
    let isUrgent = false;
    for (let i = 0; i < windows.length; i++) {
      const { limit, name, lengthMs, remaining: left } = windows[i]!;
      if (left * 2 > limit && left >= cost) continue;
      if (left * 10 <= limit || left < cost) isUrgent = true;
      const share = limit === 0 ? 0 : left / limit;
      least = Math.min(least, share);
      if (lengthMs <= longestMs) continue;
      longest = name;
      longestMs = lengthMs;
    }
    if (longest === null) return;
    const id = accountId ?? consumerId!;
    const known = this.#near.get(id);
    if (known !== undefined) {
      Object.assign(known, { plan: plan!, window: longest, cost, share: least, atMs: nowMs });
      return;
    }
    if (!isUrgent && this.#near.size >= MAX_NEAR / 2) return;
    if (this.#near.size >= MAX_NEAR) this.#near.delete(this.#near.keys().next().value!);
    this.#near.set(id, { id, plan: plan!, window: longest, cost, share: least, atMs: nowMs });
  }

  /** Forgets the consumers whose windows have certainly all ended since. */
  #nearest(nowMs: number): NearCandidate[] {
    for (const [id, { window, atMs }] of this.#near)
      if (nowMs - atMs > 2 * WINDOW_MS[windowOf(window)]) this.#near.delete(id);
    return [...this.#near.values()].sort((a, b) => a.share - b.share);
  }

  #batches(asked: LiveQuestion['tails'], nowMs: number): TailBatch[] {
    for (const { id, filter } of asked) {
      const tail = this.#tails.get(id);
      if (tail !== undefined) tail.askedAtMs = nowMs;
      else if (this.#tails.size < MAX_TAILS) this.#tails.set(id, new Tail(filter, nowMs));
    }
    const wanted = new Set(asked.map(({ id }) => id));
    const batches: TailBatch[] = [];
    for (const [id, tail] of this.#tails) {
      if (Math.abs(nowMs - tail.askedAtMs) > TAIL_LEASE_MS) this.#tails.delete(id);
      else if (wanted.has(id)) batches.push({ id, ...tail.take() });
    }
    return batches;
  }
}

type Near = { -readonly [Member in keyof NearCandidate]: NearCandidate[Member] };

/** The requests of one tail that have not been fetched yet. */
class Tail {
  askedAtMs: number;
  readonly #filter: TailFilter;
  #requests: TailedRequest[] = [];
  #skipped = 0;

  constructor(filter: TailFilter, nowMs: number) {
    this.#filter = filter;
    this.askedAtMs = nowMs;
  }

  add(exchange: Exchange, nowMs: number): void {
    if (!matches(this.#filter, exchange)) return;
    if (this.#requests.length === MAX_TAILED) this.#skipped++;
    else this.#requests.push(tailedOf(exchange, nowMs));
  }

  take(): Omit<TailBatch, 'id'> {
    const taken = { requests: this.#requests, skipped: this.#skipped };
    [this.#requests, this.#skipped] = [[], 0];
    return taken;
  }
}

function matches({ plan, key, route, verdict, status }: TailFilter, exchange: Exchange): boolean {
  if (plan !== null && exchange.plan !== plan) return false;
  if (key !== null && exchange.consumerId !== key) return false;
  if (route !== null && exchange.route !== route) return false;
  if (verdict !== null && exchange.judgement !== verdict) return false;
  if (status === null) return true;
  const sent = String(exchange.status);
  return status.endsWith('xx') ? sent[0] === status[0] : sent === status;
}

function tailedOf(exchange: Exchange, nowMs: number): TailedRequest {
  const { requestId, method, route, consumerId, plan, judgement, status, code, window, totalMs, clientAddress } =
    exchange;
  const path = exchange.path === null ? null : ownCopy(cut(exchange.path));
  const units = paidAmounts(exchange.units);
  return {
    ...{ at: new Date(nowMs).toISOString(), requestId, method, path, route, consumerId, plan },
    ...{ verdict: judgement, status, code, window, totalMs: Math.round(totalMs * 1_000) / 1_000, clientAddress },
    ...(units === undefined ? {} : { units }),
  };
}
