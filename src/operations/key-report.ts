import type { Limit, Limits, Plans } from '../admit/plan.ts';
import { WINDOWS, type WindowName } from '../admit/windows.ts';
import type { AppliedEntry, StoredKey } from '../identify/key-store.ts';

/** An API key as commands print it (contract section 5). `limits` are those that apply; times are RFC 3339 or null. */
export interface KeyReport {
  readonly id: string;
  readonly plan: string;
  readonly name: string | null;
  readonly owner: string | null;
  readonly limits: Readonly<Partial<Record<WindowName, Limit | 'custom'>>>;
  readonly createdAt: string;
  readonly expiresAt: string | null;
}

/** Everything that the store holds about a key, without secrets and digests. */
export interface WholeKeyReport extends KeyReport {
  readonly notes: string | null;
  /** The key's own limits, which replace those of its plan. */
  readonly ownLimits: Limits;
  readonly revokedAt: string | null;
  /** `SET/ENTRY` of the keys.yaml that manages the key (`keys apply`); absent if none does. */
  readonly entry?: string;
  /** The secrets that work now, newest first. `last4` is null for a secret that was imported as a hash. */
  readonly secrets: readonly {
    readonly last4: string | null;
    readonly createdAt: string;
    readonly expiresAt: string | null;
  }[];
}

/** The report of a key without its secret. */
export function keyReport(key: StoredKey, { plans }: Plans): KeyReport {
  const { id, plan, name, owner, createdAtMs, expiresAtMs } = key;
  return {
    id,
    plan,
    name,
    owner,
    limits: inOrder({ ...plans.get(plan)?.limits, ...key.limits }),
    createdAt: timeOf(createdAtMs),
    expiresAt: timeOf(expiresAtMs),
  };
}

export function wholeKeyReport(key: StoredKey, plans: Plans, nowMs: number): WholeKeyReport {
  return {
    ...keyReport(key, plans),
    notes: key.notes ?? null,
    ownLimits: inOrder(key.limits),
    revokedAt: timeOf(key.revokedAtMs),
    ...(key.applied === undefined ? {} : { entry: entryText(key.applied) }),
    secrets: key.secrets
      .filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs > nowMs)
      .map(({ last4, createdAtMs, expiresAtMs }) => ({
        last4: last4 === '' ? null : last4,
        createdAt: timeOf(createdAtMs),
        expiresAt: timeOf(expiresAtMs),
      })),
  };
}

/** The report of a new secret, the only one that shows it. */
export function keyReportWithSecret(key: StoredKey, secret: string, plans: Plans) {
  const { id, ...rest } = keyReport(key, plans);
  return { id, key: secret, ...rest };
}

/** How reports name the entry of a keys.yaml. */
export function entryText({ set, name }: AppliedEntry): string {
  return `${set}/${name}`;
}

/** Formats Unix milliseconds as RFC 3339; null stays null. */
export function timeOf(atMs: number): string;
export function timeOf(atMs: number | null): string | null;
export function timeOf(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString();
}

function inOrder<T>(limits: Readonly<Partial<Record<WindowName, T>>>): Readonly<Partial<Record<WindowName, T>>> {
  const there = WINDOWS.flatMap((window) => (limits[window] === undefined ? [] : [[window, limits[window]] as const]));
  return Object.fromEntries(there) as Readonly<Partial<Record<WindowName, T>>>;
}
