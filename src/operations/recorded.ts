import { randomUUID } from 'node:crypto';
import { hostname, userInfo } from 'node:os';
import { DURABLE, type Durability } from '../admit/ledger.ts';
import { Failure, type FailureCode, Refused } from '../failure.ts';
import type { RecordDeletion } from '../identify/record-store.ts';
import type { StoredRecord } from '../model/record.ts';
import type { AuditStore } from './audit-store.ts';
import {
  type Action,
  type Actor,
  AuditTrail,
  type ChangeOrigin,
  type ChangeResult,
  type RecordedChange,
  stateOf,
} from './audit-trail.ts';
import type { ChangedRecord } from './operator-store.ts';
import type { MadeUsageChange } from './usage-changes.ts';

/** What an operation has changed. */
export interface Change {
  /** The id of the key, or of the consumer that was banned; null if the change named and made none. */
  readonly target: string | null;
  /** The states before and after, without secrets and digests; null if there was none or it is unknown. */
  readonly before: object | null;
  readonly after: object | null;
  /** Left out: `done`. `unchanged` is recorded, and is no line in the log. */
  readonly outcome?: ChangeResult['outcome'];
  /** Left out: durable. */
  readonly durability?: Durability;
}

/** Where the changes of one operator are recorded. */
export interface Recording {
  readonly trail: AuditTrail;
  readonly origin: ChangeOrigin;
  /** Writes a line to the log. Left out for a command, which prints what it has done. */
  readonly log?: (change: RecordedChange) => void;
  /** Whether this process waits to learn if a failover of the store undoes a change. A command ends before that. */
  readonly awaitsFinal: boolean;
}

export interface RecordedWork<T> {
  readonly action: Action;
  /** The id that the operator named; null if the change makes a key. */
  readonly target: string | null;
  readonly work: () => Promise<T>;
  readonly changeOf: (value: T) => Change;
}

/**
 * Makes a change and records it: an entry before the change, and its outcome before the operator is answered. The only writer of the
 * record of changes, but for files that gateways load (load-record.ts). Each line of the log is the entry as it then is.
 * @throws as `work` does; Failure `audit_unavailable` if `audit.required` is set and the change cannot be recorded
 */
export async function recorded<T>(
  { trail, origin, log, awaitsFinal }: Recording,
  { action, target, work, changeOf }: RecordedWork<T>,
): Promise<T> {
  const entry = trail.entry(origin, action, target);
  const note = (result: ChangeResult) => {
    entry.note(result);
    if (result.outcome !== 'unchanged') log?.(entry.change);
  };
  const failed = (outcome: 'refused' | 'unknown', code: string) =>
    note({ outcome, code, target, before: null, after: null });
  try {
    await entry.begin();
  } catch (error) {
    failed('refused', codeOfError(error) ?? 'internal_error');
    throw error;
  }
  try {
    const value = await work();
    noteChange(note, changeOf(value), awaitsFinal);
    return value;
  } catch (error) {
    const { outcome, code } = outcomeOfError(error);
    failed(outcome, code);
    throw error;
  } finally {
    await entry.end();
  }
}

/** The outcome of a change that failed. It is `unknown` if the store may have made the change. */
export function outcomeOfError(error: unknown): { readonly outcome: 'refused' | 'unknown'; readonly code: string } {
  const code = codeOfError(error);
  const mayBeDone = code === null || MAY_BE_DONE.includes(code);
  return { outcome: mayBeDone ? 'unknown' : 'refused', code: code ?? 'internal_error' };
}

function codeOfError(error: unknown): string | null {
  return error instanceof Refused ? error.refusal : codeOfFailure(error);
}

/** Codes of errors after which the store may have made the change although its answer was lost. */
const MAY_BE_DONE: readonly string[] = ['store_unavailable', 'audit_unavailable'];

