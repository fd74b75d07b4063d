import { AsyncLocalStorage } from 'node:async_hooks';

/*
 * Which policy the code that runs at present belongs to.
 *
 * Fault: a policy starts something and does not wait for it: a `fetch` without a `catch`, a timer, a socket. If that fails later, the
 * error reaches the process as an uncaught one, and would end the gateway with the requests of all callers. Node.js keeps the
 * value of an AsyncLocalStorage with each promise, timer and callback that begins in its `run`, so such an error can be traced to its
 * policy. What the gateway itself does is never run in it. Code outside of `run` pays nothing.
 */

const NAME = new AsyncLocalStorage<string>();

/** Calls `run`, so that all that it begins belongs to the policy of this name. */
export function inPolicy<T, A extends unknown[]>(name: string, run: (...args: A) => T, ...args: A): T {
  return NAME.run(name, run, ...args);
}

/** The name of the policy whose code runs, or whose error is being handled; undefined in code of the gateway. */
export function runningPolicy(): string | undefined {
  return NAME.getStore();
}
