import type { NearCandidate } from '../../model/refusal.ts';
import { refusedCallersOf } from '../live/refused-callers.ts';
import { type Gateways, type RefusedCallers, STEP_MS } from '../live/shapes.ts';
import { sumOf, type TrafficReport, trafficReport } from '../live/traffic.ts';
import type { FleetExchange, FleetJob, FleetOptions } from './fleet-exchange.ts';
import type { FleetMessage, FleetNews } from './fleet-store.ts';
import { type OtherGateway, readReport } from './messages.ts';
import type { StoreWatch } from './store-watch.ts';

/** After a refresh, the others report at each heartbeat for this time. */
const WATCHED_FOR_MS = 5_000;
/** What was read from the others is used again within this time. */
const FRESH_MS = 900;
const MAX_NEAR = 1_000;

/** The gateways on the store and what they report: this one alone while the store is away. */
export class Presence implements FleetJob {
  readonly #exchange: FleetExchange;
  readonly #store: StoreWatch;
  readonly #clocks: Pick<FleetOptions, 'wallMs' | 'monotonicMs'>;
  #others: readonly OtherGateway[] = [];
  /** When they were read last, Unix milliseconds; null before the first time. */
  #readAtMs: number | null = null;
  #watchedUntilMs = Number.NEGATIVE_INFINITY;
  /** By how many buckets the store's clock is ahead of this gateway's. */
  #shift = 0;

  constructor(exchange: FleetExchange, store: StoreWatch, clocks: Pick<FleetOptions, 'wallMs' | 'monotonicMs'>) {
    this.#exchange = exchange;
    this.#store = store;
    this.#clocks = clocks;
  }

  /** The gateways on the store; only this one while the store is away. */
  async gateways(): Promise<Gateways> {
    await this.refresh();
    const seenAt = new Date(this.#clocks.wallMs()).toISOString();
    const own = { id: this.#exchange.id, self: true, seenAt, ...this.#exchange.local!.facts };
    const gateways = [own, ...this.#present.map(({ report }) => report)];
    return { complete: this.isComplete, lastKnown: this.isComplete ? null : this.#lastKnown, gateways };
  }

  /** The requests of the last 10 minutes on all gateways. */
  async traffic(): Promise<TrafficReport> {
    await this.refresh();
    const { lastStep, counts } = this.#exchange.local!.seen.traffic;
    const own = { lastStep: lastStep + this.#shift, counts };
    const others = this.#present.flatMap(({ traffic }) => traffic ?? []);
    return trafficReport(sumOf([own, ...others], own.lastStep), this.isComplete);
  }

  /** Consumers near a limit on any gateway, each once, those with the smallest share left first. */
  async near(): Promise<readonly NearCandidate[]> {
    await this.refresh();
    const all = new Map<string, NearCandidate>();
    for (const one of [...this.#exchange.local!.seen.near, ...this.#present.flatMap(({ near }) => near)]) {
      const known = all.get(one.id);
      if (known === undefined || known.atMs < one.atMs) all.set(one.id, one);
    }
    return [...all.values()].sort((a, b) => a.share - b.share).slice(0, MAX_NEAR);
  }

  /** The callers that were refused most in the last 10 minutes on all gateways. Each gateway reports those that it refused most. */
  async mostRefused(): Promise<RefusedCallers> {
    await this.refresh();
    return refusedCallersOf([this.#exchange.local!.seen.refused, ...this.#present.map(({ refused }) => refused)]);
  }

  /** Makes sure that what is known of all gateways is of this second. */
  async refresh(): Promise<void> {
    const nowMs = this.#clocks.monotonicMs();
    const wasWatched = nowMs < this.#watchedUntilMs;
    this.#watchedUntilMs = nowMs + WATCHED_FOR_MS;
    const isFresh = wasWatched && this.#exchange.sinceExchangeMs <= FRESH_MS;
    if (this.#exchange.local === null || !isFresh) await this.#exchange.heartbeatSoon();
  }

  /** The ids of the other gateways, as of the last refresh. */
  others(): Set<string> {
    return new Set(this.#present.map(({ report }) => report.id));
  }

  /** False if other gateways may be missing, because the store does not answer. */
  get isComplete(): boolean {
    return this.#exchange.isReached && this.#store.state === 'present';
  }

  get needsReports(): boolean {
    return this.#clocks.monotonicMs() < this.#watchedUntilMs;
  }

  onNews({ nowMs, reports }: FleetNews, { id: own, readsReports }: FleetMessage): void {
    this.#shift = Math.round((nowMs - this.#clocks.wallMs()) / STEP_MS);
    if (!readsReports) return;
    this.#others = reports.flatMap((one) => (one.id === own ? [] : (readReport(one) ?? [])));
    this.#readAtMs = this.#clocks.wallMs();
  }

  get #lastKnown(): Gateways['lastKnown'] {
    if (this.#readAtMs === null) return null;
    return { gateways: 1 + this.#others.length, at: new Date(this.#readAtMs).toISOString() };
  }

  /** The other gateways; none while the store is away. */
  get #present(): readonly OtherGateway[] {
    return this.#exchange.isReached ? this.#others : [];
  }
}
