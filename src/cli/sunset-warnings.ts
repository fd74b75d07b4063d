import type { Route } from '../gateway/route.ts';
import type { GatewayLog } from '../telemetry/log.ts';

const DAY_MS = 86_400_000;
const LOOK_EVERY_MS = 3_600_000;
/** How long before a sunset it is spoken of. */
const NEAR_DAYS = 30;

/**
 * Warns of deprecated routes whose sunset is near: now, and once a day; of one that a reload brings, within the hour.
 * @param routes those in force
 * @returns a way to stop
 */
export function warnOfSunsets(
  routes: () => readonly Route[],
  { logger }: GatewayLog,
  wallMs: () => number,
): () => void {
  /** By route, what it was last said of. */
  const told = new Map<string, string>();
  const look = () => {
    for (const { path, deprecated } of routes()) {
      const sunsetMs = deprecated?.sunsetMs ?? null;
      if (sunsetMs === null) continue;
      const days = Math.ceil((sunsetMs - wallMs()) / DAY_MS);
      if (days < 1 || days > NEAR_DAYS) continue;
      const sunset = new Date(sunsetMs).toISOString();
      if (told.get(path) === `${sunset} ${days}`) continue;
      told.set(path, `${sunset} ${days}`);
      logger.warn({ route: path, sunset, days }, 'a route goes soon; `tollgate deprecations` tells who still calls it');
    }
  };
  look();
  const timer = setInterval(look, LOOK_EVERY_MS).unref();
  return () => clearInterval(timer);
}
