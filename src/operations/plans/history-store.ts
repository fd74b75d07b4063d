import { z } from 'zod';
import type { Actor } from '../audit-trail.ts';

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

const author = z.union([
  z.object({ kind: z.enum(['token', 'person', 'file']), name: z.string() }),
  z.object({ kind: z.literal('shell'), user: z.string(), host: z.string() }),
]);

/** Reads an author as a store has kept it. Fault: one that was damaged made the whole list fail. */
export function authorFrom(text: string): Actor | null {
  try {
    return author.safeParse(JSON.parse(text)).data ?? null;
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
  /** Lists all entries, newest first. */
  list(): Promise<readonly KeptVersion[]>;
  /** The text of an entry; null if it is not kept any more. */
  text(number: number): Promise<string | null>;
}
