import { type Limit, type Plans, WINDOWS, type WindowName } from '../admit/plan.ts';
import type { StoredKey } from '../identify/key-store.ts';

/** An API key as commands print it (contract section 5): limits as they apply, times RFC 3339 or null. */
export interface KeyReport {
  readonly id: string;
  readonly plan: string;
  readonly name: string | null;
  readonly owner: string | null;
  readonly limits: Readonly<Partial<Record<WindowName, Limit | 'custom'>>>;
  readonly createdAt: string;
  readonly expiresAt: string | null;
}

/** A key without its secret. */
export function keyReport(key: StoredKey, { plans }: Plans): KeyReport {
  const { id, plan, name, owner, createdAtMs, expiresAtMs } = key;
  const limits = { ...plans.get(plan)?.limits, ...key.limits };
  return {
    id,
    plan,
    name,
    owner,
    limits: Object.fromEntries(
      WINDOWS.flatMap((window) => (limits[window] === undefined ? [] : [[window, limits[window]]])),
    ),
    createdAt: timeOf(createdAtMs),
    expiresAt: timeOf(expiresAtMs),
  };
}

/** The one time that a secret is shown. */
export function keyReportWithSecret(key: StoredKey, secret: string, plans: Plans) {
  const { id, ...rest } = keyReport(key, plans);
  return { id, key: secret, ...rest };
}

/** RFC 3339, or null. */
export function timeOf(atMs: number): string;
export function timeOf(atMs: number | null): string | null;
export function timeOf(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString();
}

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

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
