import type { DatabaseSync } from 'node:sqlite';
import type { CustomerStore } from '../../identify/record-store.ts';
import { readStoredCustomer, type StoredCustomer } from '../../model/record.ts';
import { answering } from './database.ts';
import { EmbeddedRecords, type EmbeddedRecordsOptions, RecordTable } from './records.ts';

/** Opens the customers in the embedded store. */
export function embeddedCustomers(options: EmbeddedRecordsOptions): CustomerStore {
  // This function creates the table, not a migration, so that an earlier version can still open the file.
  answering(() =>
    options.db.exec(`
      CREATE TABLE IF NOT EXISTS customers (
        id TEXT PRIMARY KEY, created_at_ms INTEGER NOT NULL, record TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX IF NOT EXISTS customers_by_creation ON customers (created_at_ms, id);
    `),
  );
  return new EmbeddedRecords<StoredCustomer>(options, { kind: 'customer', read: readStoredCustomer });
}

/** The list of all customers. It changes nothing in the database, which lacks the table if an earlier version made it. */
export function customersIn(db: DatabaseSync): Pick<CustomerStore, 'list'> {
  const hasTable =
    answering(() => db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'customers'").get()) !== undefined;
  const table = hasTable ? new RecordTable(db, 'customers', readStoredCustomer) : null;
  return {
    list: async (page) => (table === null ? { records: [], cursor: null } : answering(() => table.list(page))),
  };
}
