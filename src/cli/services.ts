import { Admitter } from '../admit/admit.ts';
import type { Plans } from '../admit/plan.ts';
import { DeprecatedCallCounter } from '../annotate/deprecated-call-counter.ts';
import type { Settings } from '../config/settings.ts';
import { Usage } from '../gateway/usage.ts';
import { FailedAttempts } from '../identify/failed-attempts.ts';
import { Identifier } from '../identify/identify.ts';
import type { GatewayMetrics } from '../telemetry/metrics.ts';
import type { GatewayStores } from './gateway-stores.ts';

/** What knows callers and where they stand: it lives as long as the gateway, whatever the settings become. */
export interface Services {
  readonly identifier: Identifier;
  readonly admitter: Admitter;
  readonly failedAttempts: FailedAttempts;
  readonly usage: Usage;
  readonly deprecatedCalls: DeprecatedCallCounter;
}

/** Consumers whose last known state is kept in memory. */
const REMEMBERED = 100_000;

/** @param inForce read each time it is needed: it changes */
export function openServices(
  settings: Settings,
  inForce: { readonly plans: Plans; readonly settings: Settings },
  stores: GatewayStores,
  metrics: GatewayMetrics,
): Services {
  const clocks = { monotonicMs: () => performance.now(), wallMs: () => Date.now() };
  const onStoreFailure = () => metrics.storeFailed();
  const { onFailure, staleKeysMs, timeoutMs, url } = settings.redis;
  const identifier = new Identifier({
    keyStore: stores.keys,
    peppers: stores.peppers,
    isPepperRight: () => stores.pepperState() === 'right',
    formats: () => inForce.settings.keyFormats,
    staleKeysMs,
    onStoreFailure,
    ...clocks,
  });
  const admitter = new Admitter({
    ledger: stores.ledger,
    returns: stores.returns,
    onFailure,
    // The embedded store answers within the turn; nothing there is waited for.
    ...(url === null ? {} : { timeoutMs }),
    remembered: REMEMBERED,
    onStoreFailure,
    onAlone: metrics.decidedAlone,
    onReturned: metrics.givenBack,
    ...clocks,
  });
  const usage = new Usage({
    ledger: stores.ledger,
    ...(url === null ? {} : { timeoutMs }),
    onStoreFailure,
    monotonicMs: clocks.monotonicMs,
  });
  metrics.owingFrom(() => admitter.owing);
  const failedAttempts = new FailedAttempts({
    counter: stores.attempts,
    ...(url === null ? {} : { timeoutMs }),
    limit: () => inForce.plans.failedAuthenticationPerMinute,
    ...clocks,
  });
  stores.changes.subscribe(({ kind, keyId }) => {
    stores.applyLifts();
    if (kind !== 'ban') identifier.forget(keyId);
    if (kind !== 'key') admitter.forget();
  });
  const deprecatedCalls = new DeprecatedCallCounter({ store: stores.deprecatedCalls, wallMs: clocks.wallMs });
  return { identifier, admitter, failedAttempts, usage, deprecatedCalls };
}
