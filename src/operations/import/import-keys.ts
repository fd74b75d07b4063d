import { isDeepStrictEqual } from 'node:util';
import { Failure } from '../../failure.ts';
import { digestsOf, type KeyStore, type StoredKey } from '../../identify/key-store.ts';
import { recognised } from '../key-changes.ts';
import { type ImportedKey, type ImportedKeyDeps, importedKey } from './imported-key.ts';
import type { ImportLine } from './rows.ts';

/** The result of importing one line. */
export interface LineOutcome {
  readonly line: number;
  /**
   * `already`: the key exists and was left as it is. `unknown`: it was imported, but a failover of the store may undo
   * that.
   */
  readonly kind: 'moved' | 'unknown' | 'already' | 'refused';
  /** The key's id; null if the line was refused. */
  readonly id: string | null;
  /**
   * Why the line was refused, how the existing key differs, or why the key may not work; null if there is nothing to
   * report.
   */
  readonly why: string | null;
}

export interface ImportOptions extends Omit<ImportedKeyDeps, 'nowMs'> {
  readonly keys: Pick<KeyStore, 'ownerOf' | 'get' | 'createEach' | 'update'>;
  readonly nowMs: () => number;
  /** If true, nothing is written, but the outcomes are reported as if it were. */
  readonly dryRun: boolean;
}

/** Lines that are written to the store together. They also wait together until its replicas and its disk have them. */
const BATCH_LINES = 1_000;
const UNKNOWN = 'was imported, but a failover of Redis may still undo it; import the file again to be sure.';

/**
 * Imports keys into the store, each line completely or not at all. After an interruption the operator imports the file
 * again from the start: keys that already exist are found and left as they are.
 *
 * An old file does not bring back a secret that was revoked or rotated away, because the store remembers all digests of
 * a key and all peppers that it has had.
 * @throws Failure `store_unavailable`; the lines reported until then are done
 */
export async function* importKeys(
  lines: AsyncIterable<ImportLine>,
  options: ImportOptions,
): AsyncGenerator<LineOutcome> {
  const seen = new Set<string>();
  let batch: ImportLine[] = [];
  let broken: { readonly error: unknown } | null = null;
  try {
    for await (const line of lines) {
      batch.push(line);
      if (batch.length < BATCH_LINES) continue;
      const full = batch;
      batch = [];
      yield* await moveBatch(full, options, seen);
    }
  } catch (error) {
    broken = { error };
  }
  // If reading the file fails partway, the lines before that are imported anyway.
  yield* await moveBatch(batch, options, seen);
  if (broken !== null) throw broken.error;
}

interface Read {
  readonly line: number;
  readonly moved: ImportedKey;
}

async function moveBatch(
  lines: readonly ImportLine[],
  options: ImportOptions,
  seen: Set<string>,
): Promise<LineOutcome[]> {
  const outcomes = new Map<number, LineOutcome>();
  const read: Read[] = [];
  for (const line of lines) {
    const one = readLine(line, options);
    if ('why' in one) outcomes.set(line.line, one);
    else read.push(one);
  }
  const fresh: Read[] = [];
  const known = await Promise.all(read.map(({ moved }) => find(moved, options)));
  if (!options.dryRun) await Promise.all(read.map(({ moved }, i) => putUnderNewest(moved, known[i] ?? null, options)));
  for (const [i, one] of read.entries()) {
    const key = known[i] ?? null;
    if (key !== null) outcomes.set(one.line, already(one, key));
    else fresh.push(one);
  }
  const stored = options.dryRun
    ? fresh.map(({ moved }) => firstOf(moved.key.id, seen))
    : await options.keys.createEach(fresh.map(({ moved }) => moved.key));
  for (const [i, one] of fresh.entries()) {
    const { key, warning } = one.moved;
    if (stored[i] === 'created') outcomes.set(one.line, { line: one.line, kind: 'moved', id: key.id, why: warning });
    else if (stored[i] === 'unknown')
      outcomes.set(one.line, { line: one.line, kind: 'unknown', id: key.id, why: UNKNOWN });
    else outcomes.set(one.line, already(one, options.dryRun ? key : await find(one.moved, options)));
  }
  return lines.map(({ line }) => outcomes.get(line)!);
}

/** The result of the store for a key that may occur earlier in the same file. */
function firstOf(id: string, seen: Set<string>): 'created' | 'taken' {
  if (seen.has(id)) return 'taken';
  seen.add(id);
  return 'created';
}

function readLine(line: ImportLine, options: ImportOptions): Read | LineOutcome {
  const refused = (why: string): LineOutcome => ({ line: line.line, kind: 'refused', id: null, why });
  if ('fault' in line) return refused(line.fault);
  try {
    return { line: line.line, moved: importedKey(line.row, { ...options, nowMs: options.nowMs() }) };
  } catch (error) {
    if (error instanceof Failure && error.code === 'refused') return refused(error.message);
    throw error;
  }
}

async function find({ digests, ids }: ImportedKey, { keys }: ImportOptions): Promise<StoredKey | null> {
  for (const digest of digests) {
    const key = await keys.ownerOf(digest);
    if (key !== null) return key;
  }
  // The id is derived from the imported secret, so this is the same key, which has since got another secret.
  for (const id of ids) {
    const key = await keys.get(id, { evenDeleted: true });
    if (key !== null) return key;
  }
  return null;
}

/** Adds the digest under the newest pepper, so that the secret works, or is recognised, under that pepper alone. */
async function putUnderNewest(
  { digests }: ImportedKey,
  existing: StoredKey | null,
  { keys }: ImportOptions,
): Promise<void> {
  if (existing === null || digestsOf(existing).includes(digests[0]!)) return;
  await keys.update(existing.id, (key) => recognised(key, digests));
}

function already({ line, moved }: Read, existing: StoredKey | null): LineOutcome {
  if (existing === null) {
    return { line, kind: 'refused', id: null, why: 'could not be stored, and is not there either; try again.' };
  }
  return { line, kind: 'already', id: existing.id, why: differenceOf(moved, existing) ?? moved.warning };
}

function differenceOf({ key: wanted, digests }: ImportedKey, existing: StoredKey): string | null {
  if (existing.deletedAtMs !== undefined) return 'was deleted here for good; it is not brought back.';
  if (existing.revokedAtMs !== null) return 'is there already, and revoked; left as it is.';
  if (!existing.secrets.some(({ digest }) => digests.includes(digest))) {
    return 'is there already, with another secret since; left as it is.';
  }
  const compared = ['plan', 'limits', 'name', 'owner', 'notes'] as const;
  const different = compared.filter((member) => !isDeepStrictEqual(wanted[member], existing[member]));
  return different.length === 0 ? null : `is there already, with another ${different.join(', ')}; left as it is.`;
}
