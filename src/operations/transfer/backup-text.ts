import { z } from 'zod';
import { Failure } from '../../failure.ts';
import { pepperCheckOf } from '../../identify/pepper-record.ts';
import {
  isReadable,
  kindOf,
  type Listed,
  readRecord,
  readStoredCustomer,
  readStoredKey,
  type StoredRecord,
  type UnreadableRecord,
} from '../../model/record.ts';
import type { OpenedFile } from './sealed-file.ts';

// The text of a backup: one JSON object a line. The first describes the backup, the last has the number of keys, and
// each line between them is the store's record of a customer or, after them, of a key with the digests of its secrets.

/** The first line of a backup. */
interface BackupHead {
  /** RFC 3339, UTC. */
  readonly madeAt: string;
  /** A check value of each pepper that was in use, newest first. They reveal no pepper. */
  readonly peppers: readonly string[];
}

const HEAD = z.looseObject({ madeAt: z.string(), peppers: z.array(z.string()).min(1) });
const END = z.looseObject({ keys: z.number().int().min(0), customers: z.number().int().min(0).optional() });

interface BackupEvents {
  /** Called with the number of keys so far. */
  readonly onKeys: (count: number) => void;
  /** Called with each record that the backup lacks. */
  readonly onUnreadable: (record: UnreadableRecord) => void;
}

/** Lines that are joined before they are encrypted. */
const LINES_TOGETHER = 100;

/**
 * The text of a backup. It cannot have the records that cannot be read.
 * @param records every customer, then every key
 * @param peppers those in use, newest first
 */
export async function* backupText(
  records: AsyncIterable<Listed<StoredRecord>>,
  { peppers, nowMs }: { readonly peppers: readonly string[]; readonly nowMs: number },
  { onKeys, onUnreadable }: BackupEvents,
): AsyncGenerator<string> {
  const head: BackupHead = { madeAt: new Date(nowMs).toISOString(), peppers: peppers.map(pepperCheckOf) };
  const counts = { customer: 0, key: 0 };
  let text = `${JSON.stringify(head)}\n`;
  for await (const record of records) {
    if (!isReadable(record)) {
      onUnreadable(record);
      continue;
    }
    text += `${JSON.stringify(record)}\n`;
    if (++counts[kindOf(record.id)] % LINES_TOGETHER !== 0) continue;
    yield text;
    text = '';
    onKeys(counts.key);
  }
  onKeys(counts.key);
  // Without customers the text is that of earlier versions, which read it.
  const end = { keys: counts.key, ...(counts.customer === 0 ? {} : { customers: counts.customer }) };
  yield `${text}${JSON.stringify(end)}\n`;
}

/** A backup that was read to its end once, so that all of it is known to be there and unaltered. */
export interface Backup extends BackupHead {
  /** How many keys it has. */
  readonly count: number;
  /** Customers before their keys. */
  records(): AsyncGenerator<StoredRecord>;
}

/**
 * Reads a whole backup and keeps none of it.
 * @throws Failure `refused` if the passphrase is wrong, or any part of the file is damaged or missing
 */
export async function verifiedBackup(file: OpenedFile): Promise<Backup> {
  let head: BackupHead | null = null;
  let lines = 0;
  let last = '';
  for await (const line of linesOf(file)) {
    if (head === null) head = read(HEAD, line);
    else if (lines > 1) recordOf(last);
    last = line;
    lines++;
  }
  if (head === null || lines < 2) throw incomplete();
  const { keys, customers = 0 } = read(END, last);
  if (keys + customers !== lines - 2) throw incomplete();
  return { ...head, count: keys, records: () => recordsOf(file, keys + customers) };
}

/** The records, which are between the first line and the last. */
async function* recordsOf(file: OpenedFile, count: number): AsyncGenerator<StoredRecord> {
  let number = -1;
  for await (const line of linesOf(file)) {
    if (number >= 0 && number < count) yield recordOf(line);
    number++;
  }
}

/** @throws Failure `store_corrupt` if a line is neither a customer nor a key */
function recordOf(line: string): StoredRecord {
  return line.startsWith('{"id":"cus_') ? readStoredCustomer(line) : readStoredKey(line);
}

async function* linesOf(file: OpenedFile): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let rest = '';
  for await (const part of file.parts()) {
    const lines = (rest + decoder.decode(part, { stream: true })).split('\n');
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest !== '') throw incomplete();
}

function read<T>(schema: z.ZodType<T>, line: string): T {
  try {
    return readRecord(line, schema, 'a line of a backup');
  } catch {
    // Told without the text.
    throw incomplete();
  }
}

/** Only a program that has the passphrase, and is not ours, can write such a file. */
function incomplete(): Failure {
  return new Failure('refused', 'The backup does not hold what `tollgate keys backup` writes. Use another copy of it.');
}
