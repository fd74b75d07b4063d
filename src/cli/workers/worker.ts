// The program of a worker: one of the processes that a supervisor starts where WORKERS is more than 1.
import { flushCompileCache } from 'node:module';
import { deepFreeze } from '../../config/frozen.ts';
import { Failure } from '../../failure.ts';
import { serveUntil } from '../serving.ts';
import { Link } from './place.ts';

// Signals are for the supervisor, which decides what becomes of all: a terminal's Ctrl-C and a service manager's stop
// reach every process of the group, and would cut off the connections that the supervisor still hands out.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});

// A worker runs for long, and may end without a chance to write what it compiled.
setTimeout(flushCompileCache, 5_000).unref();

const link = new Link();
const { worker, workers, configuration } = await link.begun;
process.exit(await run());

async function run(): Promise<number> {
  try {
    // Loaded when signals are taken care of: it is the most of the start.
    const { runGateway } = await import('../run-gateway.ts');
    const gateway = await runGateway(deepFreeze(configuration), process.env, link.placeOf(worker, workers));
    await link.tell({ kind: 'serving' });
    const code = await serveUntil(link.stopped, gateway);
    await link.tellLast();
    return code;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    await link.tell({ kind: 'failed', code: error.code, message: error.message });
    return 1;
  }
}
