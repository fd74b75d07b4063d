import { hash } from 'node:crypto';
import { type Limit, type Limits, type Plan, UNBOUNDED, WINDOWS } from '../../admit/plan.ts';
import { Failure } from '../../failure.ts';
import { digestOfHash, isOwnForm, isWellFormed } from '../../identify/api-key.ts';
import { isForeign, type KeyFormat, mayEndForeign } from '../../identify/key-format.ts';
import type { StoredKey } from '../../identify/key-store.ts';
import type { PepperHistory } from '../../identify/pepper-record.ts';
import { idOfImported } from '../create-once.ts';
import { isWindow, limitFrom, MOMENT_RULE, momentFrom } from '../input-values.ts';
import { type KeyAttributes, keyOf, validateAttributes } from '../key-changes.ts';
import type { Row } from './rows.ts';

export interface ImportedKeyDeps {
  readonly plans: ReadonlyMap<string, Plan>;
  readonly formats: readonly KeyFormat[];
  /** All peppers that the store has had. Secrets that were retired under an earlier one are recognised. */
  readonly history: PepperHistory;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/** A key to import, and the digests and ids under which the store may already have it. */
export interface ImportedKey {
  readonly key: StoredKey;
  /** The digests of its secret, that under the newest pepper first. */
  readonly digests: readonly string[];
  readonly ids: readonly string[];
  /** Why the key may not work; null if there is no doubt. */
  readonly warning: string | null;
}

/**
 * Makes the key that a line describes. Its id is derived from its secret and a secret of the store, so that importing
 * it again makes no second key, even under another pepper. Earlier versions used the pepper instead of the store's
 * secret.
 * @throws Failure `refused` with the fault, never with a secret in the message
 */
export function importedKey(row: Row, deps: ImportedKeyDeps): ImportedKey {
  const { sha256, last4 } = secretOf(row, deps.formats);
  const attributes = attributesOf(row, deps.nowMs);
  validateAttributes(attributes, deps);
  const createdAtMs = createdAt(row, deps.nowMs);
  const { peppers, root } = deps.history;
  const digests = peppers.map((pepper) => digestOfHash(sha256, pepper));
  const [id, ...formerIds] = [root, ...peppers].map((secret) => idOfImported(sha256, secret)) as [string, ...string[]];
  const secret = { digest: digests[0]!, last4, createdAtMs, expiresAtMs: null };
  const warning = row.key === undefined && !mayEndForeign(last4, deps.formats) ? UNCOVERED : null;
  return { key: keyOf(attributes, { id, createdAtMs, secret }), digests, ids: [id, ...formerIds], warning };
}

const UNCOVERED =
  "no format of keys.formats in gateway.yaml covers it: unless its secret is of Tollgate's own form, requests with it get 401.";

function secretOf({ key, sha256, last4 }: Row, formats: readonly KeyFormat[]) {
  if ((key === undefined) === (sha256 === undefined)) {
    throw refused(key === undefined ? 'key or sha256 is missing.' : 'key and sha256 are both given; give one of them.');
  }
  if (key !== undefined) {
    const secret = textOf('key', key);
    if (!isWellFormed(secret) && !isForeign(secret, formats)) throw refused(whyUnusable(secret, formats));
    return { sha256: hash('sha256', secret, 'buffer'), last4: secret.slice(-4) };
  }
  const bytes = bytesOf(textOf('sha256', sha256));
  if (bytes === null) throw refused('sha256 must be the SHA-256 of the secret, 64 hexadecimal digits or in base64.');
  const end = last4 === undefined || last4 === null ? '' : textOf('last4', last4);
  if (end !== '' && !/^[\x21-\x7e]{4}$/.test(end))
    throw refused('last4 must be the last four characters of the secret.');
  return { sha256: bytes, last4: end };
}

function whyUnusable(secret: string, formats: readonly KeyFormat[]): string {
  if (isOwnForm(secret)) return 'key begins as those of Tollgate do, and its checksum is wrong.';
  if (formats.length === 0) return 'key is none of Tollgate, and gateway.yaml has no keys.formats that it could be of.';
  return 'key is of none of the formats that keys.formats in gateway.yaml has, so it would never be looked up.';
}

function bytesOf(text: string): Buffer | null {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return Buffer.from(text, 'hex');
  return /^[A-Za-z0-9+/_-]{43}=?$/.test(text) ? Buffer.from(text, 'base64') : null;
}

function attributesOf(row: Row, nowMs: number): KeyAttributes {
  if (row.plan === undefined || row.plan === null) throw refused('plan is missing.');
  const text = (column: 'name' | 'owner' | 'notes') => {
    const value = row[column] ?? null;
    return value === null ? null : textOf(column, value);
  };
  return {
    plan: textOf('plan', row.plan),
    name: text('name'),
    owner: text('owner'),
    notes: text('notes'),
    limits: limitsOf(row.limits ?? {}),
    expiresAtMs: momentOf('expires', row.expires ?? null, nowMs),
  };
}

/** `minute=500 day=unlimited`, or an object. */
function limitsOf(given: unknown): Limits {
  const words =
    typeof given === 'string'
      ? given.split(/[ ,;]+/).filter((word) => word !== '')
      : typeof given === 'object' && given !== null && !Array.isArray(given)
        ? Object.entries(given).map(([window, limit]) => (typeof limit === 'object' ? '' : `${window}=${limit}`))
        : [''];
  const limits: Partial<Record<string, Limit>> = {};
  for (const word of words) {
    const one = limitFrom(word);
    if (one === null || one.limit === null || !isWindow(one.window) || one.window in limits) {
      throw refused(
        `limits must be such as minute=500 day=unlimited, each of ${WINDOWS.join(', ')} at most once, numbers whole from 0 to ${UNBOUNDED}.`,
      );
    }
    limits[one.window] = one.limit;
  }
  return limits;
}

function createdAt({ created }: Row, nowMs: number): number {
  const atMs = momentOf('created', created ?? null, nowMs) ?? nowMs;
  if (atMs > nowMs) throw refused('created is in the future.');
  return atMs;
}

function momentOf(column: 'expires' | 'created', value: unknown, nowMs: number): number | null {
  if (value === null) return null;
  const atMs = momentFrom(textOf(column, value), nowMs);
  if (atMs === null) throw refused(`${column} ${MOMENT_RULE}.`);
  return atMs;
}

function textOf(column: string, value: unknown): string {
  if (typeof value === 'string') return value;
  throw refused(`${column} must be text.`);
}

function refused(message: string): Failure {
  return new Failure('refused', message);
}
