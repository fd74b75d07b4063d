import type { StoredKey } from '../../identify/key-store.ts';
import type { KeyReport } from '../../operations/key-report.ts';

export function limitsText(limits: KeyReport['limits']): string {
  return Object.entries(limits)
    .map(([window, limit]) => `${window}=${limit}`)
    .join(' ');
}

/** Whether a key can be used at `nowMs`, in one word. */
export function stateOf({ revokedAtMs, expiresAtMs }: StoredKey, nowMs: number): 'active' | 'revoked' | 'expired' {
  if (revokedAtMs !== null) return 'revoked';
  return expiresAtMs !== null && nowMs >= expiresAtMs ? 'expired' : 'active';
}

/** What identifies a secret to operators without showing it: its last four characters, if they are known. */
export function secretLabelOf({ last4 }: { readonly last4: string | null }): string {
  return last4 === null || last4 === '' ? 'known by its hash' : `…${last4}`;
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
