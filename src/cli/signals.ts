/**
 * Resolves at the first SIGTERM or SIGINT. A second one that follows within a second is the same Ctrl-C, delivered to
 * npm and to us; a later one ends the process at once, as the system does without a listener (contract section 7).
 */
export function untilSignalled(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const stop = (signal: NodeJS.Signals) => {
      resolve(signal);
      setTimeout(() => {
        process.off('SIGTERM', stop);
        process.off('SIGINT', stop);
      }, 1_000).unref();
    };
    process.on('SIGTERM', stop);
    process.on('SIGINT', stop);
  });
}
