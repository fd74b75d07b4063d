import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';

/** Kept free for upstreams, the store and files, whatever clients do. */
const KEPT_FREE = 32;

/**
 * The files that this process may have open. Node raises its soft limit to the hard one when it starts, so the hard one,
 * which an operator has set, is what counts.
 * @returns `Infinity` where there is no limit, or where the system does not tell (other than on Linux)
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
 * Whether the process has nearly used up its open files.
 *
 * Attack: where none is left, Node (libuv) accepts and closes each new connection silently, and the gateway cannot open a
 * connection to its upstream or its store either. The system gives each new file the lowest free number, so the number of
 * a connection that has just been accepted tells how many are left, and there is still one to decide with.
 */
export class OpenFiles {
  readonly #highest: number;

  constructor(limit: number) {
    this.#highest = limit - KEPT_FREE;
  }

  isShort(accepted: Socket): boolean {
    // No documented part of Node. Where it is not there, nothing is ever short.
    const fd = (accepted as unknown as { readonly _handle?: { readonly fd?: number } | null })._handle?.fd ?? -1;
    return fd >= this.#highest;
  }
}
