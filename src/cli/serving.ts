import type { ExitCode } from './command.ts';
import type { RunningGateway } from './run-gateway.ts';

/**
 * Lets the gateway serve until the signal, and then drains it. Anything that was thrown and that nobody caught means that
 * the state of the process is no longer known: it is logged, what runs is finished as at a signal, and the exit is not 0,
 * so that whoever started the process starts a fresh one.
 */
export async function serveUntil(signalled: Promise<unknown>, gateway: RunningGateway): Promise<ExitCode> {
  const broken = Promise.withResolvers<void>();
  let code: ExitCode = 0;
  let stopped: ExitCode = 0;
  // An unhandled rejection comes here too.
  const onDefect = (error: unknown) => {
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
