import { randomUUID } from 'node:crypto';
import { hostname, userInfo } from 'node:os';
import { codeOf, refusalOf } from '../admin/answer.ts';
import { stateOf } from '../admin/audit.ts';
import { type Actor, AuditTrail, type ChangeResult, type Origin, type RecordedAction } from '../admin/audit-trail.ts';
import { Failure } from '../failure.ts';
import type { Durability, StoredKey } from '../identify/key-store.ts';
import type { OpenStore } from './open-store.ts';

export interface RecordedWork<T> {
  readonly action: RecordedAction;
  /** The id that the command names; null where it makes one. */
  readonly target: string | null;
  /** Told of a change whose record is missing, or does not say what became of it. */
  readonly warn: (line: string) => void;
  readonly work: () => Promise<T>;
  readonly resultOf: (value: T) => ChangeResult;
}

/**
 * Makes a change that a command was asked for, and records it: before it is made, and what became of it before the command
 * prints anything.
 * @throws Failure as `work` does; `audit_unavailable` where it cannot be recorded and gateway.yaml asks for that
 */
export async function recorded<T>(store: OpenStore, { action, target, warn, work, resultOf }: RecordedWork<T>) {
  const trail = new AuditTrail({
    store: store.audit,
    settings: () => store.settings.audit,
    newId: randomUUID,
    onFailure: (error) => {
      const why = error instanceof Error ? error.message : String(error);
      warn(`warning: the record of changes lacks this change, or what became of it: ${why}\n`);
    },
  });
  const entry = await trail.begin(originHere(), action, target);
  try {
    const value = await work();
    entry.note(resultOf(value));
    return value;
  } catch (error) {
    entry.note({ ...outcomeOf(error), target, before: null, after: null });
    throw error;
  } finally {
    await entry.end();
  }
}

/** Of a change to one key. `isSame`: it was so already. */
export function resultOfKey(
  { before, key, durability }: { before?: StoredKey; key: StoredKey; durability: Durability },
  isSame = false,
): ChangeResult {
  return {
    outcome: outcomeBy(durability, isSame),
    code: null,
    target: key.id,
    before: before === undefined ? null : stateOf(before),
    after: stateOf(key),
  };
}

/** A change that a failover may undo is `unknown`, for good: the command ends before it is settled. */
export function outcomeBy({ kind }: Durability, isSame = false): ChangeResult['outcome'] {
  if (kind !== 'durable') return 'unknown';
  return isSame ? 'unchanged' : 'done';
}

/** Of a change that broke: what became of it as far as is known. */
export function outcomeOf(error: unknown): Pick<ChangeResult, 'outcome' | 'code'> {
  const refusal = error instanceof Failure ? refusalOf(error) : null;
  if (refusal === null) return { outcome: 'unknown', code: 'internal_error' };
  return { outcome: refusal.status === 503 ? 'unknown' : 'refused', code: codeOf(refusal) };
}

function originHere(): Origin {
  const actor: Actor = { kind: 'shell', user: userName(), host: hostname() };
  return { actor, requestId: null, clientAddress: null };
}

/** A container may run as a user without a name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
