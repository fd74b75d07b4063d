import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { Failure } from '../../failure.ts';
import type { Plans } from '../../model/plan.ts';
import type { AuditStore } from '../audit-store.ts';
import { type PlanUserStores, retentionOf } from '../plans-in-use.ts';
import type { Results } from './draft-report.ts';
import type { PlansFile, Replacement } from './plans-file.ts';
import type { Authorship, PlansHistory } from './plans-history-store.ts';

/** The plans that a gateway runs by. */
export interface PlansInForce {
  readonly plans: Plans;
  readonly versions: { readonly plans: string };
  /** Why the files as they are now are not in force; empty if they are. */
  readonly faults: readonly string[];
}

/** A draft without faults, as PlanDrafts returns it. */
type SoundDraft = Pick<NonNullable<Results['sound']['sound']>, 'text' | 'plans' | 'removed'>;

/** How long the store may be asked whether live keys use a plan that goes. */
const COUNT_MS = 30_000;
/** How long the response waits for the reload. It takes a second, and longer if keys are counted again. */
const RELOAD_MS = 15_000;
const LOOK_EVERY_MS = 25;

/**
 * Replaces plans.yaml by a draft, unless a reload would refuse it.
 * @throws Failure `conflict` if live keys or customers use a plan that goes or the file cannot be replaced; `store_unavailable` if the
 *   store cannot be asked. Nothing is written then.
 */
export async function writePlans(
  draft: SoundDraft,
  isExpected: (version: string) => boolean,
  {
    file,
    replaced,
    users,
    monotonicMs,
  }: {
    readonly file: PlansFile;
    /** The plans in whose place the draft comes. */
    readonly replaced: Plans;
    readonly users: PlanUserStores;
    readonly monotonicMs: () => number;
  },
): Promise<Replacement> {
  const { version } = file.read();
  if (!isExpected(version)) return { kind: 'changed', version };
  const untilMs = monotonicMs() + COUNT_MS;
  const isInTime = () => monotonicMs() < untilMs;
  const replacement = { before: replaced, after: draft, file: file.name };
  const retention = await retentionOf(replacement, async () => users, isInTime);
  await nextTurn();
  if (!isInTime() || retention?.isUnknown === true) {
    throw new Failure('store_unavailable', 'The store cannot be asked whether live keys use the plans that go.');
  }
  if (retention !== null) throw new Failure('conflict', retention.faults.join('\n'));
  return file.replace(draft.text, isExpected);
}

/**
 * Tells the gateways, through the store, that a version of plans.yaml was written, by whom and why. When they take the version they find it recorded and
 * add no record of their own. If the store is away, they cannot know the author, and record the file instead. Never rejects.
 */
export async function announceWritten(
  version: string,
  authorship: Authorship,
  { audit, plansHistory }: { readonly audit: AuditStore; readonly plansHistory: PlansHistory },
): Promise<void> {
  try {
    const { number } = await audit.exchangeLoad('plans', { from: null, to: version, since: null });
    await plansHistory.claim(number, authorship);
  } catch {
    // The change itself was made.
  }
}

/** Waits until a version of plans.yaml is in force in this gateway. @returns false if it is not after 15 s */
export async function untilInForce(
  version: string,
  inForce: PlansInForce,
  monotonicMs: () => number,
): Promise<boolean> {
  const untilMs = monotonicMs() + RELOAD_MS;
  const before = inForce.faults.join('\n');
  while (inForce.versions.plans !== version) {
    // A new refusal is that of the version that was written. An old one may be of gateway.yaml, and stays the same.
    const isRefused = inForce.faults.length > 0 && inForce.faults.join('\n') !== before;
    if (isRefused || monotonicMs() >= untilMs) return false;
    await delay(LOOK_EVERY_MS);
  }
  return true;
}
