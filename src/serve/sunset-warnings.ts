import { daysUntil } from '../io/time-text.ts';
import type { Route } from '../routing/route.ts';
import { routeName } from '../routing/router.ts';
import type { GatewayLog } from '../telemetry/log.ts';

const CHECK_SUNSETS_EVERY_MS = 3_600_000;
/** How many days before a sunset the warnings begin. */
const NEAR_DAYS = 30;

/**
 * Logs a warning for each deprecated route whose sunset is near: now, and once a day. A route that a reload adds is found
 * within an hour.
 * @param routes returns the routes in force
 * @returns a function that stops the checks
 */
export function warnOfSunsets(
  routes: () => readonly Route[],
  { logger }: GatewayLog,
  wallMs: () => number,
): () => void {
  /** By route, the sunset and the days left of the last warning. */
  const warned = new Map<string, string>();
  const check = () => {
    for (const route of routes()) {
      const { methods, deprecated } = route;
      if (deprecated === null || deprecated.sunsetMs === null) continue;
      const { countedAs, sunsetMs } = deprecated;
      const days = daysUntil(sunsetMs, wallMs());
      if (days < 1 || days > NEAR_DAYS) continue;
      const sunset = new Date(sunsetMs).toISOString();
      if (warned.get(countedAs) === `${sunset} ${days}`) continue;
      warned.set(countedAs, `${sunset} ${days}`);
      logger.warn(
        { route: routeName(route), methods, sunset, days },
        'a route will be removed soon; `tollgate deprecations` lists its callers',
      );
    }
  };
  check();
  const timer = setInterval(check, CHECK_SUNSETS_EVERY_MS).unref();
  return () => clearInterval(timer);
}
