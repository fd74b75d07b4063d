import { Buffers } from './buffers.ts';
import type { UpstreamConnection } from './connection.ts';
import { Deadlines } from './deadlines.ts';
import type { Address, DialOptions } from './dial.ts';
import { EndOfTurn } from './end-of-turn.ts';
import { FairShares, type Share } from './fair-shares.ts';
import { NoUpstreamError } from './faults.ts';
import { Target, type TargetEvents } from './target.ts';

export interface UpstreamOptions extends DialOptions {
  /** `http://host:port`, `https://host:port`, `unix:/path`; at least one. */
  readonly targets: readonly string[];
  readonly responseTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  readonly maxConnections: number;
  /** Requests that may wait for a connection. */
  readonly maxQueue: number;
  /** The part of both that one consumer may have, above 0 and at most 1; 1 sets no bound for a single consumer. */
  readonly fairShare: number;
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  readonly onTarget?: TargetEvents['onChange'];
  readonly onUnasked?: TargetEvents['onUnasked'];
}

/** A request on its way through an upstream. */
export interface Turn {
  /** The share of its consumer, in which room is reserved for it. */
  readonly share: ConsumerShare;
  /** Its place at a connection; null to begin with. Only the upstream looks at it. */
  place: Place | null;
  /** A target was taken for it, by the name that the target has in gateway.yaml. */
  onTarget(target: string): void;
  /** It has a place, and a connection is being made for it. */
  onConnecting(): void;
  /** It has a connection to itself, until `leave`. */
  onConnected(connection: UpstreamConnection): void;
  /** There is none to be had. It has left. */
  onNotConnected(error: Error): void;
}

/** What one consumer has in flight at an upstream. */
export type ConsumerShare = Share<Turn>;

/** `abandoned`: the client left, which says nothing about the target. `failed`: it was reached and gave no valid answer. */
export type LoanOutcome = 'answered' | 'abandoned' | 'failed' | 'unreachable';

/** A target taken for something that makes its own connection. */
export interface Loan {
  /** The target, as in gateway.yaml. */
  readonly target: string;
  readonly address: Address;
  /** Gives it back; called once. */
  done(outcome: LoanOutcome): void;
}

export interface Place {
  target: Target | null;
  giveUp: (() => void) | null;
  /** Targets that could not be reached for this request. Nothing of it has been sent to them. */
  readonly tried: Target[];
}

/**
 * The service behind the gateway: a bounded number of connections to its targets, with a bounded queue before them, both
 * divided fairly among the consumers. Of the targets that are usable the one with the fewest requests in flight is taken.
 */
export class Upstream {
  readonly options: UpstreamOptions;
  readonly deadlines: Deadlines;
  readonly #endOfTurn = new EndOfTurn();
  readonly #targets: readonly Target[];
  readonly #shares: FairShares<Turn>;
  /** Of targets that are equally busy each is taken in its turn. */
  #next = 0;
  #filling = false;

  constructor(options: UpstreamOptions) {
    this.options = options;
    this.#shares = new FairShares(options);
    this.deadlines = new Deadlines(options.monotonicMs);
    const buffers = new Buffers();
    const events: TargetEvents = {
      onChange: options.onTarget ?? (() => {}),
      onUnasked: options.onUnasked ?? (() => {}),
    };
    this.#targets = options.targets.map(
      (name) => new Target(name, options, this.deadlines, this.#endOfTurn, buffers, events),
    );
  }

  /** Requests that have a connection or wait for one. */
  get inFlight(): number {
    return this.#shares.inFlight;
  }

  get targets(): readonly Target[] {
    return this.#targets;
  }

  /**
   * Reserves room for a request of a consumer, before it is known whether the request will be forwarded.
   * @returns the consumer's share, to be released when the request has ended, whatever came of it; null where the
   * consumer has as many requests in flight as its share allows
   */
  reserve(consumerId: string): ConsumerShare | null {
    return this.#shares.reserve(consumerId);
  }

