import { z } from 'zod';
import { isShadowId, partsOfAccount } from '../admit/account-id.ts';
import { type Allowance, plainAllowance } from '../admit/allowance.ts';
import { banInForce, decide, nameOfBan } from '../admit/decision.ts';
import type { HistoryStore, RefusedConsumer } from '../admit/history-store.ts';
import type { LedgerView } from '../admit/ledger.ts';
import { verdictOf } from '../admit/verdict.ts';
import type { Decision } from '../engine/types.ts';
import type { CustomerStore, KeyStore } from '../identify/record-store.ts';
import type { Plans } from '../model/plan.ts';
import { UnreadableRecord } from '../model/record.ts';
import { count, limitName } from '../model/values.ts';
import { ownerOf } from './account-owners.ts';
import { allowanceOfOwner, customerOfKey, unreadableRow } from './key-report.ts';
import { unixSeconds } from './operation-values.ts';

/** A key, or a token caller, whose requests are refused at present. Name and owner are null for a token caller. */
export const refusedReport = z
  .strictObject({
    id: z.string(),
    name: z.string().nullable(),
    owner: z.string().nullable(),
    plan: z.string().nullable().describe('Null for a caller with tokens that only a scan has found.'),
    state: z.enum(['refused', 'banned']),
    window: limitName.describe('The window that refuses; of a ban, the one whose refusal made it.'),
    until: unixSeconds,
    ban: count.min(1).nullable().describe('Which ban it is; null if the key is not banned.'),
    customer: customerOfKey.optional(),
    unreadable: unreadableRow,
  })
  .meta({ id: 'Refused' });
export type RefusedReport = Readonly<z.output<typeof refusedReport>>;

