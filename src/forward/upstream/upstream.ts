import { Buffers } from '../../io/buffers.ts';
import { Deadlines } from '../../io/deadlines.ts';
import { FairShares, type Share } from '../../io/fair-shares.ts';
import { NoUpstreamError } from '../faults.ts';
import type { DialOptions, UpstreamAddress } from './dial.ts';
import { Http2Target } from './http2-target.ts';
import { RetryBudget, type RetryOutcome } from './retry-budget.ts';
import { UpstreamTarget, type UpstreamTargetEvents, type WeightedTarget } from './target.ts';
import type { RequestCarrier } from './upstream-connection.ts';

interface UpstreamOptions extends DialOptions {
  /** Each `http://host:port`, `https://host:port` or `unix:/path`; at least one with a weight above 0. */
  readonly targets: readonly WeightedTarget[];
  /** The Host of requests: `keep` for the client's; null or left out for the authority of the target. */
  readonly host?: string | null;
  /** By what requests are bound to a target; null or left out if they are not. */
  readonly sticky?: Sticky | null;
  readonly responseTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  readonly maxConnections: number;
  /** Requests that may wait for a connection. */
  readonly maxQueue: number;
  /** The part of both that one consumer may have: above 0 and at most 1. With 1, a single consumer may use all. */
  readonly fairShare: number;
  /** Milliseconds of a monotonic clock. */
  readonly monotonicMs: () => number;
  readonly onTarget?: UpstreamTargetEvents['onChange'];
  readonly onUnasked?: UpstreamTargetEvents['onUnasked'];
  readonly onRetry?: (outcome: RetryOutcome) => void;
}

/** What requests share that get one target. */
type Sticky = { readonly by: 'key' | 'address' } | { readonly by: 'cookie'; readonly name: string };

/** A request on its way through an upstream. */
export interface ConnectionWaiter {
  /** What it shares with other requests that get the same target; null or left out if it may get any. */
  readonly affinity?: string | null;
  /** The share of its consumer, which has a place for it. */
  readonly share: ConsumerShare;
  /** Its slot in the pool; null at first. Only the upstream uses this. */
  place: PoolSlot | null;
  /** A target was chosen for it. @param target as in gateway.yaml */
  onTarget(target: string): void;
  /** It has a slot, and a connection is being opened for it. */
  onConnecting(): void;
  /** It has a connection, or a stream of one, to itself, until `leave`. */
  onConnected(connection: RequestCarrier): void;
  /** No connection is available. The waiter must `leave`, or try again with `retry`. */
  onNotConnected(error: Error): void;
}

/** The requests that one consumer has in flight at an upstream. */
export type ConsumerShare = Share<ConnectionWaiter>;

/**
 * `abandoned`: the client disconnected, which is not the target's fault. `failed`: the target was reached and gave no
 * valid response.
 */
export type LeaseOutcome = 'answered' | 'abandoned' | 'failed' | 'unreachable';

/** A target, taken by a caller that opens the connection itself. */
export interface TargetLease {
  /** The target, as in gateway.yaml. */
  readonly target: string;
  readonly address: UpstreamAddress;
  /** Gives it back; called once. */
  done(outcome: LeaseOutcome): void;
}

export interface PoolSlot {
  target: UpstreamTarget | null;
  giveUp: (() => void) | null;
  /** Targets that could not be reached for this request, or failed in an earlier attempt. */
  readonly tried: UpstreamTarget[];
}

/**
 * A service behind the gateway, with a bounded number of connections to its targets and a bounded queue for them, both
 * divided fairly among the consumers. Each request goes to the usable target with the fewest requests in flight; targets of different
 * weights get requests in proportion to them.
 */
export class Upstream {
  readonly options: UpstreamOptions;
  readonly deadlines: Deadlines;
  /** Bounds the retries of all requests together. */
  readonly retryBudget = new RetryBudget();
  readonly #targets: readonly UpstreamTarget[];
  /** Those that get requests. */
  readonly #serving: readonly UpstreamTarget[];
  readonly #isWeighted: boolean;
  readonly #shares: FairShares<ConnectionWaiter>;
  /** Index of the target to consider first, so that equally busy targets are taken in turn. */
  #next = 0;
  #filling = false;
  #closed = false;

  constructor(options: UpstreamOptions) {
    this.options = options;
    this.#shares = new FairShares(options);
    this.deadlines = new Deadlines(options.monotonicMs);
    const buffers = new Buffers();
    const events: UpstreamTargetEvents = {
      onChange: options.onTarget ?? (() => {}),
      onUnasked: options.onUnasked ?? (() => {}),
    };
    const Target = this.isHttp2 ? Http2Target : UpstreamTarget;
    this.#targets = options.targets.map((one) => new Target(one, options, this.deadlines, buffers, events));
    this.#serving = this.#targets.filter(({ weight }) => weight > 0);
    this.#isWeighted = this.#serving.some(({ weight }) => weight !== this.#serving[0]!.weight);
  }

