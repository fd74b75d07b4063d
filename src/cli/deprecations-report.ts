import { timeOf } from '../admin/key-report.ts';
import { lastDays } from '../annotate/deprecated-call-counter.ts';
import type { DeprecatedCalls } from '../annotate/deprecated-calls.ts';
import type { Route } from '../gateway/route.ts';
import type { KeyStore } from '../identify/key-store.ts';

/** A deprecated route and who has called it lately. Times RFC 3339 or null. */
export interface DeprecationReport {
  readonly route: string;
  readonly since: string | null;
  readonly sunset: string | null;
  readonly successor: string | null;
  readonly calls: number;
  /** The most calls first. */
  readonly callers: readonly Caller[];
}

interface Caller {
  /** Of an API key; `*others` for those beyond what is told apart, `*public` for calls without a key. */
  readonly id: string;
  readonly name: string | null;
  readonly owner: string | null;
  readonly plan: string | null;
  readonly calls: number;
  /** `2026-11-21`, UTC. */
  readonly lastDay: string;
}

/**
 * Who still calls the deprecated routes of the settings.
 * @param days how far back, today included
 * @param nowMs Unix milliseconds
 * @param onCaller called for each caller that has been looked up
 */
export async function deprecationReports(
  routes: readonly Route[],
  store: DeprecationSources,
  { days, nowMs, onCaller }: { readonly days: number; readonly nowMs: number; readonly onCaller?: () => void },
): Promise<readonly DeprecationReport[]> {
  const reports: DeprecationReport[] = [];
  for (const route of routes) {
    if (route.deprecated === null) continue;
    // One after the other: what thousands of callers did in a day comes in one piece, and a gateway has requests to answer.
    reports.push(await reportOf(route, store, lastDays(nowMs, days), onCaller));
  }
  return reports;
}

interface DeprecationSources {
  readonly deprecatedCalls: DeprecatedCalls;
  readonly keys: Pick<KeyStore, 'get'>;
}

async function reportOf(
  { path, deprecated }: Route,
  { deprecatedCalls, keys }: DeprecationSources,
  days: readonly string[],
  onCaller?: () => void,
): Promise<DeprecationReport> {
  const called = [...(await deprecatedCalls.of(days, path))].sort(([, a], [, b]) => b.calls - a.calls);
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
    since: timeOf(deprecated!.sinceMs),
    sunset: timeOf(deprecated!.sunsetMs),
    successor: deprecated!.successor,
    calls: callers.reduce((sum, { calls }) => sum + calls, 0),
    callers,
  };
}
