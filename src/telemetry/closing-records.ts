import type { RefusalCounter } from '../admit/refusal-counter.ts';
import type { ClosedWebSocket, Exchange } from '../gateway/exchange.ts';
import type { ClosingRecords } from '../gateway/gateway-deps.ts';
import type { Route } from '../routing/route.ts';
import type { DeprecatedCallCounter } from './deprecated-call-counter.ts';
import type { GatewayLog } from './log.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { RecentRequests } from './recent-requests.ts';
import type { TrafficCounter } from './traffic-counter.ts';

/** Passes the closing records to the log, to the metrics, to the counters of deprecated calls and of traffic, and to the recent requests. */
export class LogAndMetrics implements ClosingRecords {
  readonly #log: GatewayLog;
  readonly #metrics: GatewayMetrics;
  readonly #deprecatedCalls: DeprecatedCallCounter;
  /** By pattern. */
  readonly #deprecatedRoutes: ReadonlyMap<string, readonly Route[]>;
  /** Null if no history is kept. */
  readonly #refusals: RefusalCounter | null;
  /** Null if no traffic is kept. */
  readonly #traffic: TrafficCounter | null;
  /** Null without an admin token. */
  readonly #recent: RecentRequests | null;

  constructor(
    log: GatewayLog,
    metrics: GatewayMetrics,
    deprecatedCalls: DeprecatedCallCounter,
    deprecatedRoutes: ReadonlyMap<string, readonly Route[]>,
    refusals: RefusalCounter | null,
    traffic: TrafficCounter | null,
    recent: RecentRequests | null,
  ) {
    this.#log = log;
    this.#metrics = metrics;
    this.#deprecatedCalls = deprecatedCalls;
    this.#deprecatedRoutes = deprecatedRoutes;
    this.#refusals = refusals;
    this.#traffic = traffic;
    this.#recent = recent;
  }

  close(exchange: Exchange): void {
    this.#metrics.record(exchange);
    const { route, judgement, consumerId, accountId = consumerId } = exchange;
    if (this.#refusals !== null && accountId !== null && (judgement === 'refused' || judgement === 'banned')) {
      const { plan, window, retryAtMs, refusal } = exchange;
      this.#refusals.count({
        consumerId: accountId,
        plan: plan!,
        kind: judgement,
        window: window!,
        cost: refusal?.binding.needed ?? exchange.cost,
        untilMs: retryAtMs ?? refusal!.binding.resetAtMs,
      });
    }
    const deprecated = route === null || judgement !== 'admitted' ? undefined : this.#deprecatedRoutes.get(route);
    const called = deprecated?.find(({ methods }) => methods.includes(exchange.method));
    if (called !== undefined) this.#deprecatedCalls.count(called.deprecated!.countedAs, consumerId);
    this.#traffic?.count(exchange);
    this.#recent?.note(exchange);
    this.#log.access(exchange);
  }

  closeWebSocket(closed: ClosedWebSocket): void {
    this.#metrics.webSocketClosed(closed.end);
    this.#log.webSocketClosed(closed);
  }

  defect(error: unknown, requestId: string): void {
    this.#log.logger.error({ err: error, requestId }, 'a defect');
  }
}
