import { Failure } from '../../src/failure.ts';
import type {
  AuditRecord,
  AuditStore,
  KeptRecord,
  KeptRefusals,
  PutOptions,
  Refusal,
} from '../../src/operations/audit-store.ts';

/** A record of changes in memory, whose writes can fail. */
export class FakeAuditStore implements AuditStore {
  readonly kept: KeptRecord[] = [];
  /** By actor and action; the clock stands still. */
  readonly refused = new Map<string, KeptRefusals>();
  /** Every version that was written, in order. */
  readonly written: Record<string, unknown>[] = [];
  /** True for each write that fails, from 1; none unless told. */
  fails: (write: number) => boolean = () => false;
  #writes = 0;
  #last = 0;

  async put({ id, text }: AuditRecord, _options: PutOptions): Promise<number> {
    if (this.fails(++this.#writes)) throw new Failure('store_unavailable', 'no room');
    this.written.push(JSON.parse(text));
    const at = this.kept.findIndex((record) => record.id === id);
    if (at >= 0) this.kept[at] = { ...this.kept[at]!, text };
    else this.kept.push({ number: ++this.#last, id, atMs: 1, text });
    return this.kept.find((record) => record.id === id)!.number;
  }

  async remove(id: string): Promise<void> {
    const at = this.kept.findIndex((record) => record.id === id);
    if (at >= 0) this.kept.splice(at, 1);
  }

  async refuse({ id, actor, action, text }: Refusal): Promise<void> {
    if (this.fails(++this.#writes)) throw new Failure('store_unavailable', 'no room');
    const key = `${actor} ${action}`;
    const before = this.refused.get(key);
    this.refused.set(key, { id: before?.id ?? id, text, count: (before?.count ?? 0) + 1, firstMs: 1, lastMs: 1 });
  }

  readonly loads = new Map<string, { readonly state: string; readonly number: number }>();

  async exchangeLoad(file: string, from: string | null, to: string) {
    if (this.fails(++this.#writes)) throw new Failure('store_unavailable', 'no room');
    const { state: found, number } = this.loads.get(file) ?? { state: null, number: 0 };
    if (from !== null && found !== null && found !== from) return { found, number };
    this.loads.set(file, { state: to, number: number + 1 });
    return { found, number: number + 1 };
  }

  async refusals() {
    return [...this.refused.values()];
  }

  async list({ limit, before }: { readonly limit: number; readonly before: number | null }) {
    return this.kept
      .filter(({ number }) => before === null || number < before)
      .toReversed()
      .slice(0, limit);
  }
}
