import type { KeyStore } from '../identify/key-store.ts';
import type { Route } from '../routing/router.ts';
import { type DeprecatedCalls, lastDays } from './deprecated-calls.ts';
import { timeOf } from './key-report.ts';

/** A deprecated route and its recent callers. Times are RFC 3339 or null. */
export interface DeprecationReport {
  readonly route: string;
  readonly methods: readonly string[];
  readonly since: string | null;
  readonly sunset: string | null;
  readonly successor: string | null;
  readonly calls: number;
  /** Sorted by calls, the most first. */
  readonly callers: readonly Caller[];
}

interface Caller {
  /** The id of a consumer. `*others` stands for all that are not counted separately, `*public` for calls without a key. */
  readonly id: string;
  readonly name: string | null;
  readonly owner: string | null;
  readonly plan: string | null;
  readonly calls: number;
  /** `2026-11-21`, UTC. */
  readonly lastDay: string;
}

/**
 * Lists the callers of each deprecated route.
 * @param options `days`: how many days back, today included; `nowMs`: Unix milliseconds; `onCaller`: called after each
 *   caller that was looked up
 */
export async function deprecationReports(
  routes: readonly Route[],
  store: DeprecationSources,
  { days, nowMs, onCaller }: { readonly days: number; readonly nowMs: number; readonly onCaller?: () => void },
): Promise<readonly DeprecationReport[]> {
  const reports: DeprecationReport[] = [];
  for (const route of routes) {
    if (route.deprecated === null) continue;
    // One route at a time: the store returns all callers of a day at once, and the gateway has requests to serve meanwhile.
    reports.push(await reportOf(route, store, lastDays(nowMs, days), onCaller));
  }
  return reports;
}

interface DeprecationSources {
  readonly deprecatedCalls: Pick<DeprecatedCalls, 'of'>;
  readonly keys: Pick<KeyStore, 'get'>;
}

async function reportOf(
  { path, methods, deprecated }: Route,
  { deprecatedCalls, keys }: DeprecationSources,
  days: readonly string[],
  onCaller?: () => void,
): Promise<DeprecationReport> {
  const called = [...(await deprecatedCalls.of(days, deprecated!.countedAs))].sort(([, a], [, b]) => b.calls - a.calls);
  const callers: Caller[] = [];
  for (const [id, { calls, lastDay }] of called) {
    const key = await keys.get(id);
    onCaller?.();
    callers.push({
      id,
      name: key?.name ?? null,
      owner: key?.owner ?? null,
      plan: key?.plan ?? null,
      calls,
      lastDay,
    });
  }
  return {
    route: path,
    methods,
    since: timeOf(deprecated!.sinceMs),
    sunset: timeOf(deprecated!.sunsetMs),
    successor: deprecated!.successor,
    calls: callers.reduce((sum, { calls }) => sum + calls, 0),
    callers,
  };
}

/** A deprecated route that one consumer still calls. Times are RFC 3339 or null. */
export interface DeprecatedRouteCalls {
  readonly route: string;
  readonly methods: readonly string[];
  readonly since: string | null;
  readonly sunset: string | null;
  readonly successor: string | null;
  readonly calls: number;
  /** `2026-11-21`, UTC. */
  readonly lastDay: string;
}

/**
 * Lists the deprecated routes that one consumer has called, the most calls first.
 * @param options `days`: how many days back, today included; `nowMs`: Unix milliseconds
 * @throws Failure `store_unavailable`
 */
export async function deprecatedCallsOfConsumer(
  id: string,
  routes: readonly Route[],
  deprecatedCalls: Pick<DeprecatedCalls, 'ofConsumer'>,
  { days, nowMs }: { readonly days: number; readonly nowMs: number },
): Promise<readonly DeprecatedRouteCalls[]> {
  const found: DeprecatedRouteCalls[] = [];
  for (const { path, methods, deprecated } of routes) {
    if (deprecated === null) continue;
    // One route at a time, so that a long list of routes does not delay callers.
    const called = await deprecatedCalls.ofConsumer(lastDays(nowMs, days), deprecated.countedAs, id);
    if (called === null) continue;
    const { sinceMs, sunsetMs, successor } = deprecated;
    found.push({ route: path, methods, since: timeOf(sinceMs), sunset: timeOf(sunsetMs), successor, ...called });
  }
  return found.sort((a, b) => b.calls - a.calls);
}
