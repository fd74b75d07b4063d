import { shadowIdOf } from '../admit/account-id.ts';
import type { AdmissionResult, Admitted, Verdict } from '../admit/verdict.ts';
import type { ErrorResponse } from '../annotate/errors.ts';
import type { Amounts } from '../engine/types.ts';
import { isClientBodyError } from '../forward/faults.ts';
import type { ConsumerShare } from '../forward/upstream/upstream.ts';
import type { Head } from '../http1/request-head.ts';
import type { Charge } from '../meter/charge.ts';
import type { ChosenRows } from '../meter/cost.ts';
import type { Decoding } from '../meter/decoders.ts';
import { noSuchRow } from './described-request.ts';
import type { Caller, Shadow } from './exchange.ts';
import type { GatewayDeps } from './gateway-deps.ts';
import {
  amountsOf,
  type Decompression,
  type Ended,
  leastAmountsOf,
  Metering,
  type PaidUnits,
  readsBody,
  rowsOf,
  unpaid,
} from './metering.ts';
import type { ProxyResult } from './proxy-request.ts';

/** How a forwarded request has ended, for what it costs. */
const ENDED: Readonly<Record<ProxyResult['kind'], Ended>> = {
  answered: 'whole',
  upgraded: 'upgraded',
  client_gone: 'left',
  broken: 'cut',
  failed: 'failed',
  refused: 'failed',
};

type PaymentDeps = Pick<GatewayDeps, 'admitter' | 'monotonicMs'> & {
  readonly decoders: Pick<GatewayDeps['decoders'], 'take' | 'leave' | 'start' | 'hasMany'>;
  readonly thread: Pick<GatewayDeps['thread'], 'of' | 'mustWait' | 'wait'>;
};

/**
 * What one request pays beside its cost in requests: what it charges in units, and what limits count that are only watched
 * (`shadow`). A request with neither has none.
 *
 * The flow sets the reserve (`reserve`), the store takes it with its decision (`taken`), the answer says what the request cost
 * (`metering`, `forwarded`), and `end` settles the difference once, when the request has ended.
 */
export class Payment {
  /** What it takes of units in advance; undefined until `reserve`, and if it charges none. */
  amounts: Amounts | undefined;
  /** Why it is not forwarded although it is counted; null unless it names no row of a table. */
  refusal: ErrorResponse | null = null;
  /** Finds what the request costs in units; null until the store has taken the reserve. */
  metering: Metering | null = null;
  /** What it paid in units; null until that is known, and if it pays nothing. */
  units: PaidUnits | null = null;
  /** The verdict of limits that are only watched; null until that is known, and without such limits. */
  shadow: Shadow | null = null;
  readonly #deps: PaymentDeps;
  readonly #caller: Pick<Caller, 'id' | 'shareId'>;
  readonly #head: Head;
  readonly #charges: readonly Charge[] | null;
  /** The rows of tables that the request names. */
  #rows: ChosenRows | null = null;
  #ended: Ended = 'failed';
  /** The decision that has taken the reserve. */
  #verdict: Admitted | null = null;
  #watched: Promise<AdmissionResult> | null = null;

  /** @param charges with at least one; null if it charges no unit */
  constructor(
    deps: PaymentDeps,
    caller: Pick<Caller, 'id' | 'shareId'>,
    head: Head,
    charges: readonly Charge[] | null,
  ) {
    this.#deps = deps;
    this.#caller = caller;
    this.#head = head;
    this.#charges = charges;
  }

  /** Whether the body must be read before the request can be counted. */
  get needsBody(): boolean {
    return this.#charges !== null && readsBody(this.#charges, this.#head);
  }

  /** The least that it may take in advance, whatever its body says. */
  get least(): Amounts | undefined {
    return this.#charges === null ? undefined : leastAmountsOf(this.#charges, this.#head);
  }

