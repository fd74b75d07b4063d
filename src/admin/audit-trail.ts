import { Failure } from '../failure.ts';
import type { AuditStore } from '../identify/audit-store.ts';
import { isTokenHolder } from '../identify/jwt-claims.ts';
import type { Action, AuditLine } from './audit.ts';
import { isKeyId } from './operations.ts';

/** Who made a change: a token of the admin API, or a user of a shell that ran a command. */
export type Actor =
  | { readonly kind: 'token'; readonly name: string }
  | { readonly kind: 'shell'; readonly user: string; readonly host: string };

/** Where a change comes from. */
export interface Origin {
  readonly actor: Actor;
  /** Null for commands, as the address is. */
  readonly requestId: string | null;
  readonly clientAddress: string | null;
}

/** What is recorded beside the changes of the admin API, whose log lines have the others. */
export type RecordedAction = Action | 'key.import';

/** What became of a change. `unchanged`: what was asked for was so already. The others are those of the log lines. */
export interface ChangeResult {
  readonly outcome: AuditLine['outcome'] | 'unchanged';
  /** The code of the error; null where there was none. */
  readonly code: string | null;
  /** The id of the key, or of the caller that was banned; null where none was named or made. */
  readonly target: string | null;
  /** Without secrets and digests; null where there was nothing, or nothing is known. */
  readonly before: object | null;
  readonly after: object | null;
}

/** A change as it is recorded, JSON in the store. */
export interface RecordedChange extends ChangeResult, Origin {
  readonly action: RecordedAction;
}

export interface AuditTrailOptions {
  readonly store: AuditStore;
  /** Those in force (`audit` in gateway.yaml). */
  readonly settings: () => { readonly required: boolean; readonly keep: number };
  readonly newId: () => string;
  /** Called for each change whose record is missing, or does not say what became of it. */
  readonly onFailure: (error: unknown, change: RecordedChange) => void;
}

/**
 * The record of the changes that operators make. Each is written before the change is made, its outcome still `unknown`, and
 * written again with what became of it before the operator is answered. So a process that is killed in between leaves a
 * record that says so.
 */
export class AuditTrail {
  readonly #options: AuditTrailOptions;

  constructor(options: AuditTrailOptions) {
    this.#options = options;
  }

  /**
   * Records that a change is about to be made.
   * @param target what it names; a text that is no id, such as a secret that was taken for one, is left out
   * @throws Failure `audit_unavailable` where that fails and `audit.required` is set: then the change must not be made
   */
  async begin(origin: Origin, action: RecordedAction, target: string | null): Promise<AuditEntry> {
    const known = target !== null && (isKeyId(target) || isTokenHolder(target)) ? target : null;
    const entry = new AuditEntry(this.#options, {
      action,
      outcome: 'unknown',
      code: null,
      target: known,
      ...origin,
      before: null,
      after: null,
    });
    try {
      await entry.write();
    } catch (error) {
      if (this.#options.settings().required) {
        throw new Failure(
          'audit_unavailable',
          'The change was not made, because it could not be recorded and `audit.required` is set. See to the store, then try again.',
          error,
        );
      }
      // Tried once more, and told, when the change has ended.
    }
    return entry;
  }
}

/** Only these are worth waiting for: what was not made, or may be undone itself, has no more to lose. */
const MADE: readonly string[] = ['done', 'repeated'];

/** The record of one change. */
export class AuditEntry {
  readonly #options: AuditTrailOptions;
  readonly #id: string;
  /** The id that the operator named; null where that was none. */
  readonly #named: string | null;
  #change: RecordedChange;
  #number: number | null = null;
  #revision = 0;
  #hasEnded = false;

  constructor(options: AuditTrailOptions, change: RecordedChange) {
    this.#options = options;
    this.#id = options.newId();
    this.#named = change.target;
    this.#change = change;
  }

  /** Notes what became of the change. What is noted after `end` (how an outcome that was unknown was settled) is written at once. */
  note(result: ChangeResult): void {
    // An error repeats what the operator wrote, which may be a secret.
    const target = result.code === null ? result.target : this.#named;
    this.#change = { ...this.#change, ...result, target };
    if (this.#hasEnded) void this.end();
  }

  /** Writes what was noted. Never rejects: the change has been made, and cannot be refused any more. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    await this.write().catch((error) => this.#options.onFailure(error, this.#change));
  }

  async write(): Promise<void> {
    const { store, settings } = this.#options;
    this.#number = await store.put(
      { id: this.#id, revision: ++this.#revision, text: JSON.stringify(this.#change) },
      { number: this.#number, keep: settings().keep, isLasting: MADE.includes(this.#change.outcome) },
    );
  }
}
