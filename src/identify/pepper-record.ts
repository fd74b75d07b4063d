import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto';
import { z } from 'zod';
import { Failure } from '../failure.ts';
import { isSameDigest, type Random } from './api-key.ts';

/** The record of peppers in a store. Owned by identify, implemented by stores/embedded and stores/redis. */
export interface PepperStore {
  /** The record; null if no gateway has written it yet. */
  read(): Promise<string | null>;
  /** Replaces the record if it is still `before`. @returns false if it was not */
  replace(before: string | null, after: string): Promise<boolean>;
  /** Whether the store has any key. */
  hasKeys(): Promise<boolean>;
}

/** Data of a store that survive a change of its pepper. */
export interface PepperHistory {
  /** Every pepper with which this store has been opened: those in use, newest first, then the earlier ones. */
  readonly peppers: readonly string[];
  /** A secret of the store's own, from which the ids of imported keys are derived. */
  readonly root: string;
}

interface PepperCheck {
  readonly history: PepperHistory;
  /** The store had keys and no record, so the given peppers were accepted without a check. */
  readonly unverified: boolean;
}

/** Peppers kept in the history. Operators change the pepper once in years. */
const MAX_PEPPERS = 32;
const MAX_ATTEMPTS = 50;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const ROOT_BYTES = 32;

const RECORD = z.looseObject({ checks: z.array(z.string()).min(1), sealed: z.string() });
const HISTORY = z.looseObject({ peppers: z.array(z.string()), root: z.string() });

/**
 * Compares the given peppers with those with which the store was last opened, and records them.
 *
 * The store keeps a check value of each pepper in use, and the history encrypted under the newest. Without a pepper they
 * reveal no more than the digests do. With a wrong KEY_PEPPER the gateway would answer every good key with 401 and create
 * keys that no other gateway finds. So the newest pepper of the store must be among those given, which holds at each step
 * of a change from `old` via `old,new` and `new,old` to `new`, and of the way back.
 *
 * @param peppers newest first; at least one
 * @param writes when the given peppers become the recorded ones: `always`, `if-missing` (the store has no record) or `never`
 * @throws Failure `pepper_mismatch`; `store_corrupt` for a record that cannot be read; `store_unavailable`
 */
export async function checkPeppers(
  store: PepperStore,
  peppers: readonly string[],
  { writes, random }: { readonly writes: 'always' | 'if-missing' | 'never'; readonly random: Random },
): Promise<PepperCheck> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const before = await store.read();
    const known = before === null ? newHistory(random) : open(before, peppers);
    const history = { ...known, peppers: [...new Set([...peppers, ...known.peppers])].slice(0, MAX_PEPPERS) };
    const unverified = before === null && (await store.hasKeys());
    if (writes === 'never' || (writes === 'if-missing' && before !== null)) return { history, unverified: false };
    if (before !== null && isUpToDate(before, peppers, known)) return { history, unverified: false };
    if (await store.replace(before, seal(history, peppers, random))) return { history, unverified };
  }
  throw new Failure(
    'store_unavailable',
    'The record of the peppers is being changed by others all the time. Try again.',
  );
}

/** The warning for `PepperCheck.unverified`. */
export const UNVERIFIED =
  'The store has keys that were made before it could check KEY_PEPPER. The present KEY_PEPPER is taken for theirs, and another one is refused from now on.';

function newHistory(random: Random): PepperHistory {
  return { peppers: [], root: Buffer.from(random(ROOT_BYTES)).toString('base64url') };
}

/** @throws Failure `pepper_mismatch`, `store_corrupt` */
function open(text: string, peppers: readonly string[]): PepperHistory {
  const { checks, sealed } = read(text, RECORD);
  const newest = peppers.find((pepper) => isSameDigest(pepperCheckOf(pepper), checks[0]!));
  if (newest === undefined) {
    throw new Failure(
      'pepper_mismatch',
      'KEY_PEPPER is missing, or it is not the pepper under which the keys in this store are made: each of them would be refused. ' +
        'Set KEY_PEPPER to that pepper; with the embedded store it may be in tollgate.pepper in the data folder of the gateways. ' +
        'While it is being changed, KEY_PEPPER holds both: `old,new` first, then `new,old`.',
    );
  }
  return read(unseal(sealed, newest), HISTORY);
}

/** Whether the record already holds these peppers. */
function isUpToDate(text: string, peppers: readonly string[], { peppers: known }: PepperHistory): boolean {
  const { checks } = read(text, RECORD);
  return (
    checks.length === peppers.length &&
    peppers.every((pepper, i) => isSameDigest(pepperCheckOf(pepper), checks[i]!) && known.includes(pepper))
  );
}

function seal(history: PepperHistory, peppers: readonly string[], random: Random): string {
  const iv = random(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', sealingKeyOf(peppers[0]!), iv);
  const text = Buffer.concat([cipher.update(JSON.stringify(history)), cipher.final()]);
  const sealed = Buffer.concat([iv, cipher.getAuthTag(), text]).toString('base64url');
  return JSON.stringify({ checks: peppers.map(pepperCheckOf), sealed });
}

function unseal(sealed: string, pepper: string): string {
  const bytes = Buffer.from(sealed, 'base64url');
  try {
    const options = { authTagLength: TAG_BYTES };
    const decipher = createDecipheriv('aes-256-gcm', sealingKeyOf(pepper), bytes.subarray(0, IV_BYTES), options);
    decipher.setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
    return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]).toString();
  } catch (cause) {
    throw unreadable(cause);
  }
}

function read<T>(text: string, schema: z.ZodType<T>): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Reported below without the syntax error, which quotes the text.
  }
  const outcome = schema.safeParse(value);
  if (!outcome.success) throw unreadable();
  return outcome.data;
}

function unreadable(cause?: unknown): Failure {
  return new Failure(
    'store_corrupt',
    'The record of the peppers in the store cannot be read (`tg:peppers` in Redis, the table `peppers` in tollgate.db). Restore it, or remove it.',
    cause,
  );
}

/**
 * A value that shows whether two peppers are the same, without revealing either.
 *
 * Neither this nor the sealing key can equal the digest of a secret: the input of those is a SHA-256 of 32 bytes, and
 * neither input here has that length.
 */
export function pepperCheckOf(pepper: string): string {
  return createHmac('sha256', pepper).update('tollgate pepper check').digest('base64url');
}

function sealingKeyOf(pepper: string): Buffer {
  return createHmac('sha256', pepper).update('tollgate pepper history').digest();
}

/** `unchecked`: the gateway has not reached the store yet. */
export type PepperState = 'unchecked' | 'right' | 'mismatch';

/**
 * Fault: a gateway with a wrong KEY_PEPPER starts before its Redis. A key that it made when Redis is there, and
 * before it has looked at the record of the peppers, would be acknowledged and never work.
 * @throws Failure
 */
export function refuseUnlessRight(pepper: PepperState): void {
  if (pepper === 'mismatch') throw new Failure('pepper_mismatch', 'Another KEY_PEPPER is in use.');
  if (pepper === 'unchecked') throw new Failure('store_unavailable', 'KEY_PEPPER has not been checked yet.');
}
