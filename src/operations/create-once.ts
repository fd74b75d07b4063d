import { createHmac, hash } from 'node:crypto';
import { Failure } from '../failure.ts';
import { digestOf, mint, newKeyId, type Random } from '../identify/api-key.ts';
import type { CustomerStore, KeyStore, RecordUpdate } from '../identify/record-store.ts';
import type { Plan } from '../model/plan.ts';
import { orUnreadable, type StoredKey } from '../model/record.ts';
import {
  deleted,
  type KeyAttributes,
  keyOf,
  newKey,
  revoked,
  storedSecret,
  validateAttributes,
} from './key-changes.ts';

/** A new key with its secret. The store keeps only a digest, so the secret cannot be shown a second time. */
export interface MadeKey extends RecordUpdate<StoredKey> {
  readonly secret: string;
}

/** The result of a creation. A repeated one has the key as it was created, without any later changes. */
export type Created<T> =
  | ({ readonly kind: 'made' | 'repeated' } & T)
  /** The idempotency key was used before, with a different body. */
  | { readonly kind: 'reused' }
  /** The record that was created with this idempotency key is deleted, or the secret of that key no longer works. */
  | { readonly kind: 'ended'; readonly id: string; readonly how: SecretEnd };

/** Why the secret in the first response no longer works. */
export type SecretEnd = 'revoked' | 'expired' | 'rotated' | 'deleted';

interface CreateOnceDeps {
  readonly keys: KeyStore;
  readonly peppers: readonly string[];
  readonly plans: ReadonlyMap<string, Plan>;
  readonly random: Random;
  /** Unix milliseconds. */
  readonly nowMs: number;
}

type AttributesAt = (nowMs: number) => KeyAttributes;

interface TakeBackDeps {
  readonly keys: Pick<KeyStore, 'delete'>;
  readonly customers: Pick<CustomerStore, 'get'>;
  readonly nowMs: number;
}

/**
 * Takes back a key that was made while its customer was deleted. A deletion revokes the keys that it finds once its customer is gone, so a
 * key that was written later is one that this finds without a customer.
 *
 * Fault: the key stayed behind, not revoked, and its secret never worked.
 * Fault: the store went away after the key was written, and a 503 left a live key of which no one had the secret. So the key stands if
 * its customer cannot be looked up: without a customer it is refused anyway.
 * @returns why; null if the key stays
 */
export async function takenBack(key: StoredKey, deps: TakeBackDeps): Promise<string | null> {
  const { customer } = key;
  if (customer === undefined || !(await hasGone(customer, deps.customers))) return null;
  const isTakenBack = await buriedUnlessMoved(key, deps);
  return isTakenBack ? `Its customer ${customer} was deleted meanwhile, so the key was taken back.` : null;
}

async function hasGone(customer: string, customers: Pick<CustomerStore, 'get'>): Promise<boolean> {
  try {
    return (await orUnreadable(customers.get(customer))) === null;
  } catch (error) {
    if (error instanceof Failure && error.code === 'store_unavailable') return false;
    throw error;
  }
}

/**
 * Revokes and deletes a new key, unless an operator has given it another customer or plan meanwhile.
 * @returns whether it is deleted
 */
export async function buriedUnlessMoved(
  made: StoredKey,
  { keys, nowMs }: Omit<TakeBackDeps, 'customers'>,
): Promise<boolean> {
  let isMoved = false;
  try {
    await keys.delete(made.id, (key) => {
      isMoved = key.deletedAtMs === undefined && (key.customer !== made.customer || key.plan !== made.plan);
      // Only an exception leaves the record and its place in the lists as they are.
      if (isMoved) throw new Failure('conflict', `Key ${made.id} has been moved meanwhile.`);
      return deleted(revoked(key, nowMs), nowMs);
    });
  } catch (error) {
    if (!isMoved) throw error;
  }
  return !isMoved;
}

