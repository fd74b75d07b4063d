import { isDeepStrictEqual } from 'node:util';
import { Failure } from '../../failure.ts';
import { recognised } from '../../identify/key-changes.ts';
import { digestsOf, type KeyStore, type StoredKey } from '../../identify/key-store.ts';
import { type MovedKey, type MovedKeyMeans, movedKey } from './moved-key.ts';
import type { Line } from './rows.ts';

/** What became of one line. */
export interface LineOutcome {
  readonly line: number;
  /** `already`: the key is there and was left as it is. `unknown`: it was moved, and a failover of the store may undo it. */
  readonly kind: 'moved' | 'unknown' | 'already' | 'refused';
  /** The key's id; null where it was refused. */
  readonly id: string | null;
  /** Why it was refused, how the key that is there differs, or why it may be of no use; null where there is nothing to tell. */
  readonly why: string | null;
}

export interface MoveOptions extends Omit<MovedKeyMeans, 'nowMs'> {
  readonly keys: Pick<KeyStore, 'ownerOf' | 'get' | 'createEach' | 'update'>;
  readonly nowMs: () => number;
  /** True: nothing is written, and all else is as if it were. */
  readonly dryRun: boolean;
}

/** Lines that are taken to the store together. They wait together until they are on its replicas and its disk. */
const AT_ONCE = 1_000;
const UNKNOWN = 'was imported, but a failover of Redis may still undo it; import the file again to be sure.';

/**
 * Moves keys into the store, each line whole or not at all. Whoever is interrupted begins again from the start: what is
 * there already is found and left alone.
 *
 * A secret that was revoked or rotated away is not brought back by an old file: the store remembers the digests that a key
 * had, and all peppers that it has had.
 * @throws Failure `store_unavailable`; the lines told until then are done
 */
export async function* moveKeys(lines: AsyncIterable<Line>, options: MoveOptions): AsyncGenerator<LineOutcome> {
  const seen = new Set<string>();
  let batch: Line[] = [];
  let broken: { readonly error: unknown } | null = null;
  try {
    for await (const line of lines) {
      batch.push(line);
      if (batch.length < AT_ONCE) continue;
      const full = batch;
      batch = [];
      yield* await moveBatch(full, options, seen);
    }
  } catch (error) {
    broken = { error };
  }
  // Where a file breaks off, what stands before that is moved all the same.
  yield* await moveBatch(batch, options, seen);
  if (broken !== null) throw broken.error;
}

interface Read {
  readonly line: number;
  readonly moved: MovedKey;
}

async function moveBatch(lines: readonly Line[], options: MoveOptions, seen: Set<string>): Promise<LineOutcome[]> {
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

/** What the store would say of a key that came before in the same file. */
function firstOf(id: string, seen: Set<string>): 'created' | 'taken' {
  if (seen.has(id)) return 'taken';
  seen.add(id);
  return 'created';
}

function readLine(line: Line, options: MoveOptions): Read | LineOutcome {
  const refused = (why: string): LineOutcome => ({ line: line.line, kind: 'refused', id: null, why });
  if ('fault' in line) return refused(line.fault);
  try {
    return { line: line.line, moved: movedKey(line.row, { ...options, nowMs: options.nowMs() }) };
  } catch (error) {
    if (error instanceof Failure && error.code === 'refused') return refused(error.message);
    throw error;
  }
}

async function find({ digests, ids }: MovedKey, { keys }: MoveOptions): Promise<StoredKey | null> {
  for (const digest of digests) {
    const key = await keys.ownerOf(digest);
    if (key !== null) return key;
  }
  // Its id follows from its secret: it is the same key, which has got another secret since.
  for (const id of ids) {
    const key = await keys.get(id, { evenDeleted: true });
    if (key !== null) return key;
  }
  return null;
}

/** So that it works, or is recognised, under the newest pepper alone. */
async function putUnderNewest({ digests }: MovedKey, there: StoredKey | null, { keys }: MoveOptions): Promise<void> {
  if (there === null || digestsOf(there).includes(digests[0]!)) return;
  await keys.update(there.id, (key) => recognised(key, digests));
}

function already({ line, moved }: Read, there: StoredKey | null): LineOutcome {
  if (there === null) {
    return { line, kind: 'refused', id: null, why: 'could not be stored, and is not there either; try again.' };
  }
  return { line, kind: 'already', id: there.id, why: differenceOf(moved, there) ?? moved.warning };
}

function differenceOf({ key: wanted, digests }: MovedKey, there: StoredKey): string | null {
  if (there.deletedAtMs !== undefined) return 'was deleted here for good; it is not brought back.';
  if (there.revokedAtMs !== null) return 'is there already, and revoked; left as it is.';
  if (!there.secrets.some(({ digest }) => digests.includes(digest))) {
    return 'is there already, with another secret since; left as it is.';
  }
  const compared = ['plan', 'limits', 'name', 'owner', 'notes'] as const;
  const different = compared.filter((member) => !isDeepStrictEqual(wanted[member], there[member]));
  return different.length === 0 ? null : `is there already, with another ${different.join(', ')}; left as it is.`;
}
