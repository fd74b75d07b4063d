import { randomUUID } from 'node:crypto';
import { hostname, userInfo } from 'node:os';
import { codeOf, refusalOf } from '../admin/response.ts';
import type { Durability } from '../admit/ledger.ts';
import { Failure } from '../failure.ts';
import type { StoredKey } from '../identify/key-store.ts';
import {
  type Actor,
  AuditTrail,
  type ChangeOrigin,
  type ChangeResult,
  keyStateOf,
  type RecordedAction,
} from '../operations/audit-trail.ts';
import type { OpenStore } from '../serve/open-store.ts';

export interface RecordedWork<T> {
  readonly action: RecordedAction;
  /** The id that the command names; null if the command makes a key. */
  readonly target: string | null;
  /** Called with a line for stderr if the record of this change is missing or lacks the outcome. */
  readonly warn: (line: string) => void;
  readonly work: () => Promise<T>;
  readonly resultOf: (value: T) => ChangeResult;
}

/**
 * Makes a change and records it: an entry before the change, and its outcome before the command prints anything.
 * @throws Failure as `work` does; `audit_unavailable` if `audit.required` is set and the change cannot be recorded
 */
export async function recorded<T>(
  store: Pick<OpenStore, 'audit' | 'settings'>,
  { action, target, warn, work, resultOf }: RecordedWork<T>,
) {
  const trail = new AuditTrail({
    store: store.audit,
    settings: () => store.settings.audit,
    newId: randomUUID,
    onFailure: (error) => {
      const why = error instanceof Error ? error.message : String(error);
      warn(`warning: the record of changes lacks this change, or what became of it: ${why}\n`);
    },
  });
  const entry = await trail.begin(shellOrigin(), action, target);
  try {
    const value = await work();
    entry.note(resultOf(value));
    return value;
  } catch (error) {
    entry.note({ ...outcomeOfError(error), target, before: null, after: null });
    throw error;
  } finally {
    await entry.end();
  }
}

/**
 * The result of a change to one key.
 * @param isSame true if the key already was as requested
 */
export function resultOfKey(
  { before, key, durability }: { before?: StoredKey; key: StoredKey; durability: Durability },
  isSame = false,
): ChangeResult {
  return {
    outcome: outcomeOfDurability(durability, isSame),
    code: null,
    target: key.id,
    before: before === undefined ? null : keyStateOf(before),
    after: keyStateOf(key),
  };
}

/** A change that a failover may undo stays `unknown`, because the command ends before the store can confirm it. */
export function outcomeOfDurability({ kind }: Durability, isSame = false): ChangeResult['outcome'] {
  if (kind !== 'durable') return 'unknown';
  return isSame ? 'unchanged' : 'done';
}

/** The outcome of a change that failed. It is `unknown` if the store may have made the change. */
export function outcomeOfError(error: unknown): Pick<ChangeResult, 'outcome' | 'code'> {
  const refusal = error instanceof Failure ? refusalOf(error) : null;
  if (refusal === null) return { outcome: 'unknown', code: 'internal_error' };
  return { outcome: refusal.status === 503 ? 'unknown' : 'refused', code: codeOf(refusal) };
}

/** The user of this shell and its host, as the record of changes names them. */
export function shellActor(): Extract<Actor, { kind: 'shell' }> {
  return { kind: 'shell', user: userName(), host: hostname() };
}

function shellOrigin(): ChangeOrigin {
  return { actor: shellActor(), requestId: null, clientAddress: null };
}

/** The user's name, or the uid in a container that has no name for it. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
