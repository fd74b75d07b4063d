import { useMemo } from 'preact/hooks';
import { millisecondsOf } from '../kit/format.tsx';
import { spentIn } from '../kit/limit-windows.tsx';
import { type Reading, UNKNOWN } from '../reading.ts';
import { useResource } from '../requests.ts';
import type { CustomerStanding, Key, KeyOrCustomer, RefusedPage, Standings, Usage } from '../types.ts';

// The states of keys and customers. What is shown of them is in caller-facts.ts.

export function isSuspended({ suspended }: KeyOrCustomer): boolean {
  return suspended !== undefined && (suspended.until === null || millisecondsOf(suspended.until) > Date.now());
}

export function stateOf(record: KeyOrCustomer): 'active' | 'suspended' | 'revoked' | 'expired' {
  const { expiresAt } = record;
  if ('revokedAt' in record && record.revokedAt !== null) return 'revoked';
  if (expiresAt !== null && millisecondsOf(expiresAt) <= Date.now()) return 'expired';
  return isSuspended(record) ? 'suspended' : 'active';
}

/** What its limits do with the requests of a caller now. `spent`: a window has nothing left, so that some are refused. */
export type Standing =
  | { readonly kind: 'served' | 'spent' | 'refused' }
  | { readonly kind: 'banned'; readonly until: number };

export function standingOf({ ban, windows }: Usage): Standing {
  if (ban !== null) return { kind: 'banned', until: ban.until };
  return { kind: spentIn(windows).length > 0 ? 'spent' : 'served' };
}

/** The standings of customers, by their ids. Those of which too many are asked for stay unknown. */
export function useCustomerStandings(
  ids: readonly string[],
  everyMs = STANDINGS_MS,
): (id: string) => Reading<CustomerStanding> {
  const asked = ids.slice(0, MAX_STANDINGS).join();
  const { reading } = useResource<Standings>(asked === '' ? null : `/admin/standings?customers=${asked}`, everyMs);
  return (id) => {
    if (reading.state !== 'known') return reading;
    const found = reading.value.standings.find((one) => one.id === id);
    return found === undefined ? UNKNOWN : { ...reading, value: found };
  };
}

/** How many customers the gateway shows the standings of at once. */
const MAX_STANDINGS = 500;

/** The standings of callers in a list, in one request: of those that the page has not reached it is unknown. */
export function useStandings(): (id: string) => Reading<Standing> {
  const { reading } = useResource<RefusedPage>('/admin/now?limit=1000', STANDINGS_MS);
  const found = useMemo(
    () => (reading.state !== 'known' ? null : new Map(reading.value.consumers.map((one) => [one.id, one]))),
    [reading],
  );
  return (id) => {
    if (reading.state !== 'known') return reading;
    const { cursor } = reading.value;
    if (cursor !== null && id > cursor) return UNKNOWN;
    const refused = found?.get(id);
    const standing: Standing =
      refused === undefined
        ? { kind: 'served' }
        : refused.state === 'banned'
          ? { kind: 'banned', until: refused.until }
          : { kind: 'refused' };
    return { ...reading, value: standing };
  };
}

/** How often the standings of a list are read again, in milliseconds. */
const STANDINGS_MS = 10_000;

/** Whether a key is revoked or expired. */
export function hasEnded(key: Key): boolean {
  const state = stateOf(key);
  return state === 'revoked' || state === 'expired';
}

/** Why a key admits no request, whatever its limits are; null if it may. */
export function refusalOf(key: Key): string | null {
  const state = stateOf(key);
  if (state !== 'active') return `the key is ${state}`;
  const ofCustomer = key.customer?.state ?? 'active';
  return ofCustomer === 'active' ? null : `its customer is ${ofCustomer}`;
}
