import type { StoredKey } from '../identify/key-store.ts';
import { timeOf } from './key-report.ts';

/** One change that an operator made. The log adds when. No secret has a place in it. */
export interface AuditLine {
  readonly action: 'key.create' | 'key.update' | 'key.rotate' | 'key.revoke' | 'ban.lift';
  readonly who: 'admin';
  readonly clientAddress: string;
  readonly requestId: string;
  /** The key, or whoever was banned. */
  readonly id: string;
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
