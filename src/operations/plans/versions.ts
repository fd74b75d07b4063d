import { parsePlans } from '../../config/plans-schema.ts';
import { Failure } from '../../failure.ts';
import type { Plans } from '../../model/plan.ts';
import { byReadability, type UnreadableRecord } from '../../model/record.ts';
import type { Actor } from '../audit-trail.ts';
import { timeOf } from '../key-report.ts';
import { visible } from '../operation-values.ts';
import type { KeptVersion, PlansHistory } from './plans-history-store.ts';
import { patchOf } from './plans-patch.ts';

// What operators see of the versions of plans.yaml that came into force.

/** How long the shortest difference is searched for by the thread that serves, milliseconds. */
const SEARCH_MS = 50;
/** The name that a difference gives the file, wherever the gateways have it. */
const NAME = 'plans.yaml';

/** A version as commands and the admin API show it. */
export function versionReport({ number, version, sinceMs, by, reason, changes }: KeptVersion) {
  return { number, version, since: timeOf(sinceMs), from: by === null ? 'file' : FROM[by.kind], by, reason, changes };
}

const FROM = { file: 'file', token: 'api', person: 'api', shell: 'command' } as const satisfies Record<
  Actor['kind'],
  string
>;

/** The versions, newest first, and the text of each. */
export interface ReadHistory {
  readonly versions: readonly KeptVersion[];
  readonly unreadable: readonly UnreadableRecord[];
  readonly textOf: (version: KeptVersion) => Promise<string>;
}

/** @throws Failure `not_found` if no version is kept; as the store does */
export async function readHistory(history: PlansHistory): Promise<ReadHistory> {
  const { readable: versions, unreadable } = byReadability(await history.list());
  if (versions.length + unreadable.length === 0)
    throw new Failure('not_found', 'No version of plans.yaml is recorded yet.');
  return {
    versions,
    unreadable,
    textOf: async ({ number, version }) => {
      const text = await history.text(number);
      if (text === null) throw new Failure('not_found', `The text of version ${version} is not kept any more.`);
      return text;
    },
  };
}

/**
 * Finds the latest entry of the version that begins with `word`.
 * @throws Failure `refused` if the word is no beginning of a version, or of several; `not_found`; `store_corrupt` if it may be one that
 * cannot be read
 */
export function versionNamed(word: string, { versions, unreadable }: Omit<ReadHistory, 'textOf'>): KeptVersion {
  if (!/^[0-9a-f]{4,12}$/.test(word)) {
    throw new Failure('refused', 'A version is named by its first 4 to 12 characters, which are 0-9 and a-f.');
  }
  const found = versions.filter(({ version }) => version.startsWith(word));
  const names = [...new Set(found.map(({ version }) => version))];
  if (names.length > 1) throw new Failure('refused', `${word} is ambiguous: it begins ${names.join(' and ')}.`);
  if (found[0] !== undefined) return found[0];
  const missing = `No version that begins with ${word} is kept.`;
  const [one] = unreadable;
  if (one !== undefined) throw new Failure('store_corrupt', `${missing} ${one.message}`);
  throw new Failure('not_found', missing);
}

/** The version that came into force last. @throws Failure `store_corrupt` if that may be one that cannot be read */
function latestVersion({ versions, unreadable }: Omit<ReadHistory, 'textOf'>): KeptVersion {
  const [[latest], [hidden]] = [versions, unreadable];
  if (latest === undefined || (hidden !== undefined && Number(hidden.id) > latest.number)) throw hidden;
  return latest;
}

/** The version that was in force before an entry; null if none is kept. */
function versionBefore(entry: KeptVersion, versions: readonly KeptVersion[]): KeptVersion | null {
  return versions.find(({ number }) => number < entry.number) ?? null;
}

/** The plans that came into force last. @throws Failure `conflict` if this version of Tollgate cannot read them; as `readHistory` */
export async function latestPlans(history: PlansHistory): Promise<Plans> {
  const read = await readHistory(history);
  const latest = latestVersion(read);
  const parsed = parsePlans(await read.textOf(latest), NAME);
  if ('value' in parsed) return parsed.value;
  const why = `The plans in force, version ${latest.version}, cannot be read by this version of Tollgate.`;
  throw new Failure('conflict', why);
}

/**
 * One version with its text, and the difference that leads to it from another one.
 * @param against names the other one; null: the one before it
 */
export async function shownVersion(history: ReadHistory, word: string, against: string | null) {
  const { versions, textOf } = history;
  const entry = versionNamed(word, history);
  const other = against === null ? versionBefore(entry, versions) : versionNamed(against, history);
  const text = await textOf(entry);
  const patch = other === null ? '' : patchBetween(await textOf(other), text);
  return { ...versionReport(entry), text, against: other?.version ?? null, patch };
}

/**
 * The plans that a later version of plans.yaml lacks, which came into force on another gateway, of those that are in force here. A
 * version that the history does not have yet is taken for the latest, and so is each if the store cannot be asked.
 *
 * Fault: a gateway that did not follow its files made keys and customers of a plan that the others had removed, and they got 500 there.
 */
export async function goneElsewhere(
  { plans }: Pick<Plans, 'plans'>,
  history: PlansHistory,
  inForce: string,
): Promise<ReadonlySet<string>> {
  try {
    const { readable: versions } = byReadability(await history.list());
    const [latest] = versions;
    const isOlder = latest?.version !== inForce && versions.some(({ version }) => version === inForce);
    const text = isOlder ? await history.text(latest!.number) : null;
    const parsed = text === null ? null : parsePlans(text, NAME);
    if (parsed === null || !('value' in parsed)) return new Set();
    return new Set([...plans.keys()].filter((plan) => !parsed.value.plans.has(plan)));
  } catch (error) {
    if (error instanceof Failure) return new Set();
    throw error;
  }
}

/** @param gone as `goneElsewhere` returns them @throws Failure `conflict` */
export function insistOnPlan(plan: string, gone: ReadonlySet<string>): void {
  if (gone.has(plan)) throw new Failure('conflict', `${goneElsewhereText(plan)}.`);
}

/** What is said of such a plan. */
export function goneElsewhereText(plan: string): string {
  return `On other gateways, a plans.yaml without the plan ${visible(plan)} came into force after the one here (\`tollgate plans history\`)`;
}

/** The difference between two texts of plans.yaml as a unified diff. */
export function patchBetween(before: string, after: string): string {
  return patchOf(NAME, before, after, SEARCH_MS);
}
