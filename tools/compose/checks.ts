export interface Totals {
  passed: number;
  failed: number;
  skipped: number;
}

/** Runs named checks one after the other, prints a line for each, and counts them. */
export class Checks {
  readonly totals: Totals = { passed: 0, failed: 0, skipped: 0 };
  readonly #print: (line: string) => void;
  readonly #now: () => number;

  /** @param now milliseconds of a clock that never goes back */
  constructor(print: (line: string) => void, now: () => number) {
    this.#print = print;
    this.#now = now;
  }

  /** @returns what the check returned, or null when it threw, which makes it a failed one */
  async that<T>(guarantee: string, check: () => Promise<T>): Promise<T | null> {
    const beganMs = this.#now();
    const took = () => `${((this.#now() - beganMs) / 1000).toFixed(1)} s`;
    try {
      const result = await check();
      this.totals.passed++;
      this.#print(`ok      ${guarantee} (${took()})`);
      return result;
    } catch (error) {
      this.totals.failed++;
      const reason = error instanceof Error ? error.message : String(error);
      this.#print(`FAILED  ${guarantee} (${took()})\n        ${reason.replaceAll('\n', '\n        ')}`);
      return null;
    }
  }

  skip(guarantee: string, why: string): void {
    this.totals.skipped++;
    this.#print(`skipped ${guarantee}: ${why}`);
  }

  /** The line that ends the output of every suite here. */
  summary(): string {
    const { passed, failed, skipped } = this.totals;
    return `${passed} passed, ${failed} failed, ${skipped} skipped`;
  }
}
