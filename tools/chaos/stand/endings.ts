/** What has been started and is to be ended, the last first. */
export class Endings {
  readonly #ends: (() => unknown)[] = [];

  add(end: () => unknown): void {
    this.#ends.push(end);
  }

  /** Ends everything, also where one of them fails; the first failure is thrown afterwards. */
  async end(): Promise<void> {
    const failures: unknown[] = [];
    for (const end of this.#ends.splice(0).reverse()) {
      try {
        await end();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