  /**
   * Gives the turn a connection, now or when its consumer may have one. Every turn that entered must be given back with
   * `leave`.
   * @returns false when neither a connection nor a place in the queue is free
   */
  enter(turn: Turn): boolean {
    if (!this.#shares.take(turn.share)) return this.#shares.queue(turn.share, turn);
    this.#start(turn);
    return true;
  }

  /** Gives a place back, in the queue or at a connection. */
  leave(turn: Turn): void {
    const { place } = turn;
    if (place === null) {
      this.#shares.withdraw(turn.share, turn);
      return;
    }
    place.giveUp?.();
    place.target?.leave();
    turn.place = null;
    this.#shares.giveBack(turn.share);
    this.#fill();
  }

  /** Another connection, made for this very request: in the pool it might meet the next one that is dying. */
  reconnect(turn: Turn): void {
    const { place } = turn;
    if (place?.target) this.#dial(turn, place, place.target);
  }

  /** The target of a turn has answered. */
  answered(turn: Turn): void {
    turn.place?.target?.succeeded();
  }

  /** The target of a turn gave no usable answer. */
  failed(turn: Turn, cause: string): void {
    if (this.#leavesOut()) turn.place?.target?.failed(false, cause);
  }

  /** The target that would be taken for a request now. @throws NoUpstreamError */
  borrow(): Loan {
    const target = this.#choose([]);
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

  /** Takes no new request: the settings have no such upstream any more. What runs is finished. */
  retire(): void {
    for (const target of this.#targets) target.retire();
  }

  close(): void {
    for (const target of this.#targets) target.close();
  }

  /** Its connection has been taken from the shares. */
  #start(turn: Turn): void {
    const place: Place = { target: null, giveUp: null, tried: [] };
    turn.place = place;
    this.#connect(turn, place);
  }

  /** Not from within itself: a long queue whose turns are all refused at once would be as deep as it is long. */
  #fill(): void {
    if (this.#filling) return;
    this.#filling = true;
    for (let next = this.#shares.takeForNext(); next !== null; next = this.#shares.takeForNext()) this.#start(next);
    this.#filling = false;
  }

  #connect(turn: Turn, place: Place): void {
    const target = this.#choose(place.tried);
    if (target === null) {
      this.#refuse(turn, new NoUpstreamError(this.#nextUsableInMs()));
      return;
    }
    place.target = target;
    turn.onTarget(target.name);
    target.enter();
    const idle = target.takeIdle();
    if (idle === null) this.#dial(turn, place, target);
    else turn.onConnected(idle);
  }

  #dial(turn: Turn, place: Place, target: Target): void {
    this.#makeRoom();
    turn.onConnecting();
    place.giveUp = target.dial(
      (connection) => {
        place.giveUp = null;
        turn.onConnected(connection);
      },
      (error) => {
        place.giveUp = null;
        if (this.#leavesOut()) target.failed(true, error.message);
        place.tried.push(target);
        // Nothing has been sent, so another target may be asked without asking twice.
        if (this.#choose(place.tried) === null) this.#refuse(turn, error);
        else {
          target.leave();
          place.target = null;
          this.#connect(turn, place);
        }
      },
    );
  }

  #refuse(turn: Turn, error: Error): void {
    this.leave(turn);
    turn.onNotConnected(error);
  }

  /** Connections that lie idle at one target make room for those that another needs. */
  #makeRoom(): void {
    let open = 0;
    for (const target of this.#targets) open += target.connections;
    if (open < this.options.maxConnections) return;
    for (const target of this.#targets) if (target.closeOldestIdle()) return;
  }

  /** With one target alone there is nothing to be gained by leaving it out. */
  #leavesOut(): boolean {
    return this.#targets.length > 1;
  }

  /**
   * One that is let back in gently is spared only as long as there is another.
   *
   * Attack: a client keeps asking for what the service is slow to answer, until every target is left out, and all other
   * clients are refused although the service is there. So where all are left out, those that can be reached serve on.
   */
  #choose(tried: readonly Target[]): Target | null {
    const targets = this.#targets;
    const nowMs = targets.length === 1 ? 0 : this.deadlines.nowMs();
    let best: Target | null = null;
    let lastResort: Target | null = null;
    for (let i = 0; i < targets.length; i++) {
      const target = targets[(this.#next + i) % targets.length]!;
      if (tried.includes(target)) continue;
      if (!target.rests(nowMs)) {
        if (best === null || isBetter(target, best)) best = target;
      } else if (target.isReachable && (lastResort === null || target.inFlight < lastResort.inFlight))
        lastResort = target;
    }
    best ??= lastResort;
    // Behind the one that was taken, so that one that is left out does not give its whole share to its neighbour.
    if (best !== null) this.#next = (targets.indexOf(best) + 1) % targets.length;
    return best;
  }

  #nextUsableInMs(): number {
    const nowMs = this.deadlines.nowMs();
    const rests = this.#targets.flatMap((target) => target.restMs(nowMs) ?? []);
    return rests.length === 0 ? 1_000 : Math.min(...rests);
  }
}

function isBetter(one: Target, other: Target): boolean {
  return one.isBusy === other.isBusy ? one.inFlight < other.inFlight : other.isBusy;
}
