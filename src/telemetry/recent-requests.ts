import { formText } from '../admit/form-text.ts';
import { WINDOW_MS, type WindowName } from '../admit/windows.ts';
import type { Exchange, Judgement } from '../gateway/exchange.ts';
import { type RefusalFacts, textsOf } from '../operations/live/refusal-text.ts';
import { refusedCallersOf } from '../operations/live/refused-callers.ts';
import {
  type DecidedColumns,
  type KeptRefusal,
  type LiveQuestion,
  type NearCandidate,
  type RefusedCallers,
  type RefusedCount,
  type RequestsSeen,
  STEP_MS,
  STEPS_KEPT,
  type TailBatch,
  type TailedRequest,
  type TailFilter,
  TRAFFIC_COLUMNS,
} from '../operations/live/shapes.ts';
import { JUDGEMENTS } from '../simulate/log-line.ts';
import { RECORD_SOURCES } from '../simulate/recent-record.ts';

/** The refusals that are kept: of callers that are known, and of others, so that a flood of the latter drops none of the former. */
const KNOWN_KEPT = 10_000;
const OTHERS_KEPT = 1_000;
/** Most refusals with one request id that are reported. Clients may repeat their X-Request-Id. */
const MOST_EXPLAINED = 10;
const MOST_NEAR = 1_000;
/** The decided requests that are kept for simulations. */
const RECORDED = 50_000;
/** Most callers whose refusals are counted. The one that was refused least recently is left out for another. */
const MOST_REFUSED = 10_000;
/** Refusals are counted by the minute, for so many of them. */
const MINUTES_KEPT = 10;
/** Most requests that a tail holds until it is asked for them. */
const MOST_TAILED = 50;
const MOST_TAILS = 100;
/** A tail ends if nobody has asked for it for so long. */
const TAIL_LEASE_MS = 5_000;
/** Attack: 11,000 refused requests with paths of 16 KiB each would take 180 MB. */
const LONGEST_PATH = 512;

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
  preflight: 7,
  usage: 7,
};

/**
 * What one process keeps of its last requests for the admin API: counts, refusals, who is near a limit, and the decided
 * requests for simulations. Everything is bounded. A process without an admin token has no such object.
 *
 * `note` runs for every request. For an admitted one it adds to a few arrays and compares its counts with its limits.
 */
export class RecentRequests {
  readonly #wallMs: () => number;
  /** A ring of rows; the bucket with number `step` is row `step % STEPS_KEPT`. */
  readonly #counts = new Uint32Array(STEPS_KEPT * COLUMNS);
  #step: number;
  readonly #known = new Ring<Kept>(KNOWN_KEPT);
  readonly #others = new Ring<Kept>(OTHERS_KEPT);
  /** By consumer, the least recently noted first. */
  readonly #near = new Map<string, Near>();
  readonly #tails = new Map<string, Tail>();
  readonly #record = new DecidedRequests();
  readonly #refused = new RefusalCounts();

  /** @param wallMs Unix milliseconds */
  constructor(wallMs: () => number) {
    this.#wallMs = wallMs;
    this.#step = Math.floor(wallMs() / STEP_MS);
  }

