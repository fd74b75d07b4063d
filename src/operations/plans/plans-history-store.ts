import { type Listed, UnreadableRecord } from '../../model/record.ts';
import { LAST_MS } from '../../model/values.ts';
import { type Actor, isActor } from '../audit-trail.ts';

/** A version of plans.yaml that came into force, without its text. */
export interface PlansVersion {
  /** Rises in the order in which versions came into force. It is that of the step that `exchangeLoad` has recorded. */
  readonly number: number;
  readonly version: string;
  /** When it came into force, Unix milliseconds by the clock of the gateway that was the first to have it. */
  readonly sinceMs: number;
  readonly by: Actor;
}

/** A version as a store has kept it. `by` is null if what the store has in its place cannot be read. */
export type KeptVersion = Omit<PlansVersion, 'by'> & { readonly by: Actor | null };

/** Reads a version as a store has kept it. Fault: one that was damaged was left out, or made the whole list fail. */
export function keptVersion(
  { number, version, sinceMs }: Omit<PlansVersion, 'by'>,
  author: string,
  place: string,
): Listed<KeptVersion> {
  if (version !== '' && Math.abs(sinceMs) <= LAST_MS) return { number, version, sinceMs, by: authorFrom(author) };
  const message = `Version ${number} in the history of plans cannot be read. It is ${place}: put it right there, or remove it.`;
  return new UnreadableRecord(String(number), message);
}

function authorFrom(text: string): Actor | null {
  try {
    const author: unknown = JSON.parse(text);
    return isActor(author) ? author : null;
  } catch {
    return null;
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
   * Records who wrote the version with this number. The call may come before or after a gateway adds the version. The author of a version that
   * nobody claims is the `by` that `add` was given. The store remembers the last claim only.
   */
  claim(number: number, by: Actor): Promise<void>;
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
