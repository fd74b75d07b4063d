import { type Listed, UnreadableRecord } from '../../model/record.ts';
import { LAST_MS } from '../../model/values.ts';
import { type Actor, isActor } from '../audit-trail.ts';

/** Who wrote a version, why, and what it changed. */
export interface Authorship {
  readonly by: Actor;
  /** Null if the author gave none. */
  readonly reason: string | null;
  /** In words, of the plans in whose place it came: `pro minute 300 → 500`. Null if that is not known. */
  readonly changes: readonly string[] | null;
}

/** A version of plans.yaml that came into force, without its text. */
export interface PlansVersion extends Authorship {
  /** Rises in the order in which versions came into force. It is that of the step that `exchangeLoad` has recorded. */
  readonly number: number;
  readonly version: string;
  /** When it came into force, Unix milliseconds by the clock of the gateway that was the first to have it. */
  readonly sinceMs: number;
}

/** A version as a store has kept it. `by` is null if what the store has in its place cannot be read. */
export type KeptVersion = Omit<PlansVersion, 'by'> & { readonly by: Actor | null };

/** An authorship as stores keep it: the actor, as earlier versions kept it alone, with the rest beside its members. */
export function authorshipText({ by, reason, changes }: Authorship): string {
  return JSON.stringify({ ...by, reason: reason ?? undefined, changes: changes ?? undefined });
}

/** Reads a version as a store has kept it. Fault: one that was damaged was left out, or made the whole list fail. */
export function keptVersion(
  { number, version, sinceMs }: Omit<PlansVersion, keyof Authorship>,
  author: string,
  place: string,
): Listed<KeptVersion> {
  if (version !== '' && Math.abs(sinceMs) <= LAST_MS) return { number, version, sinceMs, ...authorshipFrom(author) };
  const message = `Version ${number} in the history of plans cannot be read. It is ${place}: put it right there, or remove it.`;
  return new UnreadableRecord(String(number), message);
}

function authorshipFrom(text: string): Pick<KeptVersion, keyof Authorship> {
  try {
    const { reason, changes, ...author } = JSON.parse(text) as Record<string, unknown>;
    return {
      by: isActor(author) ? author : null,
      reason: typeof reason === 'string' ? reason : null,
      changes: Array.isArray(changes) ? changes.map(String) : null,
    };
  } catch {
    return { by: null, reason: null, changes: null };
  }
}

/** Entries that are kept. Beyond that the oldest goes. */
export const KEPT_VERSIONS = 100;
/** Bytes of the texts that are kept together. Beyond that the oldest entries go, but never the newest. */
export const KEPT_TEXT_BYTES = 16 * 1024 * 1024;

/**
 * The versions of plans.yaml that came into force, in the same store as the keys, for all gateways. stores/embedded and stores/redis
 * implement it; test/contracts/plans-history.ts tests both.
 * All methods reject with Failure `store_unavailable` if the store does not answer.
 */
export interface PlansHistory {
  /**
   * Records who wrote the version with this number. The call may come before or after a gateway adds the version. The authorship of a version
   * that nobody claims is what `add` was given. The store remembers the last claim only.
   */
  claim(number: number, of: Authorship): Promise<void>;
  /**
   * Adds a version. Nothing is added if there is an entry with this number, if the entry before it has the same version, or if it is
   * older than all of the entries that are kept.
   */
  add(version: PlansVersion, text: string): Promise<void>;
  /** Lists all entries, newest first. The id of one that cannot be read is its number. */
  list(): Promise<readonly Listed<KeptVersion>[]>;
  /** The text of an entry; null if it is not kept any more. */
  text(number: number): Promise<string | null>;
}
