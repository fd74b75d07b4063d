export interface FairSharesOptions {
  /** Maximum number of connections to the upstream, for all consumers together. */
  readonly maxConnections: number;
  /** Maximum number of requests that wait for a connection, for all consumers together. */
  readonly maxQueue: number;
  /** The part of both that one consumer may have: above 0 and at most 1. With 1, a single consumer may use all. */
  readonly fairShare: number;
}

/** The requests that one consumer has in flight at an upstream. Only `FairShares` and `release` change it. */
export class Share<T> {
  /** The places that its requests have taken: before admission, without a body yet, waiting, at a connection, or paused. */
  places = 0;
  /** Those of them that the requests do not need for now: they bound their own consumer alone. */
  paused = 0;
  /** Connections that its requests hold. */
  running = 0;
  /**
   * Requests that wait for a connection, in the order of their arrival. Not a Set: that replaces its table now and then, and V8's
   * collector keeps what a replaced table had until the next collection of everything. Measured with 128 connections of one key:
   * 2 KB of each request, 50 MB a second.
   */
  readonly waiting: T[] = [];
  /** The places of all consumers, without those that are paused. */
  readonly #all: { places: number };
  readonly #shares: FairShares<T>;

  constructor(all: { places: number }, shares: FairShares<T>) {
    this.#all = all;
    this.#shares = shares;
  }

  /** Whether a request of this consumer that has its place would now find a connection, or room in the queue. */
  hasPlace(): boolean {
    return this.#shares.hasPlace(this);
  }

  /** Takes one more place, whatever the share has, for work that outlives its request. */
  hold(): void {
    this.places++;
    this.#all.places++;
  }

  /**
   * Leaves a place to other consumers until `resume`, because the client has yet to send its body, or to read the response.
   *
   * Attack: each of nine keys sends as many half bodies as it may have requests. An idle upstream then has one place for a neighbour.
   */
  pause(): void {
    this.paused++;
    this.#all.places--;
  }

  resume(): void {
    this.paused--;
    this.#all.places++;
  }

  /** Gives one place back. Called once for each `takePlace` and `hold`, whatever became of the request. */
  release(): void {
    this.places--;
    this.#all.places--;
  }
}

/** The first sweep for shares without a request in flight happens at this many shares. */
const KEPT_SHARES = 1_024;

/**
 * Divides the connections of an upstream, or the threads that compress, and the queue for them, among consumers.
 *
 * Attack: one consumer sends slow requests until it holds every connection and fills the queue, so that the requests of
 * all others wait as long as its own take. One consumer therefore holds at most its share of the connections and of the
 * queue, and a connection that becomes free goes to the consumers in turn, not to the request that has waited longest.
 *
 * Attack: four consumers have a quarter of the connections and of the queue each, and a fifth finds the queue full. So one
 * consumer also has at most half of what the others leave.
 */
export class FairShares<T> {
  readonly #maxConnections: number;
  readonly #maxQueue: number;
  /** The connections that one consumer may have. */
  readonly #maxRunning: number;
  /** The places that one consumer may have, even if no other consumer has any. */
  readonly #maxPlaces: number;
  /** The part that one consumer may have of what the others leave. */
  readonly #partOfRest: number;
  readonly #all = { places: 0 };
  /**
   * By consumer. A share is kept when its last request has ended, because most consumers send another one at once.
   * Measured: creating and deleting an entry for every request costs six times as much as finding one.
   */
  readonly #shares = new Map<string, Share<T>>();
  #sweepAt = KEPT_SHARES;
  /** The consumers that have a request waiting and may have another connection; the next one is first. */
  readonly #next = new Set<Share<T>>();
  #running = 0;
  #waiting = 0;

  constructor({ maxConnections, maxQueue, fairShare }: FairSharesOptions) {
    this.#maxConnections = maxConnections;
    this.#maxQueue = maxQueue;
    this.#maxRunning = partOf(maxConnections, fairShare);
    this.#maxPlaces =
      fairShare === 1
        ? Number.POSITIVE_INFINITY
        : this.#maxRunning + (maxQueue === 0 ? 0 : partOf(maxQueue, fairShare));
    this.#partOfRest = Math.max(fairShare, 0.5);
  }

  /** Requests that hold a connection or wait for one. */
  get inFlight(): number {
    return this.#running + this.#waiting;
  }

