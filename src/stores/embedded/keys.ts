import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Failure } from '../../failure.ts';
import type { KeyScan, KeyStore, RecordPage } from '../../identify/record-store.ts';
import { certificateDigestsOf, indexedOf, readStoredKey, type StoredKey } from '../../model/record.ts';
import { answering } from './database.ts';
import { type Condition, EmbeddedRecords, type EmbeddedRecordsOptions, RecordTable } from './records.ts';

interface EmbeddedKeysOptions extends EmbeddedRecordsOptions {
  /** The store's clock: Unix milliseconds. Date.now by default. */
  readonly wallMs?: () => number;
}

/**
 * Maximum keys of one transaction. Each commit waits for the disk: one for each key takes minutes, and one for thousands holds up
 * the gateway's thread.
 */
const KEYS_AT_ONCE = 100;

/** The customer of a key, for the index of the keys of a customer. */
const CUSTOMER = "CASE WHEN json_valid(record) THEN json_extract(record, '$.customer') END";

/** True if a record is certainly no key: it is no JSON, or lacks its id. Any customer may have had the key. */
const IS_FOREIGN = "CASE WHEN json_valid(record) THEN json_extract(record, '$.id') END IS NOT id";

/** API keys in the embedded store, with the digests that lead to them. */
export class EmbeddedKeys extends EmbeddedRecords<StoredKey> implements KeyStore {
  readonly #db: DatabaseSync;
  readonly #wallMs: () => number;
  readonly #byDigest: StatementSync;

  constructor({ wallMs = Date.now, ...options }: EmbeddedKeysOptions) {
    const { db } = options;
    // This constructor creates the index, not a migration, so that an earlier version can still open the file. SQLite maintains the
    // index even while an earlier version writes keys.
    answering(() =>
      db.exec(`
      CREATE TABLE IF NOT EXISTS reserved (
        name TEXT PRIMARY KEY, id TEXT NOT NULL, until_ms INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX IF NOT EXISTS keys_by_customer ON keys (${CUSTOMER}, created_at_ms, id) WHERE ${CUSTOMER} IS NOT NULL;
      CREATE INDEX IF NOT EXISTS keys_foreign ON keys (created_at_ms, id) WHERE ${IS_FOREIGN};
    `),
    );
    super(options, { kind: 'key', read: readStoredKey, onWritten: (key, isNew) => point(db, key, isNew) });
    this.#db = db;
    this.#wallMs = wallMs;
    this.#byDigest = db.prepare(
      'SELECT id, record FROM digests JOIN keys ON keys.id = digests.key_id WHERE digests.digest = ?',
    );
  }

  async findByDigest(digest: string): Promise<StoredKey | null> {
    const key = await this.ownerOf(digest);
    return key?.secrets.some((secret) => secret.digest === digest) ? key : null;
  }

  async ownerOf(digest: string): Promise<StoredKey | null> {
    return answering(() => {
      const row = this.#byDigest.get(digest);
      return row === undefined ? null : this.table.read(String(row.id), String(row.record));
    });
  }

  override list({ customer, ...page }: Parameters<KeyStore['list']>[0]): Promise<RecordPage<StoredKey>> {
    return super.list(page, ofCustomer(customer));
  }

  async scan({ most, cursor, mayMatch, customer }: Parameters<KeyStore['scan']>[0]): Promise<KeyScan> {
    const part = answering(() => this.table.scan(most, cursor, mayMatch, ofCustomer(customer)));
    return { ...part, found: part.found.map(({ record, place }) => ({ key: record, place })) };
  }

  async reserve(name: string, id: string, forMs: number): Promise<string> {
    return this.write(() => {
      const nowMs = this.#wallMs();
      this.#db.prepare('DELETE FROM reserved WHERE until_ms <= ?').run(nowMs);
      this.#db.prepare('INSERT INTO reserved VALUES (?, ?, ?) ON CONFLICT DO NOTHING').run(name, id, nowMs + forMs);
      return String(this.#db.prepare('SELECT id FROM reserved WHERE name = ?').get(name)!.id);
    });
  }

  async createEach(keys: readonly StoredKey[]): Promise<readonly ('created' | 'taken')[]> {
    const outcomes: ('created' | 'taken')[] = [];
    for (let i = 0; i < keys.length; i += KEYS_AT_ONCE) {
      if (i > 0) await nextTurn();
      const part = keys.slice(i, i + KEYS_AT_ONCE);
      outcomes.push(...(await this.change(() => part.map((key) => this.#insertIfFree(key)))));
    }
    return outcomes;
  }

  #insertIfFree(key: StoredKey): 'created' | 'taken' {
    this.#db.exec('SAVEPOINT one_key');
    try {
      this.insert(key);
      return 'created';
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== 'refused') throw error;
      this.#db.exec('ROLLBACK TO one_key');
      return 'taken';
    } finally {
      this.#db.exec('RELEASE one_key');
    }
  }
}

/** Points the digests of a key to it. @throws Failure `refused` if another key has one of them */
function point(db: DatabaseSync, key: StoredKey, isNew: boolean): void {
  if (!isNew) db.prepare('DELETE FROM digests WHERE key_id = ?').run(key.id);
  // If a digest already points here, it is left from an unreadable record that an operator removed.
  const insert = db.prepare(
    'INSERT INTO digests VALUES (?, ?) ON CONFLICT DO UPDATE SET key_id = key_id WHERE key_id = excluded.key_id',
  );
  for (const digest of new Set(indexedOf(key))) {
    if (insert.run(digest, key.id).changes > 0) continue;
    const what = certificateDigestsOf(key).includes(digest) ? 'certificate' : 'secret';
    throw new Failure('refused', `There is already a key with this ${what}.`);
  }
}

/** The list of all keys. It changes nothing in the database. */
export function keysIn(db: DatabaseSync): Pick<KeyStore, 'list'> {
  const table = new RecordTable(db, 'keys', readStoredKey);
  return { list: async (page) => answering(() => table.list(page, ofCustomer(page.customer))) };
}

/** @param customer undefined: all keys */
function ofCustomer(customer: string | undefined): readonly Condition[] | undefined {
  if (customer === undefined) return undefined;
  return [
    { sql: `${CUSTOMER} IS NOT NULL AND ${CUSTOMER} = ?`, values: [customer] },
    { sql: `${IS_FOREIGN} AND ${CUSTOMER} IS NOT ?`, values: [customer] },
  ];
}