/** Notes a change. If a failover may undo it, its outcome is `unknown` until the store can say. */
function noteChange(
  note: (result: ChangeResult) => void,
  { target, before, after, outcome = 'done', durability = DURABLE }: Change,
  awaitsFinal: boolean,
): void {
  const result = { outcome, code: null, target, before, after };
  if (durability.kind === 'durable' || outcome === 'unchanged') {
    note(result);
    return;
  }
  note({ ...result, outcome: 'unknown' });
  if (!awaitsFinal) return;
  const outcomes = { durable: outcome, superseded: 'lost', given_up: 'unknown' } as const;
  void durability.final.then((final) => note({ ...result, outcome: outcomes[final] }));
}

/** The code under which a failure is recorded, and answered; null for a defect. */
export function codeOfFailure(error: unknown): FailedCode | null {
  return error instanceof Failure ? (CODES.get(error.code) ?? null) : null;
}

type FailedCode =
  | 'store_unavailable'
  | 'store_corrupt'
  | 'audit_unavailable'
  | 'not_found'
  | 'conflict'
  | 'invalid_request';

/** By the code of the failure. */
const CODES: ReadonlyMap<FailureCode, FailedCode> = new Map([
  ['store_unavailable', 'store_unavailable'],
  ['audit_unavailable', 'audit_unavailable'],
  ['store_corrupt', 'store_corrupt'],
  ['pepper_mismatch', 'store_unavailable'],
  ['not_found', 'not_found'],
  ['conflict', 'conflict'],
  ['refused', 'invalid_request'],
]);

/**
 * The change of one key or customer.
 * @param before null for a new one
 * @param isSame whether it already was as requested
 */
export function changeOfRecord(
  {
    before = null,
    record,
    durability,
  }: Omit<ChangedRecord<StoredRecord>, 'before'> & { readonly before?: StoredRecord | null },
  isSame = false,
): Change {
  return {
    target: record.id,
    before: before === null ? null : stateOf(before),
    after: stateOf(record),
    outcome: isSame ? 'unchanged' : 'done',
    durability,
  };
}

/** The deletion of a key or a customer, which may have been deleted before. */
export function changeOfDeletion({ before, durability }: RecordDeletion<StoredRecord>): Change {
  const isSame = before.deletedAtMs !== undefined;
  return {
    target: before.id,
    before: isSame ? null : stateOf(before),
    after: null,
    outcome: isSame ? 'unchanged' : 'done',
    durability,
  };
}

/** The change of what a key has used. A repetition under the same name changes nothing. */
export function changeOfUsage(id: string, { kind, states, durability }: MadeUsageChange): Change {
  return { target: id, ...states, outcome: kind === 'repeated' ? 'unchanged' : 'done', durability };
}

/** The end of a ban. @param reason empty or null if the operator gave none */
export function changeOfLift(
  id: string,
  { durability }: { readonly durability: Durability },
  reason: string | null,
): Change {
  return { target: id, before: null, after: reason === null || reason === '' ? null : { reason }, durability };
}

interface OwnRecordingOptions {
  readonly audit: AuditStore;
  /** The `audit` settings of gateway.yaml. */
  readonly settings: { readonly required: boolean; readonly keep: number };
  /** Called with a sentence if the record of a change is missing or lacks the outcome. */
  readonly warn: (line: string) => void;
  readonly awaitsFinal: boolean;
}

/** Records the changes that the user of this process makes: by a command, or through the library. */
export function ownRecording({ audit, settings, warn, awaitsFinal }: OwnRecordingOptions): Recording {
  const trail = new AuditTrail({
    store: audit,
    settings: () => settings,
    newId: randomUUID,
    onFailure: (error) => {
      const why = error instanceof Error ? error.message : String(error);
      warn(`warning: the record of changes lacks this change, or what became of it: ${why}\n`);
    },
  });
  return { trail, origin: { actor: shellActor(), requestId: null, clientAddress: null }, awaitsFinal };
}

/** The user of this process and its host, as the record of changes names them. */
export function shellActor(): Extract<Actor, { kind: 'shell' }> {
  return { kind: 'shell', user: userName(), host: hostname() };
}

/** The user's name, or the uid in a container that has no name for it. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
