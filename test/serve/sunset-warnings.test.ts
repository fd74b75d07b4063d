import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Route } from '../../src/routing/route.ts';
import { warnOfSunsets } from '../../src/serve/sunset-warnings.ts';
import type { GatewayLog } from '../../src/telemetry/log.ts';

const NOW = Date.UTC(2030, 10, 20, 12);
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

const routeGoing = (path: string, sunsetMs: number | null) =>
  ({
    ...{ hosts: null, path, when: null },
    deprecated: { countedAs: path, sinceMs: 0, sunsetMs, successor: null, link: null, brownouts: [] },
  }) as unknown as Route;

let lines: string[];
let routes: Route[];
let stop: () => void;

beforeEach(() => {
  vi.useFakeTimers({ now: NOW });
  lines = [];
  const logger = { warn: ({ route, days }: { route: string; days: number }) => lines.push(`${route} ${days}`) };
  routes = [
    routeGoing('/soon', NOW + 3 * DAY_MS - 1),
    routeGoing('/far', NOW + 31 * DAY_MS),
    routeGoing('/ever', null),
  ];
  stop = warnOfSunsets(
    () => routes,
    { logger } as unknown as GatewayLog,
    () => Date.now(),
  );
});

afterEach(() => {
  stop();
  vi.useRealTimers();
});

test('a route whose sunset is near is warned of at once and then once a day, until it is gone', () => {
  expect(lines).toEqual(['/soon 3']);
  vi.advanceTimersByTime(DAY_MS - HOUR_MS);
  expect(lines).toEqual(['/soon 3']);
  vi.advanceTimersByTime(HOUR_MS);
  expect(lines).toEqual(['/soon 3', '/soon 2', '/far 30']);
  vi.advanceTimersByTime(4 * DAY_MS);
  expect(lines.filter((line) => line.startsWith('/soon'))).toEqual(['/soon 3', '/soon 2', '/soon 1']);
});

test('one that a reload brings, or brings nearer, is warned of within the hour', () => {
  routes = [routeGoing('/soon', NOW + DAY_MS), routeGoing('/new', NOW + 5 * DAY_MS)];
  vi.advanceTimersByTime(HOUR_MS);
  expect(lines).toEqual(['/soon 3', '/soon 1', '/new 5']);
});
