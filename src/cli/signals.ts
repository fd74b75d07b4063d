import { constants } from 'node:os';

/**
 * Resolves at the first SIGTERM or SIGINT. A second one that follows within a second is the same Ctrl-C, delivered to
 * npm and to us; a later one ends the process at once (contract section 7). We end it ourselves, because the first
 * process of a container is spared by the system what it does to others.
 */
export function untilSignalled(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let firstAtMs: number | null = null;
    const stop = (signal: NodeJS.Signals) => {
      firstAtMs ??= performance.now();
      if (performance.now() - firstAtMs > 1_000) process.exit(128 + constants.signals[signal]);
      resolve(signal);
    };
    process.on('SIGTERM', stop);
    process.on('SIGINT', stop);
  });
}
