import { z } from 'zod';
import type { HistoryStore, RefusedConsumer } from '../../admit/history-store.ts';
import { type ReportedWindow, usageReport } from '../../admit/usage-report.ts';
import { byReadability, type Listed, UnreadableRecord } from '../../model/record.ts';
import type { NearCandidate } from '../../model/refusal.ts';
import { count, type LimitName, limitName, type WindowName } from '../../model/values.ts';
import { ownerOf } from '../account-owners.ts';
import { allowanceOfOwner, customerOfKey } from '../key-report.ts';
import { unixSeconds } from '../operation-values.ts';
import { presentRefusal, type RefusedSources, unreadableCounts } from '../refused-now.ts';

/** A key, or a token caller, that has used a share of a window, or has less left than its last request cost. */
export const nearLimit = z
  .strictObject({
    id: z.string(),
    name: z.string().nullable(),
    owner: z.string().nullable(),
    plan: z.string(),
    window: limitName,
    limit: count.min(1),
    used: count,
    remaining: count,
    resetAt: unixSeconds,
    customer: customerOfKey.optional(),
  })
  .meta({ id: 'Near' });
export type NearReport = Readonly<z.output<typeof nearLimit>>;

interface NearSources extends Pick<RefusedSources, 'keys' | 'customers' | 'plans' | 'nowMs' | 'ledger'> {
  readonly history: Pick<HistoryStore, 'refusedNow'>;
}

interface NearAsked {
  /** How much of a window is used from which on, in percent. */
  readonly share: number;
  /** Only this window, of whatever is counted in it; null for any. */
  readonly window: WindowName | null;
}

/** How much of a window a caller near a limit has used unless another share is asked for, in percent. */
export const NEAR_SHARE = 90;
const READ_AT_ONCE = 50;
/** Candidates that are looked up at most, however few of them are still near. */
const MAX_LOOKED_AT = 400;

/**
 * Asks the store which candidates are still near a limit. Those that are refused are not: GET /admin/now lists them.
 * @param candidates those with the smallest share left first
 * @throws Failure `store_unavailable`
 */
export async function nearLimits(
  sources: NearSources,
  candidates: readonly NearCandidate[],
  wanted: NearAsked & { readonly most: number },
): Promise<{ readonly keys: readonly NearReport[]; readonly unreadable: readonly UnreadableRecord[] }> {
  const { share, most } = wanted;
  // A request that cost more than one may have left less than the next one costs, whatever the share.
  const possible = candidates.filter(({ share: left, cost }) => left * 100 <= 100 - share || cost > 1);
  if (possible.length === 0) return { keys: [], unreadable: [] };
  const refused = new Map((await sources.history.refusedNow()).map((entry) => [entry.consumerId, entry]));
  // Most of those with a refusal are refused still, and many of them must not crowd out the others.
  const byRefusal = possible.toSorted((a, b) => Number(refused.has(a.id)) - Number(refused.has(b.id)));
  const asked = byRefusal.slice(0, MAX_LOOKED_AT);
  const near: NearReport[] = [];
  // Fault: a customer that cannot be read was listed for each of its callers, and filled the page in place of callers near a limit.
  const unreadable = new Map<string, UnreadableRecord>();
  for (let from = 0; from < asked.length && near.length < most; from += READ_AT_ONCE) {
    const some = asked.slice(from, from + READ_AT_ONCE);
    const reports = await Promise.all(some.map((one) => nearReport(one, refused.get(one.id), wanted, sources)));
    const found = byReadability(reports.flat());
    near.push(...found.readable);
    for (const record of found.unreadable) unreadable.set(record.id, record);
  }
  const keys = near.sort((a, b) => a.remaining / a.limit - b.remaining / b.limit).slice(0, most);
  return { keys, unreadable: [...unreadable.values()] };
}

/** @param entry its last refusal; undefined if the index has none. By now another window may be the one that it is near to. */
async function nearReport(
  { id: accountId, plan: named, cost }: NearCandidate,
  entry: RefusedConsumer | undefined,
  { share, window: only }: NearAsked,
  sources: NearSources,
): Promise<Listed<NearReport>[]> {
  const caller = await ownerOf(accountId, sources);
  if (caller instanceof UnreadableRecord) return [caller];
  if (caller === null || !caller.isLive(sources.nowMs)) return [];
  const { id, name, owner, customer } = caller;
  const plan = caller.plan ?? named;
  const allowance = allowanceOfOwner(caller, plan, sources.plans);
  const decision = allowance === null ? null : await sources.ledger.present(accountId, allowance);
  if (decision === null) return allowance === null ? [] : [unreadableCounts(id)];
  if (entry !== undefined && presentRefusal(decision, allowance!, entry) !== null) return [];
  const { windows, ban } = usageReport(id, allowance!, decision, null);
  if (ban !== null) return [];
  let nearest: NearReport | null = null;
  for (const [window, { limit, used, remaining, resetAt, unit }] of Object.entries(windows) as [
    LimitName,
    ReportedWindow,
  ][]) {
    if (only !== null && window !== only && !window.endsWith(`-${only}`)) continue;
    if (limit === 'unlimited' || remaining === 'unlimited' || limit === 0) continue;
    // What its next request takes of a unit in advance is not known.
    if (used * 100 < limit * share && remaining >= (unit === undefined ? cost : 1)) continue;
    if (nearest !== null && nearest.remaining / nearest.limit <= remaining / limit) continue;
    nearest = { id, name, owner, plan, window, limit, used, remaining, resetAt, ...customer };
  }
  return nearest === null ? [] : [nearest];
}
