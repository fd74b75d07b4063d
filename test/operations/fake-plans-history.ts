import { Failure } from '../../src/failure.ts';
import type { Actor } from '../../src/operations/audit-trail.ts';
import type { PlansHistory, PlansVersion } from '../../src/operations/plans/plans-history-store.ts';

/** A history of plans in memory, whose writes can fail. It keeps any number of versions. */
export class FakePlansHistory implements PlansHistory {
  #kept: (PlansVersion & { readonly text: string })[] = [];
  readonly #claims = new Map<number, Actor>();
  fails = false;

  async claim(number: number, by: Actor): Promise<void> {
    this.#claims.set(number, by);
    this.#kept = this.#kept.map((one) => (one.number === number ? { ...one, by } : one));
  }

  async add(version: PlansVersion, text: string): Promise<void> {
    if (this.fails) throw new Failure('store_unavailable', 'no room');
    const before = this.#kept.findLast(({ number }) => number <= version.number);
    if (before?.number === version.number || before?.version === version.version) return;
    const by = this.#claims.get(version.number) ?? version.by;
    this.#kept = [...this.#kept, { ...version, by, text }].toSorted((a, b) => a.number - b.number);
  }

  async list(): Promise<readonly PlansVersion[]> {
    return this.#kept.map(({ text: _, ...version }) => version).toReversed();
  }

  async text(number: number): Promise<string | null> {
    return this.#kept.find((one) => one.number === number)?.text ?? null;
  }
}
