import { hash } from 'node:crypto';
import { z } from 'zod';
import { Failure } from '../failure.ts';
import { isTokenHolder } from '../identify/api-key.ts';
import { type Recorded, recordedAttributes } from '../model/attributes.ts';
import { isCustomerId, isKeyId, type StoredKey, type StoredRecord } from '../model/record.ts';
import type { AuditStore } from './audit-store.ts';
import { entryText, timeOf } from './key-report.ts';
import { suspendedMember, type suspensionReport } from './suspensions.ts';

/**
 * The actor of a change: a token of the admin API (also through a session that it began), a person whom an authenticating
 * proxy or the OpenID provider names, the user of a shell who ran a command, or a file that a gateway read, because Tollgate does not know its author. A person may
 * have the name of a token, so the kinds differ.
 */
export type Actor =
  | { readonly kind: 'token' | 'person' | 'file'; readonly name: string }
  | { readonly kind: 'shell'; readonly user: string; readonly host: string };

const actor = z.union([
  z.object({ kind: z.enum(['token', 'person', 'file']), name: z.string() }),
  z.object({ kind: z.literal('shell'), user: z.string(), host: z.string() }),
]);

/** Whether a store has kept an actor here. Fault: one that was damaged made a whole list fail. */
export function isActor(kept: unknown): kept is Actor {
  return actor.safeParse(kept).success;
}

/** An actor, as operators see it. */
export const shownActor = z
  .union([
    z.strictObject({
      kind: z
        .enum(['token', 'person', 'file'])
        .describe(
          'A person is one whom an authenticating proxy or the OpenID provider has signed in. A file is one that gateways have read.',
        ),
      name: z
        .string()
        .describe(
          'ADMIN_TOKEN for the token of that variable. The sessions of a token have its name. Of a file its name without the folder.',
        ),
    }),
    z.strictObject({ kind: z.literal('shell'), user: z.string(), host: z.string() }),
  ])
  .meta({ id: 'Actor' });

/** The actor who asked for a change, and the request. */
export interface ChangeOrigin {
  readonly actor: Actor;
  /** Null for commands and files, like `clientAddress`. */
  readonly requestId: string | null;
  readonly clientAddress: string | null;
}

/** An action of the record of changes, `noun.verb`. Each operation that changes something names its own. */
export type Action = `${string}.${string}`;

/**
 * The actions that no operation has: files that gateways took or refused
 * (load-record.ts), and `admin.access`: a refused request with a method that changes something, which names no operation.
 */
export const FURTHER_ACTIONS: readonly Action[] = ['plans.load', 'settings.load', 'admin.access'];

/** Names of actions in records that earlier versions wrote. */
export const FORMER_ACTIONS: Readonly<Record<string, Action>> = { 'keys.topup': 'key.topup' };

/** The outcome of a change. */
export interface ChangeResult {
  /**
   * - `done`: the change was made.
   * - `unchanged`: the key or ban already was as requested.
   * - `repeated`: a creation was repeated, and the admin API returned the first answer again, with the secret.
   * - `refused`: nothing was changed.
   * - `unknown` with a `code`: a failure interrupted the change, which may have been made.
   * - `unknown` without a `code`: the change was made, but a failover of the store may undo it. A second line in the log follows
   *   once the store can say: `done`, `lost`, or `unknown` for good.
   * - `lost`: a failover undid the change, and the key has been changed differently since.
   */
  readonly outcome: 'done' | 'unchanged' | 'repeated' | 'refused' | 'unknown' | 'lost';
  /** The code of the error; null if there was none. */
  readonly code: string | null;
  /** The id of the key, the customer, or the consumer that was banned; null if the change named and made none. */
  readonly target: string | null;
  /** The state before the change, without secrets and digests; null if there was none or it is unknown. */
  readonly before: object | null;
  /** The state after the change, likewise. */
  readonly after: object | null;
}

/** One entry of the record of changes, or the last of the refused attempts that one entry counts. The store keeps it as JSON. */
export interface RecordedChange extends ChangeResult, ChangeOrigin {
  readonly action: Action;
}

