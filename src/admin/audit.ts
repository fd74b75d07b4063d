import type { Durability, StoredKey } from '../identify/key-store.ts';
import type { Call } from './call.ts';
import { timeOf } from './key-report.ts';

export type Action = 'key.create' | 'key.update' | 'key.rotate' | 'key.revoke' | 'key.delete' | 'ban.lift';

/** One change that an operator made or tried, or a wrong admin token. The log adds when. No secret has a place in it. */
export interface AuditLine {
  readonly action: Action | 'admin.access';
  /**
   * `repeated`: what was made before was told again, its secret too. `refused`: nothing was changed. `unknown`: something
   * broke on the way, and the change may have been made; or it was made (`code` is null) and a failover of the store may
   * undo it. Of that a second line tells how it ended: `done`, `lost` where it was undone and the key was changed
   * otherwise since, or `unknown` again, for good.
   */
  readonly outcome: 'done' | 'repeated' | 'refused' | 'unknown' | 'lost';
  /** Of the answer; null where it was no error. */
  readonly code: string | null;
  /** `stranger`: somebody without the admin token. */
  readonly who: 'admin' | 'stranger';
  readonly clientAddress: string;
  readonly requestId: string;
  /** The key, or whoever was banned; null where none was named or made. */
  readonly id: string | null;
  readonly before: KeyState | null;
  readonly after: KeyState | null;
}

/** What decides what a key may do, and the ends of its secrets to tell them by. */
export interface KeyState {
  readonly plan: string;
  readonly limits: StoredKey['limits'];
  readonly name: string | null;
  readonly owner: string | null;
  readonly expiresAt: string | null;
  readonly revokedAt: string | null;
  readonly secrets: readonly string[];
}

export function stateOf({ plan, limits, name, owner, expiresAtMs, revokedAtMs, secrets }: StoredKey): KeyState {
  return {
    plan,
    limits,
    name,
    owner,
    expiresAt: timeOf(expiresAtMs),
    revokedAt: timeOf(revokedAtMs),
    secrets: secrets.map(({ last4 }) => last4),
  };
}

/** A change that was made. */
export function doneLine(
  { clientAddress, requestId }: Call,
  action: Action,
  id: string,
  states: Pick<AuditLine, 'before' | 'after'> = { before: null, after: null },
): AuditLine {
  return { action, outcome: 'done', code: null, who: 'admin', clientAddress, requestId, id, ...states };
}

/** Writes the line of a change that was made, and where a failover may undo it a second one when that is known. */
export function auditChange(audit: (line: AuditLine) => void, line: AuditLine, durability: Durability): void {
  if (durability.kind === 'durable') {
    audit(line);
    return;
  }
  audit({ ...line, outcome: 'unknown' });
  const outcomes = { durable: line.outcome, superseded: 'lost', given_up: 'unknown' } as const;
  void durability.settled.then((settlement) => audit({ ...line, outcome: outcomes[settlement] }));
}

/** A change that was not made, as far as is known. */
export function failedLine(
  { clientAddress, requestId, ids }: Call,
  action: Action,
  outcome: 'refused' | 'unknown',
  code: string,
): AuditLine {
  const id = ids[0] ?? null;
  return { action, outcome, code, who: 'admin', clientAddress, requestId, id, before: null, after: null };
}

/** Somebody came with a token that is not the admin token. */
export function strangerLine(clientAddress: string, requestId: string): AuditLine {
  const [action, outcome, code] = ['admin.access', 'refused', 'invalid_admin_token'] as const;
  return { action, outcome, code, who: 'stranger', clientAddress, requestId, id: null, before: null, after: null };
}