/** Makes a key. @throws Failure `refused` */
export async function createKey(attributesAt: AttributesAt, deps: CreateOnceDeps): Promise<MadeKey> {
  const { keys, peppers, plans, random, nowMs } = deps;
  const { key: record, secret } = newKey(attributesAt(nowMs), { plans, pepper: peppers[0]!, random, nowMs });
  return { record, secret, durability: await keys.create(record) };
}

/**
 * Makes a key, or finds the key that a request with the same idempotency key made in the last 24 h.
 * @throws Failure `refused` for the same reasons as `newKey`, or because the store refuses
 */
export async function createOnce(
  repeatable: Repeatable,
  attributesAt: AttributesAt,
  deps: CreateOnceDeps,
): Promise<Created<MadeKey>> {
  const found = await find(repeatable, attributesAt, deps);
  if (found !== null) return found;
  const attributes = attributesAt(deps.nowMs);
  validateAttributes(attributes, deps);
  const candidate = await reserved(repeatable.name, deps);
  const salt = Buffer.from(deps.random(16)).toString('base64url');
  const made = make(repeatable, attributes, { ...candidate, salt, createdAtMs: deps.nowMs });
  try {
    const durability = await deps.keys.create(made.record);
    return { kind: 'made', ...made, durability };
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'refused') throw error;
    // Another request, perhaps through another gateway, created the key at the same moment.
    const other = await find(repeatable, attributesAt, deps, candidate);
    if (other === null) throw error;
    return other;
  }
}

/**
 * The id under which the key is made. Requests that arrive on both sides of midnight would make two keys under the ids of two
 * days, so all of them take the one that the store has reserved first.
 */
async function reserved(name: string, { keys, peppers, nowMs }: CreateOnceDeps): Promise<Candidate> {
  const candidates = candidatesOf(name, peppers, nowMs);
  const own = candidates[0]!;
  const digest = Buffer.from(randomFrom(own.pepper, 'reserved', name)(16)).toString('hex');
  const id = await keys.reserve(digest, own.id, RESERVED_MS);
  return candidates.find((candidate) => candidate.id === id) ?? own;
}

/** @param reserved an id to look at first, if it is known */
async function find(
  repeatable: Repeatable,
  attributesAt: AttributesAt,
  deps: CreateOnceDeps,
  reserved: Candidate | null = null,
): Promise<Created<MadeKey> | null> {
  const { keys, peppers, nowMs } = deps;
  const candidates = candidatesOf(repeatable.name, peppers, nowMs);
  for (const candidate of reserved === null ? candidates : [reserved, ...candidates]) {
    const key = await keys.get(candidate.id, { evenDeleted: true });
    const isRecent = key !== null && key.createdAtMs > nowMs - REPEATABLE_MS;
    if (isRecent && key.deletedAtMs !== undefined) return { kind: 'ended', id: key.id, how: 'deleted' };
    if (key?.creation === undefined || key.createdAtMs <= nowMs - REPEATABLE_MS) continue;
    const { creation, createdAtMs } = key;
    if (creation.body !== repeatable.body) return { kind: 'reused' };
    const made = make(repeatable, attributesAt(createdAtMs), { ...candidate, salt: creation.salt, createdAtMs });
    const how = secretEndOf(key, made.secret, deps);
    if (how !== null) return { kind: 'ended', id: key.id, how };
    // The first response may have said `durability: unknown`. An update that changes nothing shows whether the key is durable.
    const updated = await keys.update(candidate.id, (current) => current);
    if (updated !== null) return { kind: 'repeated', ...made, durability: updated.durability };
  }
  return null;
}

/**
 * Why the secret no longer works. A client that repeats its request expects a secret that works, so one that does not is
 * never returned again.
 * @returns null while the secret works
 */
function secretEndOf(key: StoredKey, secret: string, { peppers, nowMs }: CreateOnceDeps): SecretEnd | null {
  if (key.revokedAtMs !== null) return 'revoked';
  if (key.expiresAtMs !== null && key.expiresAtMs <= nowMs) return 'expired';
  const digests = peppers.map((pepper) => digestOf(secret, pepper));
  const stored = key.secrets.find(({ digest }) => digests.includes(digest));
  return stored === undefined || (stored.expiresAtMs !== null && stored.expiresAtMs <= nowMs) ? 'rotated' : null;
}

