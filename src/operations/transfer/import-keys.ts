import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Failure } from '../../failure.ts';
import {
  digestOfHash,
  FOREIGN_LENGTHS,
  formOf,
  isOwnForm,
  type KeyFormat,
  mayEndForeign,
} from '../../identify/api-key.ts';
import type { PepperHistory } from '../../identify/pepper-record.ts';
import type { CustomerStore, KeyStore } from '../../identify/record-store.ts';
import { type Hashed, hashedUnder } from '../../identify/secret-marks.ts';
import { ATTRIBUTE_NAMES, type AttributeEdits, valueOfCell } from '../../model/attributes.ts';
import { isWindow, type Limit, type Limits, limitFrom, MAX_LIMIT, type Plan } from '../../model/plan.ts';
import {
  digestsOf,
  isCustomerId,
  isReadable,
  type Listed,
  orUnreadable,
  type StoredKey,
  UnreadableRecord,
} from '../../model/record.ts';
import { WINDOWS } from '../../model/values.ts';
import { idOfImported, takenBack } from '../create-once.ts';
import { type KeyAttributes, keyOf, recognised, validateAttributes } from '../key-changes.ts';
import { MOMENT_RULE, momentFrom } from '../operation-values.ts';
import { insistOnPlan } from '../plans/versions.ts';
import { isRefusal } from './keys-and-customers.ts';
import type { Row } from './rows.ts';

/** What became of one row. */
export interface RowOutcome {
  /**
   * `already`: the key exists and was left as it is. `unknown`: it was imported, but a failover of the store may undo
   * that.
   */
  readonly kind: 'moved' | 'unknown' | 'already' | 'refused';
  /** The key's id; null if the row was refused. */
  readonly id: string | null;
  /**
   * Why the row was refused, how the existing key differs, or why the key may not work; null if there is nothing to
   * report.
   */
  readonly why: string | null;
}

interface ImportOptions extends Omit<ImportedKeyDeps, 'nowMs'> {
  readonly keys: Pick<KeyStore, 'ownerOf' | 'get' | 'createEach' | 'update' | 'delete'>;
  readonly nowMs: () => number;
  /** If true, nothing is written, but the outcomes are reported as if it were. */
  readonly dryRun: boolean;
}

