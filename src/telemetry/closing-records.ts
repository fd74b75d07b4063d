import type { RefusalCounter } from '../admit/refusal-counter.ts';
import type { ClosedWebSocket, Exchange } from '../gateway/exchange.ts';
import type { ClosingRecords } from '../gateway/gateway-deps.ts';
import type { DeprecatedCallCounter } from './deprecated-call-counter.ts';
import type { GatewayLog } from './log.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { NetworkCounter } from './network-counter.ts';
import type { RecentRequests } from './recent-requests.ts';
import type { TrafficCounter } from './traffic-counter.ts';

interface LogAndMetricsOptions {
  readonly log: GatewayLog;
  readonly metrics: GatewayMetrics;
  readonly deprecatedCalls: DeprecatedCallCounter;
  /** Null if no history is kept. */
  readonly refusals: RefusalCounter | null;
  /** Null if it is not kept from where keys are called. */
  readonly networks: NetworkCounter | null;
  /** Null if no traffic is kept. */
  readonly traffic: TrafficCounter | null;
  /** Null without an admin token. */
  readonly recent: RecentRequests | null;
}

/** Passes the closing records to the log, to the metrics, to the counters of deprecated calls, of networks and of traffic, and to the recent requests. */
export class LogAndMetrics implements ClosingRecords {
  readonly #options: LogAndMetricsOptions;

  constructor(options: LogAndMetricsOptions) {
    this.#options = options;
  }

  close(exchange: Exchange): void {
    const { log, metrics, deprecatedCalls, refusals, networks, traffic, recent } = this.#options;
    metrics.record(exchange);
    const { judgement, consumerId, accountId = consumerId } = exchange;
    if (refusals !== null && accountId !== null && (judgement === 'refused' || judgement === 'banned')) {
      const { plan, window, retryAtMs, refusal } = exchange;
      refusals.count({
        consumerId: accountId,
        plan: plan!,
        kind: judgement,
        window: window!,
        cost: refusal?.binding.needed ?? exchange.cost,
        untilMs: retryAtMs ?? refusal!.binding.resetAtMs,
      });
    }
    const { deprecatedAs = null } = exchange;
    if (deprecatedAs !== null && judgement === 'admitted') deprecatedCalls.count(deprecatedAs, consumerId);
    networks?.count(exchange);
    traffic?.count(exchange);
    recent?.note(exchange);
    log.access(exchange);
  }

  closeWebSocket(closed: ClosedWebSocket): void {
    this.#options.metrics.webSocketClosed(closed.end);
    this.#options.log.webSocketClosed(closed);
  }

  defect(error: unknown, requestId: string): void {
    this.#options.log.logger.error({ err: error, requestId }, 'a defect');
  }
}
