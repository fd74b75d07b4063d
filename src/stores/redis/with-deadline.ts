import { Failure } from '../../failure.ts';

/** No answer came before the deadline. */
export class Late extends Failure {
  constructor(withinMs: number) {
    super('store_unavailable', `Redis did not answer within ${withinMs} ms.`);
  }
}

/**
 * The deadline runs on the store's silence, not on our own: when the process was busy, replies that have arrived are
 * read (one turn of the event loop) before anything is called late.
 * @param told what the deadline is called in the complaint
 */
export function withDeadline<T>(promise: Promise<T>, timeoutMs: number, told: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      setImmediate(() => reject(new Late(told)));
    }, timeoutMs);
    promise.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}
