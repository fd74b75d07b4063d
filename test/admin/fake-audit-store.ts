import { Failure } from '../../src/failure.ts';
import type { AuditRecord, AuditStore, KeptRecord, PutOptions } from '../../src/operations/audit-store.ts';

/** A record of changes in memory, whose writes can fail. */
export class FakeAuditStore implements AuditStore {
  readonly kept: KeptRecord[] = [];
  /** Every version that was written, in order. */
  readonly written: Record<string, unknown>[] = [];
  /** True for each write that fails, from 1; none unless told. */
  fails: (write: number) => boolean = () => false;
  #writes = 0;

  async put({ id, text }: AuditRecord, _options: PutOptions): Promise<number> {
    if (this.fails(++this.#writes)) throw new Failure('store_unavailable', 'no room');
    this.written.push(JSON.parse(text));
    const at = this.kept.findIndex((record) => record.id === id);
    if (at >= 0) this.kept[at] = { ...this.kept[at]!, text };
    else this.kept.push({ number: this.kept.length + 1, id, atMs: 1, text });
    return at >= 0 ? at + 1 : this.kept.length;
  }

  async list({ limit, before }: { readonly limit: number; readonly before: number | null }) {
    return this.kept
      .filter(({ number }) => before === null || number < before)
      .toReversed()
      .slice(0, limit);
  }
}