  /** Shares that are held in memory. */
  get size(): number {
    return this.#shares.size;
  }

  /**
   * Takes a place for one more request of a consumer.
   * @returns its share, to be released when the request has ended; null if the consumer has used up its share
   */
  takePlace(consumerId: string): Share<T> | null {
    const share = this.#shares.get(consumerId) ?? this.#newShare(consumerId);
    if (share.places >= this.#mostOf(share)) return null;
    share.hold();
    return share;
  }

  /** At least 1. */
  #mostOf({ places, paused }: Share<T>): number {
    if (this.#maxPlaces === Number.POSITIVE_INFINITY) return this.#maxPlaces;
    const rest = this.#maxConnections + this.#maxQueue - (this.#all.places - places + paused);
    return Math.min(this.#maxPlaces, Math.max(1, Math.ceil(rest * this.#partOfRest)));
  }

  /** See `Share`. */
  hasPlace(share: Share<T>): boolean {
    // Others may have taken its place while it was paused.
    const isWithin = share.places - share.paused <= this.#mostOf(share);
    return isWithin && (this.#waiting < this.#maxQueue || this.#hasConnection(share));
  }

  #hasConnection({ running }: Share<T>): boolean {
    return this.#running < this.#maxConnections && running < this.#maxRunning;
  }

  /** Takes a connection if one is free that this consumer may have. `release` gives it back. */
  take(share: Share<T>): boolean {
    if (!this.#hasConnection(share)) return false;
    this.#running++;
    share.running++;
    return true;
  }

  /** Puts a request in the queue of its consumer. @returns false if the queue is full */
  queue(share: Share<T>, request: T): boolean {
    if (this.#waiting >= this.#maxQueue) return false;
    this.#waiting++;
    share.waiting.push(request);
    if (share.running < this.#maxRunning) this.#next.add(share);
    return true;
  }

  /** Takes a request out of the queue, if it is there. */
  withdraw(share: Share<T>, request: T): void {
    const at = share.waiting.indexOf(request);
    if (at < 0) return;
    // Most requests that leave are the oldest. Removing the first element of a long array takes as long as copying it.
    if (at === 0) share.waiting.shift();
    else share.waiting.splice(at, 1);
    this.#waiting--;
    if (share.waiting.length === 0) this.#next.delete(share);
  }

  /** Gives a connection back. */
  release(share: Share<T>): void {
    this.#running--;
    share.running--;
    if (share.waiting.length > 0) this.#next.add(share);
  }

  /**
   * Takes a connection for the next request, which is the oldest one of the consumer whose turn it is.
   * @returns null if no waiting request may have a connection
   */
  takeForNext(): T | null {
    if (this.#next.size === 0 || this.#running >= this.#maxConnections) return null;
    const share = first(this.#next);
    const request = share.waiting.shift()!;
    this.#waiting--;
    this.#running++;
    share.running++;
    // The consumer goes to the end of the line if it may have another connection.
    this.#next.delete(share);
    if (share.waiting.length > 0 && share.running < this.#maxRunning) this.#next.add(share);
    return request;
  }

  #newShare(consumerId: string): Share<T> {
    if (this.#shares.size >= this.#sweepAt) this.#sweep();
    const share = new Share<T>(this.#all, this);
    this.#shares.set(consumerId, share);
    return share;
  }

  /**
   * Forgets the consumers without a request in flight. The next sweep happens when the number of shares has doubled.
   */
  #sweep(): void {
    for (const [consumerId, { places, running, waiting }] of this.#shares) {
      // The connection of a request that has ended is given back a moment later than its place.
      if (places === 0 && running === 0 && waiting.length === 0) this.#shares.delete(consumerId);
    }
    this.#sweepAt = Math.max(KEPT_SHARES, 2 * this.#shares.size);
  }
}

/** At least 1. */
export function partOf(whole: number, share: number): number {
  return Math.max(1, Math.floor(whole * share));
}

/**
 * The most that one consumer may have of something that all share: half of what the others leave, and at least 1.
 *
 * Attack: one consumer may have a quarter, so four have all of it, and a fifth gets nothing.
 */
export function halfOfRest(whole: number, othersHave: number): number {
  return Math.max(1, Math.floor((whole - othersHave) / 2));
}

/** The first element of a set that is not empty. */
function first<T>(set: ReadonlySet<T>): T {
  for (const element of set) return element;
  throw new Error('an empty set');
}