  /** Requests that have a connection or wait for one. */
  get inFlight(): number {
    return this.#shares.inFlight;
  }

  get isHttp2(): boolean {
    const { protocol = 'http1' } = this.options;
    return protocol !== 'http1';
  }

  get targets(): readonly UpstreamTarget[] {
    return this.#targets;
  }

  /**
   * Takes a place for a request of a consumer, before the gateway has decided whether to forward the request.
   * @returns the consumer's share, to be released when the request has ended, whatever its outcome; null if the
   * consumer has as many requests in flight as its share allows
   */
  takePlace(consumerId: string): ConsumerShare | null {
    return this.#shares.takePlace(consumerId);
  }

  /**
   * Gives the waiter a connection, now or when its consumer may have one. Every waiter that entered must `leave`.
   * @returns false if neither a connection nor a place in the queue is free
   */
  enter(waiter: ConnectionWaiter): boolean {
    if (!this.#shares.take(waiter.share)) return this.#shares.queue(waiter.share, waiter);
    this.#start(waiter);
    return true;
  }

  /**
   * Gives back the waiter's place in the queue, or its connection, and starts the waiters that may have one now: in a loop and not
   * recursively, because a long queue whose waiters are all refused at once would overflow the stack.
   */
  leave(waiter: ConnectionWaiter): void {
    const { place } = waiter;
    if (place === null) {
      this.#shares.withdraw(waiter.share, waiter);
      return;
    }
    place.giveUp?.();
    place.target?.leave();
    waiter.place = null;
    this.#shares.release(waiter.share);
    if (this.#filling) return;
    this.#filling = true;
    for (let next = this.#shares.takeForNext(); next !== null; next = this.#shares.takeForNext()) this.#start(next);
    this.#filling = false;
  }

  /** Opens a new connection for this request, because another connection of the pool might be about to close too. */
  reconnect(waiter: ConnectionWaiter): void {
    const { place } = waiter;
    if (place?.target) this.#dial(waiter, place, place.target);
  }

  /** Whether another attempt of a request would have a target. */
  get canRetry(): boolean {
    if (this.#closed) return false;
    const nowMs = this.deadlines.nowMs();
    return this.#serving.some((target) => target.isReachable || !target.isEjected(nowMs));
  }

  /**
   * Gives the waiter, whose attempt has failed, a connection for another one, in the slot that it has. It goes to a target
   * that has not failed for this request, else to any but the last, else to the last again.
   */
  retry(waiter: ConnectionWaiter): void {
    const place = waiter.place!;
    place.giveUp?.();
    place.giveUp = null;
    const { target, tried } = place;
    if (target !== null) {
      target.leave();
      place.target = null;
      if (!tried.includes(target)) tried.push(target);
      if (this.#choose(tried) === null) tried.splice(0, tried.length, target);
      if (this.#choose(tried) === null) tried.length = 0;
    }
    this.#connect(waiter, place);
  }

  /** Notes that the waiter's target has given a valid response. */
  answered(waiter: ConnectionWaiter): void {
    waiter.place?.target?.succeeded();
  }

  /** Notes that the waiter's target gave no valid response. */
  failed(waiter: ConnectionWaiter, cause: string): void {
    if (this.#leavesOut()) waiter.place?.target?.failed(false, cause);
  }

  /** Takes the target that a request would get now. @param affinity as of a `ConnectionWaiter` @throws NoUpstreamError */
  lease(affinity: string | null): TargetLease {
    const target = this.#take([], affinity);
    if (target === null) throw new NoUpstreamError(this.#nextUsableInMs());
    target.enter();
    return {
      target: target.name,
      address: target.address,
      done: (outcome) => {
        target.leave();
        if (outcome === 'answered') target.succeeded();
        else if (outcome !== 'abandoned' && this.#leavesOut()) {
          target.failed(outcome === 'unreachable', 'no connection could be upgraded');
        }
      },
    };
  }

  /** The settings no longer have this upstream. Running requests finish, and no connection is kept afterwards. */
  retire(): void {
    for (const target of this.#targets) target.retire();
  }

  close(): void {
    this.#closed = true;
    for (const target of this.#targets) target.close();
  }

  /** Starts a waiter for which a connection has been taken from its share. */
  #start(waiter: ConnectionWaiter): void {
    const place: PoolSlot = { target: null, giveUp: null, tried: [] };
    waiter.place = place;
    this.#connect(waiter, place);
  }

  #connect(waiter: ConnectionWaiter, place: PoolSlot): void {
    const target = this.#take(place.tried, waiter.affinity ?? null);
    if (target === null) {
      waiter.onNotConnected(new NoUpstreamError(this.#nextUsableInMs()));
      return;
    }
    place.target = target;
    waiter.onTarget(target.name);
    target.enter();
    const idle = target.takeIdle();
    if (idle === null) this.#dial(waiter, place, target);
    else waiter.onConnected(idle);
  }

  #dial(waiter: ConnectionWaiter, place: PoolSlot, target: UpstreamTarget): void {
    this.#makeRoom();
    waiter.onConnecting();
    place.giveUp = target.dial(
      (connection) => {
        place.giveUp = null;
        waiter.onConnected(connection);
      },
      (error) => {
        place.giveUp = null;
        if (this.#leavesOut()) target.failed(true, error.message);
        place.tried.push(target);
        // Nothing has been sent yet, so another target cannot receive the request a second time.
        if (this.#choose(place.tried) === null) waiter.onNotConnected(error);
        else {
          target.leave();
          place.target = null;
          this.#connect(waiter, place);
        }
      },
    );
  }

  /** Closes an idle connection to any target if the new connection would exceed the limit. */
  #makeRoom(): void {
    let open = 0;
    for (const target of this.#targets) open += target.connections;
    if (open < this.options.maxConnections) return;
    for (const target of this.#targets) if (target.closeOldestIdle()) return;
  }

  /** Whether targets are ejected. Leaving out an upstream's only target would gain nothing. */
  #leavesOut(): boolean {
    return this.#serving.length > 1;
  }

  /**
   * Chooses a target. One with a limited load after an ejection is spared only while another is usable.
   *
   * Attack: a client keeps sending requests that the service answers too slowly, until every target is left out and all
   * other clients are refused although the service is running. So if all targets are left out, those that can be
   * reached continue to serve.
   */
  #choose(tried: readonly UpstreamTarget[], affinity: string | null = null): UpstreamTarget | null {
    const targets = this.#serving;
    const nowMs = targets.length === 1 ? 0 : this.deadlines.nowMs();
    let best: UpstreamTarget | null = null;
    let lastResort: UpstreamTarget | null = null;
    for (let i = 0; i < targets.length; i++) {
      const target = targets[(this.#next + i) % targets.length]!;
      if (tried.includes(target)) continue;
      if (!target.isEjected(nowMs)) {
        if (best === null || this.#isBetter(target, best, affinity)) best = target;
      } else if (target.isReachable && (lastResort === null || target.inFlight < lastResort.inFlight))
        lastResort = target;
    }
    return best ?? lastResort;
  }

  /** Chooses a target for a request. */
  #take(tried: readonly UpstreamTarget[], affinity: string | null): UpstreamTarget | null {
    const taken = this.#choose(tried, affinity);
    if (taken === null || affinity !== null) return taken;
    // Continue after the chosen target, so that a target that is left out does not give its whole share to its
    // neighbour.
    this.#next = (this.#serving.indexOf(taken) + 1) % this.#serving.length;
    if (this.#isWeighted) this.#credit(taken, tried);
    return taken;
  }

  /**
   * Smooth weighted round robin, as in nginx: each request credits every target that could have got it with its weight, and the one that
   * got it pays for all. So requests to a heavy target are spread over time.
   */
  #credit(taken: UpstreamTarget, tried: readonly UpstreamTarget[]): void {
    const nowMs = this.deadlines.nowMs();
    for (const target of this.#serving) {
      if (target !== taken && (tried.includes(target) || target.isEjected(nowMs))) continue;
      target.credit += target.weight;
      taken.credit -= target.weight;
    }
  }

  #isBetter(one: UpstreamTarget, other: UpstreamTarget, affinity: string | null): boolean {
    if (one.isBusy !== other.isBusy) return other.isBusy;
    if (affinity !== null) return preference(affinity, one) > preference(affinity, other);
    if (this.#isWeighted) return one.credit + one.weight > other.credit + other.weight;
    return one.inFlight < other.inFlight;
  }

  #nextUsableInMs(): number {
    const nowMs = this.deadlines.nowMs();
    const rests = this.#serving.flatMap((target) => target.restMs(nowMs) ?? []);
    return rests.length === 0 ? 1_000 : Math.min(...rests);
  }
}

/**
 * How much a target is preferred for what shares an affinity: weighted rendezvous hashing. The target with the highest value is
 * taken, so that one that comes or goes moves no request of another.
 */
function preference(affinity: string, { name, weight }: UpstreamTarget): number {
  return weight / -Math.log(uniform(`${name}\n${affinity}`));
}

/** A number above 0 and below 1 that a text always gives: FNV-1a, with the last step of MurmurHash3 to spread it evenly. */
function uniform(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32 + 2 ** -33;
}
