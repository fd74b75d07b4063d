import { isCustomer, pathOf } from '../kit/callers.tsx';
import { usePlansInForce } from '../kit/plans-in-force.ts';
import { useUse } from '../kit/use.tsx';
import { useUsage } from '../limits.tsx';
import { usePlace } from '../place.ts';
import { ifKnown } from '../reading.ts';
import { isPassing, useResource } from '../requests.ts';
import type { ChangePage, DeprecatedRoutes, RefusalsOfCaller } from '../types.ts';

/** How often counts, refusals and what changes slowly are read again, in milliseconds. */
export const COUNTS_MS = 5_000;
const REFUSALS_MS = 15_000;
const REST_MS = 60_000;

/**
 * What is read about a key, a caller with tokens or a customer, and what reads it again. A caller with tokens has no record, and a
 * customer no routes of its own.
 */
export function useCallerRecord<T>(id: string) {
  const path = pathOf(id);
  const record = useResource<T>(id.startsWith('jwt_') ? null : path, COUNTS_MS);
  const isGone = record.error?.status === 404;
  const unlessGone = (ms: number) => (isGone ? null : ms);
  const plans = usePlansInForce();
  const usage = useUsage(id, usePlace().query.get('plan'), unlessGone(COUNTS_MS));
  const use = useUse(id, ifKnown(usage.reading), unlessGone(REST_MS));
  const recent = useResource<RefusalsOfCaller>(
    `/admin/refusals?caller=${encodeURIComponent(id)}`,
    unlessGone(REFUSALS_MS),
  );
  const routes = useResource<DeprecatedRoutes>(isCustomer(id) ? null : `${path}/deprecations`, unlessGone(REST_MS));
  const changes = useResource<ChangePage>(`/admin/audit?key=${encodeURIComponent(id)}&limit=10`, unlessGone(REST_MS));
  // The screen shows an outage once, not in each section.
  const all = [record, usage, use.history, routes, changes];
  const readAll = () => void Promise.all([...all, recent].map(({ reload }) => reload()));
  const outage = all.find(({ error }) => error !== null && isPassing(error))?.error;
  return { record, plans, usage, use, recent, routes, changes, isGone, readAll, outage };
}
