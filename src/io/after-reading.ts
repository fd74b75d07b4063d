type Work = () => void;

/** Work of one turn of the event loop that runs together. */
class Phase {
  readonly #before: Phase | null;
  #work: Work[] = [];
  /** Used in turns with the other: a new array for each turn would be garbage of every lone request. */
  #spare: Work[] = [];
  #isScheduled = false;

  constructor(before: Phase | null) {
    this.#before = before;
  }

  add(work: Work): void {
    this.#work.push(work);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // Node runs them in this order, and first what the promises of the one before have led to.
    if (this.#before !== null) this.#before.#schedule();
    setImmediate(this.#run);
  }

  readonly #run = (): void => {
    const work = this.#work;
    this.#work = this.#spare;
    this.#isScheduled = false;
    for (const one of work) {
      try {
        one();
      } catch (error) {
        throwLater(error);
      }
    }
    work.length = 0;
    this.#spare = work;
  };
}

const READY = new Phase(null);
const WAITING = new Phase(READY);

/** Runs work when everything that has arrived is read. */
export function afterReading(work: Work): void {
  READY.add(work);
}

/**
 * Runs work that had to wait for its turn when everything that has arrived is read, and what that has led to is on its way. While the
 * thread does this work, Redis and the services answer.
 *
 * Fault: work that always waits, as that of a flood, is scheduled again before anything is read, so `setImmediate` ran it first. Each
 * request of all others waited for it before its own bytes were written, and one turn more for the answer to them.
 */
export function afterReadyWork(work: Work): void {
  WAITING.add(work);
}

/** Rethrows an error later, so that it reaches the process but does not keep the other work from running. */
export function throwLater(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}
