import { z } from 'zod';
import { Failure } from '../failure.ts';
import type { KeyStore } from '../identify/record-store.ts';
import { orUnreadable, UnreadableRecord } from '../model/record.ts';
import { count, type DeepReadonly, time } from '../model/values.ts';
import type { Route } from '../routing/route.ts';
import { routeName } from '../routing/router.ts';
import { type DeprecatedCalls, lastDays } from './deprecated-calls.ts';
import { timeOf, unreadableRow } from './key-report.ts';
import { day } from './operation-values.ts';

const deprecatedRoute = {
  route: z.string().describe('The pattern, `/v1/pets/{petId}`, with its first host and its `when` as in the log.'),
  methods: z.array(z.string()),
  since: time.nullable(),
  sunset: time.nullable(),
  successor: z.string().nullable(),
};

/** A deprecated route and its recent callers, sorted by calls, the most first. */
export const deprecationReport = z
  .strictObject({
    ...deprecatedRoute,
    calls: count,
    callers: z.array(
      z.strictObject({
        id: z
          .string()
          .describe('`*public` for calls without a key, `*others` for callers that are not counted separately.'),
        name: z.string().nullable(),
        owner: z.string().nullable(),
        plan: z.string().nullable(),
        calls: count,
        lastDay: day,
        unreadable: unreadableRow,
      }),
    ),
  })
  .meta({ id: 'Deprecation' });
type DeprecationReport = DeepReadonly<z.output<typeof deprecationReport>>;
type Caller = DeprecationReport['callers'][number];

/** A page of the deprecated routes. */
export interface DeprecationPage {
  readonly deprecations: readonly DeprecationReport[];
  readonly cursor: string | null;
}

/** @param cursor that of the page before; undefined for the first page */
export interface AskedPage {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/**
 * Lists the callers of the deprecated routes of a page, in the order of the settings.
 *
 * Fault: each page read the callers of all routes, and one that ended between two routes of one path led to itself.
 * @param span `days`: how many days back, today included; `nowMs`: Unix milliseconds
 * @throws Failure `refused` for an unknown cursor
 */
export async function deprecationPage(
  routes: readonly Route[],
  store: DeprecationSources,
  { days, nowMs }: { readonly days: number; readonly nowMs: number },
  { limit, cursor }: AskedPage,
): Promise<DeprecationPage> {
  const all = routes.filter(({ deprecated }) => deprecated !== null);
  const at = cursor === undefined ? -1 : all.findIndex((route) => cursorOf(route) === cursor);
  if (cursor !== undefined && at === -1) throw new Failure('refused', 'Unknown cursor.');
  const page = all.slice(at + 1, at + 1 + limit);
  const deprecations: DeprecationReport[] = [];
  // One route at a time: the store returns all callers of a day at once, and the gateway has requests to serve meanwhile.
  for (const route of page) deprecations.push(await reportOf(route, store, lastDays(nowMs, days)));
  return { deprecations, cursor: at + 1 + limit < all.length ? cursorOf(page.at(-1)!) : null };
}

function cursorOf(route: Route): string {
  return `${route.methods.join(',')} ${routeName(route)}`;
}

interface DeprecationSources {
  readonly deprecatedCalls: Pick<DeprecatedCalls, 'of'>;
  readonly keys: Pick<KeyStore, 'get'>;
}

async function reportOf(
  route: Route,
  { deprecatedCalls, keys }: DeprecationSources,
  days: readonly string[],
): Promise<DeprecationReport> {
  const { methods, deprecated } = route;
  const called = [...(await deprecatedCalls.of(days, deprecated!.countedAs))].sort(([, a], [, b]) => b.calls - a.calls);
  const callers: Caller[] = [];
  for (const [id, { calls, lastDay }] of called) {
    const read = await orUnreadable(keys.get(id));
    const key = read instanceof UnreadableRecord ? null : read;
    callers.push({
      id,
      name: key?.name ?? null,
      owner: key?.owner ?? null,
      plan: key?.plan ?? null,
      calls,
      lastDay,
      ...(read instanceof UnreadableRecord ? { unreadable: read.message } : {}),
    });
  }
  return {
    route: routeName(route),
    methods,
    since: timeOf(deprecated!.sinceMs),
    sunset: timeOf(deprecated!.sunsetMs),
    successor: deprecated!.successor,
    calls: callers.reduce((sum, { calls }) => sum + calls, 0),
    callers,
  };
}

/** A deprecated route that one consumer still calls. */
export const deprecatedRouteCalls = z
  .strictObject({
    ...deprecatedRoute,
    calls: count.min(1),
    lastDay: day.describe('The last day with a call (UTC).'),
  })
  .meta({
    id: 'DeprecatedCalls',
    examples: [
      {
        route: '/v1/pets/{petId}',
        methods: ['GET', 'HEAD'],
        since: '2026-01-01T00:00:00.000Z',
        sunset: '2030-12-05T00:00:00.000Z',
        successor: '/v1/pets',
        calls: 12,
        lastDay: '2026-11-21',
      },
    ],
  });
export type DeprecatedRouteCalls = DeepReadonly<z.output<typeof deprecatedRouteCalls>>;

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
  for (const route of routes) {
    const { methods, deprecated } = route;
    if (deprecated === null) continue;
    // One route at a time, so that a long list of routes does not delay callers.
    const called = await deprecatedCalls.ofConsumer(lastDays(nowMs, days), deprecated.countedAs, id);
    if (called === null) continue;
    const { sinceMs, sunsetMs, successor } = deprecated;
    found.push({
      route: routeName(route),
      methods,
      since: timeOf(sinceMs),
      sunset: timeOf(sunsetMs),
      successor,
      ...called,
    });
  }
  return found.sort((a, b) => b.calls - a.calls);
}