interface AuditTrailOptions {
  readonly store: AuditStore;
  /** Returns the `audit` settings of gateway.yaml that are in force. */
  readonly settings: () => { readonly required: boolean; readonly keep: number };
  readonly newId: () => string;
  /** Called for each change whose record is missing or lacks the outcome. */
  readonly onFailure: (error: unknown, change: RecordedChange) => void;
}

/**
 * Writes the record of changes. The gateway writes an entry with the outcome `unknown` before it makes a change, and writes
 * it again with the outcome before it answers the operator. If the process is killed in between, the entry with `unknown`
 * remains. An attempt that was refused is removed from there and counted instead (`AuditStore.refuse`).
 */
export class AuditTrail {
  readonly #options: AuditTrailOptions;

  constructor(options: AuditTrailOptions) {
    this.#options = options;
  }

  /**
   * The entry of a change that is about to be made. Nothing is written yet.
   * @param target as for `attemptOf`
   */
  entry(origin: ChangeOrigin, action: Action, target: string | null): AuditEntry {
    return new AuditEntry(this.#options, attemptOf(origin, action, target));
  }

  /** Records an attempt that was refused before anything was asked of the store. Never rejects. */
  async refuse(refused: RecordedChange): Promise<void> {
    await new AuditEntry(this.#options, refused).end();
  }
}

/**
 * A change that an operator requests, before its outcome is known.
 * @param target the id that the operator gave. Text that is not an id is left out: it may be a secret given by mistake.
 */
export function attemptOf(origin: ChangeOrigin, action: Action, target: string | null): RecordedChange {
  const isId = target !== null && (isKeyId(target) || isTokenHolder(target) || isCustomerId(target));
  const known = isId ? target : null;
  return { action, outcome: 'unknown', code: null, target: known, before: null, after: null, ...origin };
}

/** Outcomes whose record must be durable. A change that was not made, or may be undone, needs no durable record. */
const LASTING_OUTCOMES: readonly string[] = ['done', 'repeated'];

/** The entry of one change. */
export class AuditEntry {
  readonly #options: AuditTrailOptions;
  readonly #id: string;
  /** The id that the operator gave; null if the text was not an id. */
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

  /** Sets the outcome. After `end` it is written at once: the store may say later what became of an unknown outcome. */
  note(result: ChangeResult): void {
    // The target of an error is the operator's own text, which may be a secret.
    const target = result.code === null ? result.target : this.#named;
    this.#change = { ...this.#change, ...result, target };
    if (this.#hasEnded) void this.end();
  }

  /** Writes the outcome. Never rejects, because the change has been made and can no longer be refused. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    const written =
      this.#change.outcome === 'refused' ? this.#countRefusal() : this.#write(this.#options.settings().keep);
    await written.catch((error) => this.#options.onFailure(error, this.#change));
  }

  /** The change as it is known now. */
  get change(): RecordedChange {
    return this.#change;
  }

  /**
   * Writes that the change is about to be made.
   * @throws Failure `audit_unavailable` if the write fails and `audit.required` is set; the change must then not be made
   */
  async begin(): Promise<void> {
    try {
      await this.#write(null);
    } catch (error) {
      if (this.#options.settings().required) {
        throw new Failure(
          'audit_unavailable',
          'The change was not made, because it could not be recorded and `audit.required` is set. See to the store, then try again.',
          error,
        );
      }
      // `end` writes the entry again, and reports a second failure.
    }
  }

  async #write(keep: number | null): Promise<void> {
    this.#number = await this.#options.store.put(
      { id: this.#id, revision: ++this.#revision, text: JSON.stringify(this.#change) },
      { number: this.#number, keep, isLasting: LASTING_OUTCOMES.includes(this.#change.outcome) },
    );
  }

  async #countRefusal(): Promise<void> {
    const { store } = this.#options;
    const { actor, action } = this.#change;
    const digest = hash('sha256', JSON.stringify(actor), 'base64url').slice(0, 22);
    await store.refuse({ id: this.#id, actor: digest, action, text: JSON.stringify(this.#change) });
    if (this.#revision > 0) await store.remove(this.#id, this.#number);
  }
}

/**
 * The log line of a change that an operator made or tried, or of a wrong admin token. The log adds the time. A line never
 * holds a secret.
 */
export interface AuditLine {
  readonly action: Action | 'key.find';
  readonly outcome: ChangeResult['outcome'];
  /** The error code of the response; null if it was not an error. */
  readonly code: string | null;
  /** `stranger`: a client that is not identified. */
  readonly who: 'admin' | 'stranger';
  /** The name of the token, or of the person whom an authenticating proxy or the OpenID provider names; null for a stranger. */
  readonly actor: string | null;
  readonly clientAddress: string | null;
  readonly requestId: string | null;
  /** The id of the key, the customer, or the consumer that was banned; null if the change named and made none. */
  readonly id: string | null;
  /** A `KeyState`; of a top-up the limit of the window; of a reset what was used, and the strikes; of plans.yaml its version. */
  readonly before: object | null;
  readonly after: object | null;
}

/** The state of a key or a customer for the record: what decides what it may do, and the last four characters of each secret. */
interface RecordState extends Recorded {
  readonly plan: string;
  readonly limits: StoredKey['limits'];
  readonly expiresAt: string | null;
  /** As it stands in the record, also if its end has passed; absent without one. */
  readonly suspended?: ReturnType<typeof suspensionReport>;
  /** The set and the entry of keys.yaml that manage it, as `SET/ENTRY`; absent if none does. */
  readonly entry?: string;
  /** Of keys alone, like `secrets`. */
  readonly revokedAt?: string | null;
  readonly secrets?: readonly string[];
  /** The id of the customer; absent for a key without one. */
  readonly customer?: string;
}

export function stateOf(record: StoredRecord): RecordState {
  const { plan, limits, expiresAtMs, applied } = record;
  return {
    plan,
    limits,
    ...recordedAttributes(record),
    expiresAt: timeOf(expiresAtMs),
    ...('secrets' in record ? { revokedAt: timeOf(record.revokedAtMs) } : {}),
    ...suspendedMember(record.suspended),
    ...('secrets' in record ? { secrets: record.secrets.map(({ last4 }) => last4) } : {}),
    ...('customer' in record ? { customer: record.customer } : {}),
    ...(applied === undefined ? {} : { entry: entryText(applied) }),
  };
}

/** The request that asked for a change. */
interface ChangeRequest {
  readonly identity: { readonly name: string };
  readonly clientAddress: string;
  readonly requestId: string;
}

/** The line of a change that was asked for through the admin API: its entry in the record, as the log has it. */
export function lineOf({
  action,
  outcome,
  code,
  actor,
  clientAddress,
  requestId,
  target,
  before,
  after,
}: RecordedChange): AuditLine {
  const name = actor.kind === 'shell' ? actor.user : actor.name;
  return { action, outcome, code, who: 'admin', actor: name, clientAddress, requestId, id: target, before, after };
}

/** The line of a secret that was looked up and belongs to no key. */
export function missLine({ identity, clientAddress, requestId }: ChangeRequest): AuditLine {
  const [action, outcome, code, actor] = ['key.find', 'refused', 'not_found', identity.name] as const;
  return { action, outcome, code, who: 'admin', actor, clientAddress, requestId, id: null, before: null, after: null };
}

/** The line of a request with a wrong token, code of a link or proxy token. */
export function strangerLine(clientAddress: string, requestId: string): AuditLine {
  const [outcome, code, who] = ['refused', 'invalid_admin_token', 'stranger'] as const;
  return { ...ACCESS, outcome, code, who, actor: null, clientAddress, requestId };
}

/** The line of a sign-in that began a session. */
export function signInLine({ identity, clientAddress, requestId }: ChangeRequest): AuditLine {
  return { ...ACCESS, outcome: 'done', code: null, who: 'admin', actor: identity.name, clientAddress, requestId };
}

const ACCESS = { action: 'admin.access', id: null, before: null, after: null } as const;
