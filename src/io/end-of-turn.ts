/**
 * Work for the end of this turn of the event loop, when everything that had arrived has been read, and for the end of
 * the next.
 */
export interface Ending {
  atEnd(): void;
  atNextEnd(): void;
}

/**
 * Runs all work for the end of a turn together. Responses that are written in direct succession wake their reader only
 * once, which saves half the cost of a small write.
 */
export class EndOfTurn {
  #endings: Ending[] = [];
  /** Work whose first turn has ended. */
  #later: Ending[] = [];

  add(ending: Ending): void {
    if (this.#endings.length === 0 && this.#later.length === 0) setImmediate(this.#run);
    this.#endings.push(ending);
  }

  readonly #run = (): void => {
    const [endings, later] = [this.#endings, this.#later];
    this.#endings = [];
    this.#later = endings;
    if (endings.length > 0) setImmediate(this.#run);
    for (const ending of later) {
      try {
        ending.atNextEnd();
      } catch (error) {
        throwLater(error);
      }
    }
    for (const ending of endings) {
      try {
        ending.atEnd();
      } catch (error) {
        throwLater(error);
      }
    }
  };
}

/** Rethrows an error later, so that it reaches the process but does not keep the other work from running. */
function throwLater(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}