function make(
  { name, body }: Repeatable,
  attributes: KeyAttributes,
  { id, pepper, salt, createdAtMs }: Candidate & { readonly salt: string; readonly createdAtMs: number },
): Omit<MadeKey, 'durability'> {
  const secret = secretOf(name, salt, pepper);
  const key = keyOf(attributes, { id, createdAtMs, secret: storedSecret(secret, pepper, createdAtMs) });
  return { record: { ...key, creation: { salt, body } }, secret };
}

/** How long a creation can be repeated (contract section 7, `Idempotency-Key`). */
export const REPEATABLE_MS = 86_400_000;
/** A little less, so that no id is reserved any more when its key has become too old to be repeated. */
const RESERVED_MS = REPEATABLE_MS - 60_000;

/** A request to create a key or a customer that the client may repeat. */
export interface Repeatable {
  /** The client's Idempotency-Key. */
  readonly name: string;
  /** SHA-256 of the request's body, base64url. */
  readonly body: string;
}

/** The id that a key has if it was created under this pepper. */
interface Candidate {
  readonly id: string;
  readonly pepper: string;
}

/**
 * The ids that the key of a repeatable creation may have, the most likely first.
 *
 * A repeated creation returns the same secret, although the store does not keep it: the gateway derives it from the pepper,
 * a salt in the key's record, and the client's Idempotency-Key. Someone who steals both the store and the pepper still
 * cannot derive the secret unless they can guess the Idempotency-Key. The id is derived from the Idempotency-Key too, so
 * the store refuses a second key even if several gateways receive the same request at the same time.
 *
 * An Idempotency-Key is valid for 24 h. The id is derived from it and the day, so a key created yesterday is found under
 * yesterday's id. Tomorrow's id is a candidate too, because the clock of another gateway may be ahead.
 */
function candidatesOf(name: string, peppers: readonly string[], nowMs: number): readonly Candidate[] {
  const today = Math.floor(nowMs / REPEATABLE_MS);
  return [today, today - 1, today + 1].flatMap((day) =>
    peppers.map((pepper) => ({ id: newKeyId(randomFrom(pepper, 'creation', name, String(day))), pepper })),
  );
}

/** The secret that belongs to an Idempotency-Key and a salt. */
function secretOf(name: string, salt: string, pepper: string): string {
  return mint(randomFrom(pepper, 'secret', name, salt));
}

/**
 * The id of an imported key. It is derived from the SHA-256 of its secret, so importing the same secret twice makes one
 * key. It is also derived from a secret of the store: imported secrets may be weak, and someone who stole the ids could
 * otherwise check guesses against them.
 * @param root the store's own secret, which a change of pepper leaves as it is; for keys of earlier versions, the pepper
 */
export function idOfImported(sha256: Uint8Array, root: string): string {
  return newKeyId(randomFrom(root, 'moved', Buffer.from(sha256).toString('hex')));
}

/** The digest of a request's body. The order of an object's members does not matter. */
export function bodyDigestOf(value: unknown): string {
  return hash('sha256', canonical(value), 'base64url');
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, inner]) => `${JSON.stringify(name)}:${canonical(inner)}`).join()}}`;
}

/** Pseudorandom bytes derived from the pepper: the same for the same parts, and not predictable without the pepper. */
function randomFrom(pepper: string, ...parts: readonly string[]): Random {
  // JSON makes different texts of different lists of parts. The text is never 32 bytes long, so it is never taken for a
  // fingerprint, which is hashed with the same pepper.
  const seed = createHmac('sha256', pepper)
    .update(`tollgate ${JSON.stringify(parts)}`)
    .digest();
  let block = 0;
  return (bytes) => {
    const blocks: Buffer[] = [];
    for (let have = 0; have < bytes; have += 32) {
      blocks.push(createHmac('sha256', seed).update(String(block++)).digest());
    }
    return Buffer.concat(blocks).subarray(0, bytes);
  };
}