  /** Notes a request that has ended. */
  note(exchange: Exchange): void {
    const nowMs = this.#wallMs();
    this.#turnTo(nowMs);
    const row = (this.#step % STEPS_KEPT) * COLUMNS;
    this.#counts[row + COLUMN_OF[exchange.judgement]]!++;
    if (exchange.status >= 500) this.#counts[row + FAILED]!++;
    if (exchange.code !== null) this.#keepRefusal(exchange, nowMs);
    if (exchange.consumerId !== null && exchange.decidedAtMs !== null) {
      this.#record.add(exchange);
      if (exchange.judgement === 'admitted') this.#noteNear(exchange, nowMs);
      else if (REFUSALS.includes(exchange.judgement)) this.#refused.add(exchange, nowMs);
    }
    if (this.#tails.size > 0) for (const tail of this.#tails.values()) tail.add(exchange, nowMs);
  }

  /** @returns what is asked for. Tails that are new begin now. */
  answer({ explain, tails }: LiveQuestion): RequestsSeen {
    const nowMs = this.#wallMs();
    this.#turnTo(nowMs);
    return {
      traffic: { lastStep: this.#step, counts: this.#traffic() },
      near: this.#nearest(nowMs),
      refused: this.#refused.at(nowMs),
      refusals: explain.flatMap((requestId) => this.#refusalsOf(requestId)),
      tails: this.#batches(tails, nowMs),
    };
  }

  /** The last decided requests of identified callers. */
  decidedColumns(): DecidedColumns {
    return this.#record.columns();
  }

  /** Empties the buckets since the last request. If the clock was set back, the latest bucket goes on. */
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

  #keepRefusal(exchange: Exchange, nowMs: number): void {
    (exchange.consumerId === null ? this.#others : this.#known).add(keptOf(exchange, nowMs));
  }

  #refusalsOf(requestId: string): KeptRefusal[] {
    const found = [...this.#known.where((one) => one.requestId === requestId)];
    found.push(...this.#others.where((one) => one.requestId === requestId));
    return found
      .sort((a, b) => b.atMs - a.atMs)
      .slice(0, MOST_EXPLAINED)
      .map(refusalOf);
  }

  /** Notes a consumer that has at most a tenth of a window left, or less than one more such request costs. */
  #noteNear({ consumerId, plan, cost, limits, remaining }: Exchange, nowMs: number): void {
    let [nearest, least] = [-1, 2];
    for (let i = 0; i < limits.length; i++) {
      const { limit } = limits[i]!;
      const left = remaining[i]!;
      if (left * 10 > limit && left >= cost) continue;
      const share = limit === 0 ? 0 : left / limit;
      if (share < least) [nearest, least] = [i, share];
    }
    if (nearest === -1) return;
    const id = consumerId!;
    const { window } = limits[nearest]!;
    const known = this.#near.get(id);
    if (known !== undefined) {
      Object.assign(known, { plan: plan!, window, cost, share: least, atMs: nowMs });
      return;
    }
    if (this.#near.size >= MOST_NEAR) this.#near.delete(this.#near.keys().next().value!);
    this.#near.set(id, { id, plan: plan!, window, cost, share: least, atMs: nowMs });
  }

  /** Forgets those whose window has ended since for certain. */
  #nearest(nowMs: number): NearCandidate[] {
    for (const [id, { window, atMs }] of this.#near) if (nowMs - atMs > 2 * WINDOW_MS[window]) this.#near.delete(id);
    return [...this.#near.values()].sort((a, b) => a.share - b.share);
  }

  #batches(asked: LiveQuestion['tails'], nowMs: number): TailBatch[] {
    for (const { id, filter } of asked) {
      const tail = this.#tails.get(id);
      if (tail !== undefined) tail.askedAtMs = nowMs;
      else if (this.#tails.size < MOST_TAILS) this.#tails.set(id, new Tail(filter, nowMs));
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

/** The last `size` values that were added. */
class Ring<T> {
  readonly #size: number;
  readonly #values: T[] = [];
  #next = 0;

  constructor(size: number) {
    this.#size = size;
  }

  add(value: T): void {
    this.#values[this.#next] = value;
    this.#next = (this.#next + 1) % this.#size;
  }

  where(isWanted: (value: T) => boolean): T[] {
    return this.#values.filter(isWanted);
  }
}

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
    if (this.#requests.length === MOST_TAILED) this.#skipped++;
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
  const path = shortened(exchange.path);
  return {
    ...{ at: new Date(nowMs).toISOString(), requestId, method, path, route, consumerId, plan },
    ...{ verdict: judgement, status, code, window, totalMs: Math.round(totalMs * 1_000) / 1_000, clientAddress },
  };
}

type Verdict = NonNullable<Exchange['refusal']>;

/** What the ring keeps of a refused request. The texts are made when somebody asks. */
interface Kept {
  readonly atMs: number;
  readonly requestId: string;
  readonly method: string;
  readonly path: string | null;
  readonly route: string | null;
  readonly consumerId: string | null;
  readonly plan: string | null;
  readonly clientAddress: string;
  readonly status: number;
  readonly code: string;
  readonly judgement: Judgement;
  readonly cost: number;
  readonly window: WindowName | null;
  readonly source: string | null;
  readonly decidedAtMs: number | null;
  readonly cause: string | null;
  readonly verdict: Verdict | null;
  readonly counted: Pick<Exchange, 'limits' | 'remaining'>;
}

function keptOf(exchange: Exchange, atMs: number): Kept {
  const { method, route, consumerId, plan, clientAddress, status, judgement, cost, window, source, decidedAtMs } =
    exchange;
  return {
    ...{ atMs, requestId: flat(exchange.requestId), method, path: shortened(exchange.path), route, consumerId, plan },
    ...{ clientAddress, status, code: exchange.code!, judgement, cost, window, source, decidedAtMs },
    cause: exchange.cause === null ? null : flat(exchange.cause.slice(0, LONGEST_PATH)),
    verdict: exchange.refusal ?? null,
    counted: { limits: exchange.limits, remaining: exchange.remaining },
  };
}

function refusalOf(kept: Kept): KeptRefusal {
  const { atMs, decidedAtMs, verdict, counted, ...rest } = kept;
  const banned = verdict?.kind === 'banned' ? verdict : null;
  const strike = verdict?.strike ?? null;
  const facts: RefusalFacts = {
    ...rest,
    at: isoTime(atMs),
    limits: verdict === null ? limitsOf(counted) : limitsAtDecision(verdict),
    planLimits: verdict?.allowance.planLimits ?? {},
    decidedAt: decidedAtMs === null ? null : isoTime(decidedAtMs),
    strike: strike === null ? null : { number: strike, of: verdict!.allowance.bans!.after },
    ban: banned === null ? null : { number: banned.number, until: isoTime(banned.untilMs) },
    imposedBan: banned?.imposed === true,
    costExceedsLimit: verdict?.kind === 'refused' && verdict.costExceedsLimit,
    // Rounded up as Retry-After is: the same request succeeds then, and in the sentence it is the same second.
    retryAt:
      verdict === null || (verdict.kind === 'refused' && verdict.costExceedsLimit)
        ? null
        : isoTime(Math.ceil(verdict.retryAtMs / 1_000) * 1_000),
  };
  const { cause: _, costExceedsLimit: __, ...shown } = facts;
  return { ...shown, ...textsOf(facts) };
}

function limitsAtDecision({ standings, windows, allowance }: Verdict): KeptRefusal['limits'] {
  return standings.map(({ window, limit, remaining }) => {
    const of = allowance.limits.find((one) => one.window === window);
    return { window, form: formOf(window, of), limit, used: windows[window]?.used ?? 0, remaining };
  });
}

/** The limits of a request that was admitted, and refused afterwards because its route does not serve it. */
function limitsOf({ limits, remaining }: Kept['counted']): KeptRefusal['limits'] {
  return limits.map((one, i) => {
    const { window, limit } = one;
    return {
      window,
      form: formOf(window, one),
      limit,
      used: Math.max(limit - remaining[i]!, 0),
      remaining: remaining[i]!,
    };
  });
}

function formOf(window: WindowName, of: Exchange['limits'][number] | undefined): string {
  const { slices, calendar } = of ?? {};
  return formText(window, {
    ...(slices === undefined ? {} : { slices }),
    ...(calendar === undefined ? {} : { calendar: calendar.form }),
  });
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

function shortened(path: string | null): string | null {
  if (path === null) return null;
  return flat(path.length > LONGEST_PATH ? `${path.slice(0, LONGEST_PATH - 1)}…` : path);
}

/** A copy: V8 keeps the whole text of which a string is a part, so that a short path would hold a long query. */
function flat(text: string): string {
  return Buffer.from(text, 'utf8').toString('utf8');
}

/** The refusals of the last 10 minutes by caller, each counted, whatever decided it. */
class RefusalCounts {
  /** By consumer, the least recently refused first. */
  readonly #callers = new Map<string, RefusedMinutes>();

  add({ consumerId, plan, judgement }: Exchange, nowMs: number): void {
    const id = consumerId!;
    const known = this.#callers.get(id);
    if (known !== undefined) this.#callers.delete(id);
    else if (this.#callers.size >= MOST_REFUSED) this.#callers.delete(this.#callers.keys().next().value!);
    const counts = known ?? new RefusedMinutes();
    counts.add(plan!, judgement === 'banned', nowMs);
    this.#callers.set(id, counts);
  }

  at(nowMs: number): RefusedCallers {
    const counted = [...this.#callers].map(([id, counts]) => ({ id, ...counts.at(nowMs) }));
    for (const { id, refused, banned } of counted) if (refused + banned === 0) this.#callers.delete(id);
    return refusedCallersOf([{ callers: 0, most: counted }]);
  }
}

/** The refusals of one caller: a ring of minutes, each with two counts. */
class RefusedMinutes {
  readonly #counts = new Uint32Array(2 * MINUTES_KEPT);
  #plan = '';
  #minute = Number.NEGATIVE_INFINITY;

  add(plan: string, isBan: boolean, nowMs: number): void {
    this.#turnTo(nowMs);
    this.#plan = plan;
    this.#counts[2 * (this.#minute % MINUTES_KEPT) + (isBan ? 1 : 0)]!++;
  }

  at(nowMs: number): Omit<RefusedCount, 'id'> {
    this.#turnTo(nowMs);
    let [refused, banned] = [0, 0];
    for (let i = 0; i < this.#counts.length; i += 2) {
      refused += this.#counts[i]!;
      banned += this.#counts[i + 1]!;
    }
    return { plan: this.#plan, refused, banned };
  }

  /** Empties the minutes since the last call. If the clock was set back a little, the latest minute goes on. */
  #turnTo(nowMs: number): void {
    const minute = Math.floor(nowMs / 60_000);
    const passed = minute - this.#minute;
    if (passed <= 0 && passed > -MINUTES_KEPT) return;
    if (passed < 0 || passed >= MINUTES_KEPT) this.#counts.fill(0);
    else {
      for (let i = this.#minute + 1; i <= minute; i++) {
        this.#counts.fill(0, 2 * (i % MINUTES_KEPT), 2 * (i % MINUTES_KEPT) + 2);
      }
    }
    this.#minute = minute;
  }
}

/** The last decided requests, in columns that are written round and round. */
class DecidedRequests {
  readonly #atMs = new Float64Array(RECORDED);
  readonly #costs = new Float64Array(RECORDED);
  readonly #imposedBans = new Float64Array(RECORDED);
  readonly #remaining = new Float64Array(RECORDED);
  readonly #judgements = new Uint8Array(RECORDED);
  readonly #sources = new Uint8Array(RECORDED);
  readonly #consumerIds: string[] = [];
  readonly #plans: string[] = [];
  readonly #limits: Exchange['limits'][] = [];
  #next = 0;

  add(exchange: Exchange): void {
    const at = this.#next;
    this.#atMs[at] = exchange.decidedAtMs!;
    this.#costs[at] = exchange.cost;
    this.#imposedBans[at] = exchange.imposedBan ?? 0;
    this.#remaining[at] = exchange.remaining[0] ?? 0;
    this.#judgements[at] = JUDGEMENTS.indexOf(exchange.judgement as (typeof JUDGEMENTS)[number]);
    this.#sources[at] = RECORD_SOURCES.indexOf(exchange.source!);
    this.#consumerIds[at] = exchange.consumerId!;
    this.#plans[at] = exchange.plan!;
    this.#limits[at] = exchange.limits;
    this.#next = at + 1 === RECORDED ? 0 : at + 1;
  }

  /** The oldest first. */
  columns(): DecidedColumns {
    const length = this.#consumerIds.length;
    const first = length < RECORDED ? 0 : this.#next;
    const inOrder = <T extends Float64Array | Uint8Array | Uint32Array>(column: T): T => {
      const ordered = column.slice(0, length) as T;
      ordered.set(column.subarray(first, length));
      ordered.set(column.subarray(0, first), length - first);
      return ordered;
    };
    const sets = new Map<string, number>();
    // Requests of the same key mostly share the array, so that the text is made for few.
    const known = new Map<Exchange['limits'], number>();
    const limits = Uint32Array.from(this.#limits, (one) => {
      let index = known.get(one);
      if (index !== undefined) return index;
      const text = JSON.stringify(Object.fromEntries(one.map(({ window, limit }) => [window, limit])));
      index = sets.get(text) ?? sets.size;
      sets.set(text, index);
      known.set(one, index);
      return index;
    });
    return {
      atMs: inOrder(this.#atMs),
      costs: inOrder(this.#costs),
      imposedBans: inOrder(this.#imposedBans),
      remaining: inOrder(this.#remaining),
      judgements: inOrder(this.#judgements),
      sources: inOrder(this.#sources),
      consumerIds: [...this.#consumerIds.slice(first), ...this.#consumerIds.slice(0, first)],
      plans: [...this.#plans.slice(first), ...this.#plans.slice(0, first)],
      limits: inOrder(limits),
      limitSets: [...sets.keys()].map((text) => JSON.parse(text)),
    };
  }
}
