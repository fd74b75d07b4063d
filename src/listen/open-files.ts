import { readFileSync } from 'node:fs';

/** Descriptors that client connections may not use. They are kept for upstreams, the store and files. */
const KEPT_FREE = 32;

/**
 * How many files this process may have open. At startup Node raises its soft limit to the hard limit, so the hard
 * limit, which an operator sets, is the one that counts.
 * @returns `Infinity` if there is no limit, or if the system does not report it (only Linux does)
 */
export function openFilesLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+|unlimited) /m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined || soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/**
 * Detects that the process has nearly used up its file descriptors.
 *
 * Attack: when none is left, Node (libuv) accepts and closes each new connection silently, and the gateway cannot
 * connect to its upstream or its store either. The system gives each new file the lowest free descriptor, so the
 * descriptor of a connection that has just been accepted shows how many are left.
 */
export class OpenFiles {
  readonly #highest: number;

  constructor(limit: number) {
    this.#highest = limit - KEPT_FREE;
  }

  /** @param accepted the descriptor of a connection that has just been accepted */
  isShort(accepted: number): boolean {
    return accepted >= this.#highest;
  }
}
