/** What is left to do at the end of a turn of the event loop, when all that had arrived has been read, and of the next. */
export interface Ending {
  atEnd(): void;
  atNextEnd(): void;
}

/**
 * Does in one go what many have to do at the end of a turn. Answers that are written one right after the other wake their
 * reader once, where each of them would wake it: that is half the price of a small write.
 */
export class EndOfTurn {
  #endings: Ending[] = [];
  /** Those whose first turn has ended. */
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

/** What one of them throws reaches the process, and keeps none of the others from its end. */
function throwLater(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}