export interface RefusedSources {
  readonly history: Pick<HistoryStore, 'refusedNow' | 'addRefusals'>;
  readonly ledger: Pick<LedgerView, 'present' | 'bans'>;
  readonly keys: Pick<KeyStore, 'get'>;
  readonly customers: Pick<CustomerStore, 'get'>;
  readonly plans: Plans;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/** Consumers that are looked up together. */
const READ_AT_ONCE = 50;

/**
 * Yields the consumers of the index in the order of their ids, each with its report; null if it is refused no longer: its
 * limit may have been raised, its ban lifted, its window topped up or reset, its key revoked.
 * @param after only ids behind this one; null for all
 * @param scan looks through all bans of the store as well, and adds to the index those that it lacks. The store reads every
 *   account for that
 * @throws Failure `store_unavailable`
 */
export async function* refusedConsumers(
  sources: RefusedSources,
  { after, scan }: { readonly after: string | null; readonly scan: boolean },
): AsyncGenerator<{ readonly id: string; readonly report: RefusedReport | null }> {
  const index = await sources.history.refusedNow();
  const missing = scan ? await missingBans(index, sources) : [];
  const entries = [...index, ...missing]
    .filter(({ consumerId }) => after === null || consumerId > after)
    .sort((a, b) => (a.consumerId < b.consumerId ? -1 : 1));
  for (let from = 0; from < entries.length; from += READ_AT_ONCE) {
    const some = entries.slice(from, from + READ_AT_ONCE);
    const reports = await Promise.all(some.map((entry) => presentReport(entry, sources)));
    for (const [i, { consumerId }] of some.entries()) yield { id: consumerId, report: reports[i]! };
  }
}

/** The bans in force that the index lacks, which are added to it. */
async function missingBans(
  index: readonly RefusedConsumer[],
  { history, ledger, keys, customers }: RefusedSources,
): Promise<readonly RefusedConsumer[]> {
  const banned = new Set(index.filter(({ kind }) => kind === 'banned').map(({ consumerId }) => consumerId));
  const missing: RefusedConsumer[] = [];
  for (const { consumerId, ban } of await ledger.bans()) {
    // The list of bans names those that cannot be read. When they end is not known.
    if (ban === null || isShadowId(consumerId) || banned.has(consumerId)) continue;
    const owner = await ownerOf(consumerId, { keys, customers });
    const plan = owner instanceof UnreadableRecord ? '' : (owner?.plan ?? '');
    missing.push({ consumerId, plan, kind: 'banned', window: nameOfBan(ban), cost: 1, untilMs: ban.untilMs });
  }
  await history.addRefusals(missing.map((entry) => ({ ...entry, refused: 0, banned: 0 })));
  return missing;
}

async function presentReport(entry: RefusedConsumer, sources: RefusedSources): Promise<RefusedReport | null> {
  const { consumerId: accountId } = entry;
  const owner = await ownerOf(accountId, sources);
  if (owner instanceof UnreadableRecord) return reportWithoutRecord(entry, owner, sources);
  if (owner === null || !owner.isLive(sources.nowMs)) return null;
  const { id, name, owner: whose, customer } = owner;
  const plan = owner.plan ?? entry.plan;
  const allowance = allowanceOfOwner(owner, plan, sources.plans);
  const decision = await sources.ledger.present(accountId, allowance ?? WITHOUT_PLAN);
  if (decision === null) {
    const { message: unreadable } = unreadableCounts(id);
    return { id, name, owner: whose, plan: plan === '' ? null : plan, ...lastRefusal(entry), unreadable, ...customer };
  }
  // Without its plan, only its ban and its last refusal are known.
  const isLastRefusal = allowance === null && entry.kind === 'refused';
  const refusal =
    presentRefusal(decision, allowance ?? WITHOUT_PLAN, entry) ?? (isLastRefusal ? lastRefusal(entry) : null);
  if (refusal === null) return null;
  return { id, name, owner: whose, plan: plan === '' ? null : plan, ...refusal, ...customer };
}

/** Its limits are not known: only its ban and its last refusal are. */
async function reportWithoutRecord(
  entry: RefusedConsumer,
  { message: unreadable }: UnreadableRecord,
  { ledger, nowMs }: RefusedSources,
): Promise<RefusedReport | null> {
  const decision = await ledger.present(entry.consumerId, WITHOUT_PLAN);
  const ban = decision === null ? null : presentRefusal(decision, WITHOUT_PLAN, entry);
  const isRefused = (entry.kind === 'refused' || decision === null) && nowMs < entry.untilMs;
  const refusal = ban ?? (isRefused ? lastRefusal(entry) : null);
  if (refusal === null) return null;
  const { consumerId } = partsOfAccount(entry.consumerId);
  const [id, plan] = [consumerId ?? entry.consumerId, entry.plan === '' ? null : entry.plan];
  return { id, name: null, owner: null, plan, ...refusal, unreadable };
}

/** What was counted of a caller cannot be read: whether it is refused or banned is unknown. @param id as operators name it */
export function unreadableCounts(id: string): UnreadableRecord {
  const message = `What was counted for ${id} cannot be read. \`tollgate usage reset ${id}\` sets that to nothing.`;
  return new UnreadableRecord(id, message);
}

const WITHOUT_PLAN = plainAllowance('');

type Refusal = Pick<RefusedReport, 'state' | 'window' | 'until' | 'ban'>;

function lastRefusal({ kind, window, untilMs }: RefusedConsumer): Refusal {
  return { state: kind, window, until: secondsOf(untilMs), ban: null };
}

/**
 * How the next request like the one that was refused would be; null if it would be admitted.
 * @param last the window that refused it, and what it would have cost in the unit of that window
 */
export function presentRefusal(
  { accounts, nowMs }: Decision,
  allowance: Allowance,
  last: Pick<RefusedConsumer, 'window' | 'cost'>,
): Refusal | null {
  const ban = banInForce(accounts, nowMs);
  if (ban !== null) {
    return { state: 'banned', window: nameOfBan(ban), until: secondsOf(ban.untilMs), ban: ban.number };
  }
  const unbanned = accounts.map((state) => ({ ...state, ban: undefined }));
  const unit = allowance.budgets.find(({ limits }) => limits.some(({ name }) => name === last.window))?.unit;
  const [cost, amounts] = unit === undefined ? [last.cost, undefined] : [1, { [unit]: last.cost }];
  const asked = decide(unbanned, { ...allowance, bans: null }, nowMs, cost, 1, undefined, amounts);
  const verdict = verdictOf(asked, allowance, 0);
  if (verdict.kind !== 'refused') return null;
  const { binding, retryAtMs } = verdict;
  return { state: 'refused', window: binding.name, until: secondsOf(retryAtMs ?? binding.resetAtMs), ban: null };
}

function secondsOf(ms: number): number {
  return Math.ceil(ms / 1000);
}
