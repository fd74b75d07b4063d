/** Work that is done one piece after the other, in the order in which it was asked for. */
export class OneByOne {
  #last: Promise<unknown> = Promise.resolve();

  /** @returns what comes of the work; nothing that was asked for before or after it is kept from being done by a failure */
  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {});
    return done;
  }
}
