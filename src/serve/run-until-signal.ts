import { constants } from 'node:os';
import type { ExitCode } from '../failure.ts';
import { runningPolicy } from '../policies/context.ts';
import type { RunningGateway } from './gateway-process.ts';

/**
 * Resolves at the first SIGTERM or SIGINT. A second signal within a second is the same Ctrl-C, which the terminal sends both
 * to npm and to this process, and npm forwards. A later signal ends the process at once (contract section 7). The process
 * calls `exit` itself, because the kernel does not apply the default action of a signal to the first process of a container.
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

/**
 * Lets the gateway serve until the signal, and then drains it. After an uncaught exception or an unhandled rejection the
 * state of the process is unknown. The gateway then logs the error, drains as after a signal, and exits with 1, so that the
 * service manager starts a new process. One in what a policy has begun leaves the gateway as it was, and is only reported.
 */
export async function serveUntil(signalled: Promise<unknown>, gateway: RunningGateway): Promise<ExitCode> {
  const broken = Promise.withResolvers<void>();
  let code: ExitCode = 0;
  let stopped: ExitCode = 0;
  // Node.js reports unhandled rejections here too.
  const onDefect = (error: unknown) => {
    const policy = runningPolicy();
    if (policy !== undefined) {
      gateway.reportStray(policy, error);
      return;
    }
    code = 1;
    gateway.reportDefect(error);
    broken.resolve();
  };
  process.on('uncaughtException', onDefect);
  try {
    await Promise.race([signalled, broken.promise]);
  } finally {
    stopped = await gateway.stop().finally(() => process.off('uncaughtException', onDefect));
  }
  return code === 0 ? stopped : code;
}
