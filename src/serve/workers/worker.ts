// The program of a worker process, which the supervisor starts if WORKERS is more than 1.
import { flushCompileCache } from 'node:module';
import { deepFreeze } from '../../config/setting-values.ts';
import { Failure } from '../../failure.ts';
import { startWatchdog } from '../../io/watchdog.ts';
import { serveUntil } from '../run-until-signal.ts';
import { SupervisorLink } from './worker-context.ts';

// Signals do not end a worker. A terminal's Ctrl-C and a service manager's stop reach every process of the group, but only
// the supervisor decides when a worker stops, because it may still hand over connections.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});

// Node.js writes the compile cache at exit, but a worker runs for long and may be killed.
setTimeout(flushCompileCache, 5_000).unref();

const link = new SupervisorLink();
const begin = await link.begun;
const { limitMs } = begin.configuration.settings.watchdog;
if (limitMs !== null) {
  startWatchdog({
    limitMs,
    // Its log is a pipe to the supervisor, which is gone.
    line: 'none',
    onlyOrphaned: true,
    onTurn: (isDebugged) => link.beat(isDebugged),
  });
}
process.exit(await run());

async function run(): Promise<number> {
  try {
    // This import takes most of the start, so the signal handlers are installed before it.
    const { runGateway } = await import('../gateway-process.ts');
    const gateway = await runGateway(deepFreeze(begin.configuration), process.env, {
      context: link.contextOf(begin),
      ownsProcess: true,
    });
    await link.send({ kind: 'serving' });
    const code = await serveUntil(link.stopped, gateway);
    await link.sendLastMetrics();
    return code;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    await link.send({ kind: 'failed', code: error.code, message: error.message });
    return 1;
  }
}
