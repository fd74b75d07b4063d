import { Failure } from '../../src/failure.ts';
import type { Authorship, PlansHistory, PlansVersion } from '../../src/operations/plans/plans-history-store.ts';

/** A history of plans in memory, whose writes can fail. It keeps any number of versions. */
export class FakePlansHistory implements PlansHistory {
  #kept: (PlansVersion & { readonly text: string })[] = [];
  readonly #claims = new Map<number, Authorship>();
  fails = false;

  async claim(number: number, of: Authorship): Promise<void> {
    this.#claims.set(number, of);
    this.#kept = this.#kept.map((one) => (one.number === number ? { ...one, ...of } : one));
  }

  async add(version: PlansVersion, text: string): Promise<void> {
    if (this.fails) throw new Failure('store_unavailable', 'no room');
    const before = this.#kept.findLast(({ number }) => number <= version.number);
    if (before?.number === version.number || before?.version === version.version) return;
    this.#kept = [...this.#kept, { ...version, ...this.#claims.get(version.number), text }].toSorted(
      (a, b) => a.number - b.number,
    );
  }

  async list(): Promise<readonly PlansVersion[]> {
    return this.#kept.map(({ text: _, ...version }) => version).toReversed();
  }

  async text(number: number): Promise<string | null> {
    return this.#kept.find((one) => one.number === number)?.text ?? null;
  }
}
