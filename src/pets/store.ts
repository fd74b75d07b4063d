import { closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Failure } from '../failure.ts';
import type { NewPet, Pet, PetStatus } from './pet.ts';

/** The store of animals. An animal that `add` has returned is on disk. Every method throws the errors of the database. */
export interface PetStore {
  /** Animals from `firstId` on, ordered by id. `nextId` is the first id of the next page; null on the last page. */
  list(query: ListQuery): { readonly pets: readonly Pet[]; readonly nextId: bigint | null };
  get(id: bigint): Pet | null;
  /** Ids only grow and are never reused. */
  add(pet: NewPet): Pet;
  close(): void;
}

/** The parameters of `GET /v1/pets`. `status` null: animals in any state. `firstId`: the lowest id of the page. */
export interface ListQuery {
  readonly limit: number;
  readonly status: PetStatus | null;
  readonly firstId: bigint;
}

/**
 * Opens the database file. If it does not exist, creates and seeds it, with its folder; only this user can read them.
 * @throws Failure `bad_settings` if the file cannot be opened, `store_corrupt` if it is not a database of this version
 */
export function openPetStore(databaseFile: string): PetStore {
  let db: DatabaseSync | undefined;
  try {
    mkdirSync(dirname(databaseFile), { recursive: true, mode: 0o700 });
    // SQLite would create the file readable to all users. The files that it adds beside this one get the same mode.
    closeSync(openSync(databaseFile, 'a', 0o600));
    // Another process that uses the file holds the lock for one small write at most.
    db = new DatabaseSync(databaseFile, { timeout: 2_000 });
    prepareSchema(db);
    return storeOver(db);
  } catch (cause) {
    db?.close();
    throw failureOf(cause, databaseFile);
  }
}

function storeOver(db: DatabaseSync): PetStore {
  const all = prepare(db, `SELECT ${COLUMNS} FROM pets WHERE id >= ? ORDER BY id LIMIT ?`);
  const some = prepare(db, `SELECT ${COLUMNS} FROM pets WHERE status = ? AND id >= ? ORDER BY id LIMIT ?`);
  const one = prepare(db, `SELECT ${COLUMNS} FROM pets WHERE id = ?`);
  const insert = prepare(db, INSERT);
  return {
    list({ limit, status, firstId }) {
      // One row more than the limit shows whether there is a next page, and where it begins.
      const rows = status === null ? all.all(firstId, limit + 1) : some.all(status, firstId, limit + 1);
      const pets = rows as unknown as Pet[];
      return { pets: pets.slice(0, limit), nextId: pets[limit]?.id ?? null };
    },
    get: (id) => (one.get(id) as unknown as Pet | undefined) ?? null,
    add(pet) {
      const { lastInsertRowid } = insert.run(pet.name, pet.categoryId, pet.status);
      return { id: BigInt(lastInsertRowid), ...pet };
    },
    close: () => db.close(),
  };
}

/** Seeds only a database without a schema, so that animals which a person deleted by hand do not come back. */
function prepareSchema(db: DatabaseSync): void {
  // FULL: an animal whose creation was acknowledged with 201 survives a power cut.
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;');
  // IMMEDIATE: if two processes open a new file at once, one creates the table and the other finds it.
  db.exec('BEGIN IMMEDIATE');
  const version = db.prepare('PRAGMA user_version').get()?.user_version;
  if (version === 0) {
    db.exec(SCHEMA);
    const insert = db.prepare(INSERT);
    for (const pet of SEED) insert.run(pet.name, pet.categoryId, pet.status);
  } else if (version !== SCHEMA_VERSION) {
    throw new Failure('store_corrupt', 'it was made by another version of Tollgate');
  }
  db.exec('COMMIT');
}

function prepare(db: DatabaseSync, sql: string) {
  const statement = db.prepare(sql);
  statement.setReadBigInts(true);
  return statement;
}

/** `bad_settings` if the folder cannot be written, `store_corrupt` if SQLite or this version cannot read the file. */
function failureOf(cause: unknown, databaseFile: string): Failure {
  const { message, errcode } = cause as { message: string; errcode?: number };
  const primary = errcode === undefined ? null : errcode & 0xff;
  const unreadable =
    cause instanceof Failure || primary === SQLITE_ERROR || primary === SQLITE_CORRUPT || primary === SQLITE_NOTADB;
  return new Failure(
    unreadable ? 'store_corrupt' : 'bad_settings',
    `${databaseFile} cannot be used: ${message}. Set TOLLGATE_DATA to another folder, or repair or move what is there.`,
    cause,
  );
}

const SQLITE_ERROR = 1;
const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

const COLUMNS = 'id, name, category_id AS categoryId, status';
const INSERT = 'INSERT INTO pets (name, category_id, status) VALUES (?, ?, ?)';
const SCHEMA_VERSION = 1;
const SCHEMA = `
  CREATE TABLE pets (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL,
    category_id INTEGER NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('available', 'pending', 'sold'))
  ) STRICT;
  CREATE INDEX pets_by_status ON pets (status);
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/** The animals of a new store, so that a first GET returns something. */
const SEED: readonly NewPet[] = [
  { name: 'Biscuit', categoryId: 1n, status: 'available' },
  { name: 'Pebble', categoryId: 2n, status: 'available' },
  { name: 'Juniper', categoryId: 1n, status: 'pending' },
  { name: 'Marmalade', categoryId: 3n, status: 'sold' },
  { name: 'Otis', categoryId: 2n, status: 'available' },
];
