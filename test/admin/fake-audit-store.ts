import { Failure } from '../../src/failure.ts';
import type {
  AuditRecord,
  AuditStore,
  KeptRecord,
  KeptRefusals,
  LoadStep,
  PutOptions,
  Refusal,
} from '../../src/operations/audit-store.ts';

/** A record of changes in memory, whose writes can fail. */
export class FakeAuditStore implements AuditStore {
  readonly places = { records: 'memory', refusals: 'memory' };
  readonly kept: KeptRecord[] = [];
  /** By actor and action; the clock stands still. */
  readonly refused = new Map<string, KeptRefusals>();
  /** Every version that was written, in order. */
  readonly written: Record<string, unknown>[] = [];
  /** True for each write that fails, from 1; none by default. */
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

  /** The states of each file; the number of the first is 1. */
  readonly loads = new Map<string, string[]>();

  async exchangeLoad(file: string, { from, to, since }: LoadStep) {
    if (this.fails(++this.#writes)) throw new Failure('store_unavailable', 'no room');
    const states = this.loads.get(file) ?? [];
    this.loads.set(file, states);
    const found = states.at(-1) ?? null;
    const at = since === null ? -1 : states.indexOf(to, since);
    const known = at < 0 ? null : at + 1;
    if (known === null && found !== to && (from === null || found === null || found === from)) states.push(to);
    return { found, number: states.length, known };
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