  /** Sets what it takes in advance. @param body if it has been read whole */
  reserve(body: Buffer | null): void {
    if (this.#charges === null) return;
    const named = rowsOf(this.#charges, this.#head, body);
    if ('unnamed' in named) {
      this.refusal = noSuchRow(named.unnamed);
      this.amounts = leastAmountsOf(this.#charges, this.#head);
      return;
    }
    this.#rows = named.rows;
    this.amounts = amountsOf(this.#charges, this.#head, body, named.rows);
  }

  /**
   * Notes that the store has taken the reserve.
   * @param isOver the request ended while the store was asked: its record has been reported, and it pays nothing
   */
  taken(verdict: Admitted, isOver: boolean): void {
    if (this.#charges === null || this.amounts === undefined) return;
    if (isOver) {
      this.#deps.admitter.settle(this.#caller.id, verdict, unpaid(this.amounts));
      return;
    }
    this.#verdict = verdict;
    this.metering = new Metering(this.#charges, this.amounts, this.#decompression(), this.#rows);
  }

  /**
   * Counts the admitted request against the limits of its caller that are only watched (contract section 2, `enforce` and
   * `shadow`). That refuses no request, and only its record waits for it.
   */
  watch({ allowance: { shadow }, cost }: Verdict): void {
    if (shadow === undefined) return;
    const amounts = shadow.inUnits === undefined ? undefined : this.amounts;
    this.#watched = Promise.resolve(this.#deps.admitter.admit(shadowIdOf(this.#caller.id), shadow, cost, 0, amounts));
  }

  /** Notes that the gateway answers in place of a service. */
  replied(): void {
    this.#ended = 'replied';
  }

  /** Notes that forwarding has ended. */
  forwarded(result: ProxyResult): void {
    const isClientFault = 'fault' in result && isClientBodyError(result.fault.code);
    this.#ended = isClientFault ? 'left' : ENDED[result.kind];
  }

  /**
   * Finds what the request, which has ended, cost, and settles it. `units` and `shadow` are known then.
   * @param status that the client got
   * @param nowMs monotonic
   * @param share of the upstream, in which the request had its place; null if it had none
   * @returns null if all is known at once. Never rejects
   */
  end(status: number, nowMs: number, share: ConsumerShare | null): Promise<void> | null {
    const paid = this.metering === null ? null : this.#pay(this.metering, status, nowMs, share);
    return paid === null && this.#watched === null ? null : this.#endLater(paid);
  }

  async #endLater(paid: Promise<void> | null): Promise<void> {
    await paid;
    const watched = await this.#watched;
    if (watched === null || watched.kind === 'unavailable') return;
    if (this.units !== null) this.#settleShadow(watched, this.units);
    const { kind, binding } = watched.verdict;
    if (kind !== 'crowded') this.shadow = { judgement: kind, window: kind === 'admitted' ? null : binding.name };
  }

  #pay(metering: Metering, status: number, nowMs: number, share: ConsumerShare | null): Promise<void> | null {
    const paid = metering.end(this.#ended, status, nowMs);
    if (!(paid instanceof Promise)) {
      this.#settle(paid);
      return null;
    }
    // Attack: a client reads or leaves answers faster than they are decompressed. Beyond a few, each stays in flight until it is.
    const held = this.#deps.decoders.hasMany(this.#caller.shareId) ? share : null;
    held?.hold();
    held?.pause();
    return paid.then((later) => {
      held?.resume();
      held?.release();
      this.#settle(later);
    });
  }

  /** Tells the store what the request cost. */
  #settle(paid: PaidUnits): void {
    this.units = paid;
    if (this.#verdict !== null) this.#deps.admitter.settle(this.#caller.id, this.#verdict, paid);
  }

  #settleShadow({ verdict, source }: Extract<AdmissionResult, { kind: 'decided' }>, used: PaidUnits): void {
    const { admitter } = this.#deps;
    const id = shadowIdOf(this.#caller.id);
    if (verdict.kind === 'admitted') admitter.settle(id, verdict, used);
    else if (this.amounts !== undefined && source === 'store') admitter.settleWatched(id, verdict, this.amounts, used);
  }

  #decompression(): Decompression {
    const { decoders } = this.#deps;
    const { shareId } = this.#caller;
    return {
      take: () => decoders.take(shareId),
      leave: () => decoders.leave(shareId),
      start: (coding, first, read) => this.#decode(coding, first, read),
    };
  }

  /** Begins to read a compressed answer for its cost. That is work for the caller, also once the answer has passed. */
  #decode(coding: string, first: number, read: (bytes: Buffer) => boolean): Decoding {
    const { decoders, monotonicMs, thread } = this.#deps;
    const { shareId } = this.#caller;
    const time = thread.of(shareId);
    return decoders.start(coding, first, shareId, {
      read: (bytes) => {
        const fromMs = monotonicMs();
        const readsOn = read(bytes);
        const toMs = monotonicMs();
        time.worked(fromMs, toMs);
        return readsOn;
      },
      waitForTurn: (next) => {
        if (!thread.mustWait(time)) return false;
        thread.wait(time, next);
        return true;
      },
    });
  }
}
