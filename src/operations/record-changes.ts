import type { Durability } from '../admit/ledger.ts';
import type { Plans } from '../admit/plan.ts';
import type { RecordStore } from '../identify/record-store.ts';
import type { StoredRecord } from '../model/record.ts';
import { edited, type RecordEdits, resumed, suspended } from './key-changes.ts';
import { insistOnPlan } from './plans/history.ts';
import type { suspensionOf } from './suspensions.ts';

/** A record before and after a change. */
export interface Changed<T> {
  readonly before: T;
  readonly record: T;
  readonly durability: Durability;
}

/**
 * Checks the key, or the customer, inside the store's atomic update, just before the change, and throws if it must not be changed. The admin
 * API uses it for If-Match.
 */
export type Guard = (before: StoredRecord) => void;

export interface RecordChangesOptions {
  /** Returns the plans in force. */
  readonly plans: () => Plans;
  /** The plans in force that later plans of another gateway lack. Never rejects with Failure. */
  readonly goneElsewhere: () => Promise<ReadonlySet<string>>;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/** What sets the records of one kind apart. */
interface Kind<T> {
  readonly what: 'key' | 'customer';
  readonly store: RecordStore<T>;
  /** Throws that there is no such record. */
  readonly unknown: (id: string) => never;
}

/**
 * What operators do with keys and with customers alike.
 * @throws Failure `not_found`, `refused`, `conflict`, `store_unavailable`, `store_corrupt` from every method
 */
export class RecordChanges<T extends StoredRecord> {
  readonly #options: RecordChangesOptions;
  readonly #kind: Kind<T>;

  constructor(options: RecordChangesOptions, kind: Kind<T>) {
    this.#options = options;
    this.#kind = kind;
  }

  get plans(): Plans {
    return this.#options.plans();
  }

  async show(id: string): Promise<T> {
    return (await this.#kind.store.get(id)) ?? this.#kind.unknown(id);
  }

  async update(id: string, edits: RecordEdits, guard?: Guard): Promise<Changed<T>> {
    const { goneElsewhere, nowMs } = this.#options;
    if (edits.plan !== undefined) insistOnPlan(edits.plan, await goneElsewhere());
    const deps = { plans: this.plans.plans, nowMs: nowMs() };
    return this.change(id, (before) => edited(before, edits, deps, this.#kind.what), guard);
  }

  /** Suspends a record until a moment (Unix milliseconds), or until it is resumed. */
  suspend(id: string, given: Parameters<typeof suspensionOf>[1], guard?: Guard): Promise<Changed<T>> {
    const nowMs = this.#options.nowMs();
    return this.change(id, (before) => suspended(before, given, nowMs), guard);
  }

  resume(id: string, guard?: Guard): Promise<Changed<T>> {
    return this.change(id, resumed, guard);
  }

  protected async change(id: string, change: (record: T) => T, guard?: Guard): Promise<Changed<T>> {
    let before: T | null = null;
    const updated = await this.#kind.store.update(id, (present) => {
      before = present;
      guard?.(present);
      return change(present);
    });
    return updated === null || before === null ? this.#kind.unknown(id) : { before, ...updated };
  }
}
