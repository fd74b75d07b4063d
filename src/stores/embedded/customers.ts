import type { DatabaseSync } from 'node:sqlite';
import { DURABLE, type Durability } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import {
  type CustomerPage,
  type CustomerStore,
  type DeletedCustomer,
  readStoredCustomer,
  type StoredCustomer,
  type UpdatedCustomer,
} from '../../identify/customer-store.ts';
import type { StoreChange } from '../../identify/key-store.ts';
import { AcknowledgedWrites } from './acknowledged.ts';
import type { EmbeddedChanges } from './changes.ts';
import { answering, isOfStore } from './database.ts';
import { RecordTable } from './record-table.ts';

interface EmbeddedCustomersOptions {
  readonly db: DatabaseSync;
  readonly changes: EmbeddedChanges;
  /** Called with the error of each change that could not be written. Such a change has not been made. */
  readonly onFailedWrite?: (error: unknown) => void;
}

/** Customers in the embedded store. Each change is one transaction: the record and the row for other processes. */
export class EmbeddedCustomers implements CustomerStore {
  readonly #table: RecordTable<StoredCustomer>;
  readonly #writes: AcknowledgedWrites;
  readonly #changes: EmbeddedChanges;
  readonly #onFailedWrite: EmbeddedCustomersOptions['onFailedWrite'];

  constructor({ db, changes, onFailedWrite }: EmbeddedCustomersOptions) {
    // Not created by a migration, so that an earlier version can still open the file.
    answering(() =>
      db.exec(`
      CREATE TABLE IF NOT EXISTS customers (
        id TEXT PRIMARY KEY, created_at_ms INTEGER NOT NULL, record TEXT NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX IF NOT EXISTS customers_by_creation ON customers (created_at_ms, id);
    `),
    );
    this.#table = new RecordTable(db, 'customers', readStoredCustomer);
    this.#writes = new AcknowledgedWrites(db);
    this.#changes = changes;
    this.#onFailedWrite = onFailedWrite;
  }

  async get(id: string, { evenDeleted } = { evenDeleted: false }): Promise<StoredCustomer | null> {
    const customer = answering(() => this.#table.get(id));
    return customer?.deletedAtMs === undefined || evenDeleted ? customer : null;
  }

  async list(page: { readonly limit: number; readonly cursor: string | null }): Promise<CustomerPage> {
    const { records, cursor } = answering(() => this.#table.list(page));
    return { customers: records, cursor };
  }

  async create(customer: StoredCustomer): Promise<Durability> {
    await this.#change(customer.id, () => {
      if (this.#table.has(customer.id)) throw new Failure('refused', 'There is already a customer with this id.');
      this.#table.insert(customer);
      return customer;
    });
    return DURABLE;
  }

  async update(id: string, change: (customer: StoredCustomer) => StoredCustomer): Promise<UpdatedCustomer | null> {
    const changed = await this.#replace(id, (one) => (one.deletedAtMs === undefined ? change(one) : null));
    return changed === null ? null : { customer: changed.next, durability: DURABLE };
  }

  async delete(id: string, bury: (customer: StoredCustomer) => StoredCustomer): Promise<DeletedCustomer | null> {
    const changed = await this.#replace(id, bury);
    return changed === null ? null : { before: changed.before, durability: DURABLE };
  }

  /** @param change returns null to change nothing @returns null if there is no such customer or nothing was changed */
  #replace(id: string, change: (customer: StoredCustomer) => StoredCustomer | null) {
    return this.#change(id, () => {
      const before = this.#table.get(id);
      const next = before === null ? null : change(before);
      if (before === null || next === null) return null;
      this.#table.replace(next);
      return { before, next };
    });
  }

  /** @param work returns null if it has changed nothing */
  async #change<T>(id: string, work: () => T): Promise<T> {
    const change: StoreChange = { kind: 'customer', keyId: id };
    const noted = () => {
      const made = work();
      if (made !== null) this.#changes.note(change);
      return made;
    };
    try {
      // The change is in force with the commit, also if it cannot be acknowledged.
      return await this.#writes.write(noted, (made) => {
        if (made !== null) this.#changes.announce(change);
      });
    } catch (error) {
      if (isOfStore(error)) this.#onFailedWrite?.(error);
      throw error;
    }
  }
}

/** The list of all customers. It changes nothing in the database, which lacks the table if an earlier version has made it. */
export function customersIn(db: DatabaseSync): Pick<CustomerStore, 'list'> {
  const hasTable =
    answering(() => db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'customers'").get()) !== undefined;
  const table = hasTable ? new RecordTable(db, 'customers', readStoredCustomer) : null;
  return {
    list: async (page) => {
      const { records, cursor } = table === null ? { records: [], cursor: null } : answering(() => table.list(page));
      return { customers: records, cursor };
    },
  };
}
