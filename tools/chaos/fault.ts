import type { Chance } from '../kit/chance.ts';
import type { Stand } from './stand/stand.ts';

/** What a fault may do, and for how long. What is not said here must be as if nothing had happened. */
export interface Allowed {
  /** Gateways lose their store: they decide alone, and keys that they have not seen get 503. */
  readonly alone?: boolean;
  /** The store forgets: keys until they are put back, counters and bans for good. */
  readonly forgets?: boolean;
  /** Some requests get no answer. */
  readonly lost?: boolean;
  /** How many processes are killed that may hold a lease: it stays counted. */
  readonly killed?: number;
  /**
   * Writes that were acknowledged may be lost with the primary (asynchronous replication): counted too little, at most
   * by this many requests of a key.
   */
  readonly lag?: number;
  /** From the end of the fault until everything is as before. */
  readonly normalWithinMs: number;
}

/** One thing that goes wrong, and how it ends. */
export interface Fault {
  readonly name: string;
  /** One sentence for the report: what is done. */
  readonly about: string;
  readonly allowed: Allowed;
  /** How long it lasts between `strike` and `heal`. */
  readonly holdMs: number;
  strike(stand: Stand, chance: Chance): Promise<void>;
  /** Ends it. Left out where it ends by itself. */
  heal?(stand: Stand, chance: Chance): Promise<void>;
}
