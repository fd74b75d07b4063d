/*
 * Deprecated routes: the fields that announce the end of one, and the count of the consumers that still call it.
 */

/** When a route was deprecated, when it will be removed, and what replaces it. Times in Unix milliseconds. */
interface DeprecationFields {
  readonly sinceMs: number;
  readonly sunsetMs: number | null;
  /** URI reference of the replacement. */
  readonly successor: string | null;
  /** URI reference of a page about the deprecation. */
  readonly link: string | null;
}

/**
 * The fields that announce a deprecated route: Deprecation (RFC 9745 section 2), Sunset (RFC 8594 section 3) and Link
 * (RFC 8288; relations of RFC 5829, RFC 9745 section 3 and RFC 8594 section 6). They are appended to the upstream's own Link.
 * @returns names and values in turn
 */
export function deprecationFields({ sinceMs, sunsetMs, successor, link }: DeprecationFields): string[] {
  const fields = ['Deprecation', `@${Math.floor(sinceMs / 1000)}`];
  if (sunsetMs !== null) fields.push('Sunset', new Date(sunsetMs).toUTCString());
  const links = [
    ...(successor === null ? [] : [`<${successor}>; rel="successor-version"`]),
    ...(link === null ? [] : [`<${link}>; rel="deprecation"`]),
    ...(link === null || sunsetMs === null ? [] : [`<${link}>; rel="sunset"`]),
  ];
  if (links.length > 0) fields.push('Link', links.join(', '));
  return fields;
}

/** Whether the sunset has passed at `nowMs` (Unix milliseconds). The gateway then answers requests with 410. */
export function isPastSunset({ sunsetMs }: DeprecationFields, nowMs: number): boolean {
  return sunsetMs !== null && nowMs >= sunsetMs;
}

/** The calls of deprecated routes in the store, by day, route and consumer. `tollgate deprecations` reads them. */
export interface DeprecatedCalls {
  /**
   * Adds calls of one day (`2026-11-21`, UTC) to one route (`countedAs` of its deprecation), by consumer.
   * @throws Failure `store_unavailable`
   */
  add(day: string, route: string, calls: ReadonlyMap<string, number>): Promise<void>;
  /** The calls of a route on these days, by consumer. @throws Failure `store_unavailable` */
  of(days: readonly string[], route: string): Promise<ReadonlyMap<string, Called>>;
  /** The calls of one consumer on these days; null if there are none. @throws Failure `store_unavailable` */
  ofConsumer(days: readonly string[], route: string, consumerId: string): Promise<Called | null>;
}

export interface Called {
  readonly calls: number;
  /** The last of the days with a call. */
  readonly lastDay: string;
}

/** The sum of one consumer's calls on some days; null if there are none. */
export function calledOn(days: readonly { readonly day: string; readonly calls: number }[]): Called | null {
  const called = days.filter(({ calls }) => calls > 0);
  if (called.length === 0) return null;
  return {
    calls: called.reduce((sum, { calls }) => sum + calls, 0),
    lastDay: called.map(({ day }) => day).reduce((a, b) => (a > b ? a : b)),
  };
}

/** How many days calls are kept, today included. */
export const KEPT_DAYS = 92;
/** Consumers that are counted separately for each route and day. */
export const MAX_CONSUMERS = 10_000;
/** Stands for all further consumers. No consumer id begins with `*`. */
export const OTHERS = '*others';
/** Stands for callers without a key. */
const NOBODY = '*public';

const FLUSH_MS = 1_000;
const DAY_MS = 86_400_000;

interface DeprecatedCallCounterOptions {
  readonly store: Pick<DeprecatedCalls, 'add'>;
  /** Unix milliseconds. */
  readonly wallMs: () => number;
}

/** Counts calls of deprecated routes in memory and adds them to the store once a second. Bounded; no request waits for it. */
export class DeprecatedCallCounter {
  readonly #options: DeprecatedCallCounterOptions;
  /** Calls by consumer, for each `DAY ROUTE`. */
  #counts = new Map<string, Map<string, number>>();
  readonly #timer: NodeJS.Timeout;
  #flushing: Promise<void> = Promise.resolve();

  constructor(options: DeprecatedCallCounterOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.flush(), FLUSH_MS).unref();
  }

  /** @param route `countedAs` of its deprecation; @param consumerId null on routes without keys */
  count(route: string, consumerId: string | null): void {
    this.#add(`${dayOf(this.#options.wallMs())} ${route}`, consumerId ?? NOBODY, 1);
  }

  /** Adds the counts to the store; counts that it does not accept are kept for the next flush. Never rejects. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#addToStore());
    return this.#flushing;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  async #addToStore(): Promise<void> {
    const counts = this.#counts;
    this.#counts = new Map();
    for (const [name, calls] of counts) {
      const space = name.indexOf(' ');
      try {
        await this.#options.store.add(name.slice(0, space), name.slice(space + 1), calls);
      } catch {
        for (const [consumerId, n] of calls) this.#add(name, consumerId, n);
      }
    }
  }

  #add(name: string, consumerId: string, n: number): void {
    let calls = this.#counts.get(name);
    if (calls === undefined) {
      calls = new Map();
      this.#counts.set(name, calls);
    }
    const known = calls.has(consumerId) || calls.size < MAX_CONSUMERS ? consumerId : OTHERS;
    calls.set(known, (calls.get(known) ?? 0) + n);
  }
}

/** @param ms Unix milliseconds */
function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The last `count` days, the latest first. */
export function lastDays(nowMs: number, count: number): readonly string[] {
  return Array.from({ length: count }, (_, i) => dayOf(nowMs - i * DAY_MS));
}