interface ImportedKeyDeps {
  readonly customers: Pick<CustomerStore, 'get'>;
  readonly plans: ReadonlyMap<string, Plan>;
  /** Those of `plans` that later plans of another gateway lack. */
  readonly gone: ReadonlySet<string>;
  readonly formats: readonly KeyFormat[];
  /** All peppers that the store has had. Secrets that were retired under an earlier one are recognised. */
  readonly history: PepperHistory;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

/** Rows that are looked up in one turn of the event loop. */
const LOOKED_UP_AT_ONCE = 100;
const UNKNOWN = 'was imported, but a failover of Redis may still undo it; import the file again to be sure.';

/**
 * Imports keys into the store, each row completely or not at all. They wait together until the replicas and the disk of the store have
 * them. After an interruption the operator imports the file again from the start: keys that already exist are found and left as they are.
 *
 * An old file does not bring back a secret that was revoked or rotated away, because the store remembers all digests of
 * a key and all peppers that it has had.
 * @returns the outcomes in the order of the rows
 * @throws Failure `store_unavailable`; some of the rows may be done
 */
export async function importRows(rows: readonly Row[], options: ImportOptions): Promise<readonly RowOutcome[]> {
  const { keys, dryRun } = options;
  const read: (ImportedKey | RowOutcome)[] = [];
  const known = new Map<ImportedKey, Listed<StoredKey> | null>();
  for (let i = 0; i < rows.length; i += LOOKED_UP_AT_ONCE) {
    await nextTurn();
    const part = await Promise.all(rows.slice(i, i + LOOKED_UP_AT_ONCE).map((row) => readRow(row, options)));
    read.push(...part);
    await Promise.all(part.map(async (one) => 'key' in one && known.set(one, await find(one, options))));
  }
  if (!dryRun) await Promise.all([...known].map(([row, existing]) => putUnderNewest(row, existing, options)));
  const fresh = read.filter((one): one is ImportedKey => 'key' in one && known.get(one) === null);
  const stored = dryRun ? eachOnce(fresh) : await keys.createEach(fresh.map(({ key }) => key));
  const made = new Map<ImportedKey, RowOutcome>();
  for (const [i, row] of fresh.entries()) made.set(row, await outcomeOf(row, stored[i]!, options));
  return read.map((one) => ('key' in one ? (made.get(one) ?? already(one, known.get(one)!)) : one));
}

/** What the store would answer: the first of several rows with one key makes it. */
function eachOnce(rows: readonly ImportedKey[]): readonly ('created' | 'taken')[] {
  const seen = new Set<string>();
  return rows.map(({ key: { id } }) => {
    const isFirst = !seen.has(id);
    seen.add(id);
    return isFirst ? 'created' : 'taken';
  });
}

async function outcomeOf(
  row: ImportedKey,
  stored: 'created' | 'unknown' | 'taken',
  options: ImportOptions,
): Promise<RowOutcome> {
  const { key, warning } = row;
  if (stored === 'taken') return already(row, options.dryRun ? key : await find(row, options));
  const gone = options.dryRun ? null : await takenBack(key, { ...options, nowMs: options.nowMs() });
  if (gone !== null) return { kind: 'refused', id: null, why: gone };
  if (stored === 'unknown') return { kind: 'unknown', id: key.id, why: UNKNOWN };
  return { kind: 'moved', id: key.id, why: warning };
}

async function readRow(row: Row, options: ImportOptions): Promise<ImportedKey | RowOutcome> {
  try {
    return await importedKey(row, { ...options, nowMs: options.nowMs() });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { kind: 'refused', id: null, why: error.message };
  }
}

async function find({ digests, ids }: ImportedKey, { keys }: ImportOptions): Promise<Listed<StoredKey> | null> {
  for (const digest of digests) {
    const key = await orUnreadable(keys.ownerOf(digest));
    if (key !== null) return key;
  }
  // The id is derived from the imported secret, so this is the same key, which has since got another secret.
  for (const id of ids) {
    const key = await orUnreadable(keys.get(id, { evenDeleted: true }));
    if (key !== null) return key;
  }
  return null;
}

/** Adds the digest under the newest pepper, so that the secret works, or is recognised, under that pepper alone. */
async function putUnderNewest(
  { digests, newest }: ImportedKey,
  existing: Listed<StoredKey> | null,
  { keys }: ImportOptions,
): Promise<void> {
  if (existing === null || !isReadable(existing) || digestsOf(existing).includes(digests[0]!)) return;
  await keys.update(existing.id, (key) => recognised(key, newest, digests));
}

function already(row: ImportedKey, existing: Listed<StoredKey> | null): RowOutcome {
  if (existing instanceof UnreadableRecord) return { kind: 'refused', id: null, why: existing.message };
  if (existing === null) {
    return { kind: 'refused', id: null, why: 'could not be stored, and is not there either; try again.' };
  }
  return { kind: 'already', id: existing.id, why: differenceOf(row, existing) ?? row.warning };
}

function differenceOf({ key: wanted, digests }: ImportedKey, existing: StoredKey): string | null {
  if (existing.deletedAtMs !== undefined) return 'was deleted here for good; it is not brought back.';
  if (existing.revokedAtMs !== null) return 'is there already, and revoked; left as it is.';
  if (!existing.secrets.some(({ digest }) => digests.includes(digest))) {
    return 'is there already, with another secret since; left as it is.';
  }
  const compared = ['plan', 'limits', 'customer', ...ATTRIBUTE_NAMES] as const;
  const different = compared.filter((member) => !isDeepStrictEqual(wanted[member], existing[member]));
  return different.length === 0 ? null : `is there already, with another ${different.join(', ')}; left as it is.`;
}

/** A key to import, and the digests and ids under which the store may already have it. */
interface ImportedKey {
  readonly key: StoredKey;
  /** The digests of its secret, that under the newest pepper first. */
  readonly digests: readonly string[];
  readonly newest: Hashed;
  readonly ids: readonly string[];
  /** Why the key may not work; null if there is no doubt. */
  readonly warning: string | null;
}

/**
 * Makes the key that a row describes. Its id is derived from its secret and a secret of the store, so that importing
 * it again makes no second key, even under another pepper. Earlier versions used the pepper instead of the store's
 * secret.
 * @throws Failure `refused` with the fault, never with a secret in the message
 */
async function importedKey(row: Row, deps: ImportedKeyDeps): Promise<ImportedKey> {
  const { sha256, ...known } = secretOf(row, deps.formats);
  const attributes = keyAttributesOf(row, await planOf(row, deps), deps.nowMs);
  insistOnPlan(attributes.plan, deps.gone);
  validateAttributes(attributes, deps);
  const createdAtMs = createdAt(row, deps.nowMs);
  const { peppers, root } = deps.history;
  const digests = peppers.map((pepper) => digestOfHash(sha256, pepper));
  const [id, ...formerIds] = [root, ...peppers].map((secret) => idOfImported(sha256, secret)) as [string, ...string[]];
  const newest = hashedUnder(sha256, peppers[0]!);
  const secret = { ...newest, ...known, createdAtMs, expiresAtMs: null };
  const warning = row.key === undefined && !mayEndForeign(known.last4, deps.formats) ? UNCOVERED : null;
  return { key: keyOf(attributes, { id, createdAtMs, secret }), digests, newest, ids: [id, ...formerIds], warning };
}

const UNCOVERED =
  "no format of keys.formats in gateway.yaml covers it: unless its secret is of Tollgate's own form, requests with it get 401.";

function secretOf({ key, sha256, last4 }: Row, formats: readonly KeyFormat[]) {
  if ((key === undefined) === (sha256 === undefined)) {
    throw refused(key === undefined ? 'key or sha256 is missing.' : 'key and sha256 are both given; give one of them.');
  }
  if (key !== undefined) {
    const secret = textOf('key', key);
    const form = formOf(secret, formats);
    if (form === undefined) throw refused(whyUnusable(secret, formats));
    return { sha256: hash('sha256', secret, 'buffer'), last4: secret.slice(-4), form };
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
  const { least, most } = FOREIGN_LENGTHS;
  if (secret.length < least || secret.length > most)
    return `key has ${secret.length} characters. A key that is imported has ${least} to ${most}: create a new one for its holder.`;
  if (formats.length === 0)
    return 'key is not one of Tollgate, and gateway.yaml has no keys.formats that it could belong to.';
  return 'key has none of the formats in keys.formats of gateway.yaml, so it would never be looked up.';
}

/** The bytes of a SHA-256 in hexadecimal or base64; null for any other text. */
export function bytesOf(text: string): Buffer | null {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return Buffer.from(text, 'hex');
  return /^[A-Za-z0-9+/_-]{43}=?$/.test(text) ? Buffer.from(text, 'base64') : null;
}

/** The plan of a row, or the customer that has it. A plan beside the customer, as an export writes it, must be the customer's. */
async function planOf(row: Row, deps: ImportedKeyDeps): Promise<Pick<KeyAttributes, 'plan' | 'customer'>> {
  const plan = row.plan === undefined || row.plan === null ? null : textOf('plan', row.plan);
  if (row.customer === undefined || row.customer === null) {
    if (plan === null) throw refused('plan is missing.');
    return { plan };
  }
  const id = textOf('customer', row.customer);
  const customer = isCustomerId(id) ? await deps.customers.get(id) : null;
  if (customer === null) throw refused('customer is the id or name of no customer in the store.');
  if (plan !== null && plan !== customer.plan)
    throw refused(`plan must be left out, or be ${customer.plan}, that of the customer.`);
  return { plan: customer.plan, customer: id };
}

function keyAttributesOf(row: Row, of: Pick<KeyAttributes, 'plan' | 'customer'>, nowMs: number): KeyAttributes {
  return {
    ...of,
    ...attributeEditsOf(row),
    limits: limitsOf(row.limits ?? {}),
    expiresAtMs: momentOf('expires', row.expires ?? null, nowMs),
  };
}

/** In CSV every value is a text. */
function attributeEditsOf(row: Row): AttributeEdits {
  const given = ATTRIBUTE_NAMES.map((name) => [name, row[name] ?? null] as const);
  return Object.fromEntries(
    given.map(([name, value]) => [name, typeof value === 'string' ? valueOfCell(name, value) : value]),
  );
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
        `limits must be such as minute=500 day=unlimited, each of ${WINDOWS.join(', ')} at most once, numbers whole from 0 to ${MAX_LIMIT}.`,
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
