import { url as debuggerUrl } from 'node:inspector';
import { Worker } from 'node:worker_threads';
import { Silence } from './silence.ts';

interface WatchdogOptions {
  /** How long the main thread may be silent before its process is ended, in milliseconds. */
  readonly limitMs: number;
  /** How the last line is written: as JSON on standard output, as a sentence on standard error, or not at all. */
  readonly line: 'json' | 'sentence' | 'none';
  /** Whether the process is left to its parent process while that lives, because the parent watches it. */
  readonly onlyOrphaned?: boolean;
  /** Called in each turn that is counted, so that another process can watch this one. */
  readonly onTurn?: (isDebugged: boolean) => void;
}

/** How often a watched thread counts a turn, and how often its watcher looks, in milliseconds. */
export function turnEveryMs(limitMs: number): number {
  return limitMs / 8;
}

/**
 * Ends this process when its main thread no longer turns: the main thread counts turns in shared memory, and another thread
 * looks whether they grow. A thread that is busy with many callbacks is not silent (see {@link Silence}). While a debugger is open nothing is ended, because a breakpoint stops the main thread.
 *
 * Fault: a defect makes one request block the main thread for ever. The process then answers no request, reacts to no signal but
 * SIGKILL, and looks alive to the service manager.
 *
 * The process ends by SIGKILL, without a core dump, which would hold keys and peppers. Service managers restart it as after a
 * crash.
 * @returns a function that ends the watch
 */
export function startWatchdog(options: WatchdogOptions): () => Promise<void> {
  const { limitMs, line, onlyOrphaned = false, onTurn } = options;
  const everyMs = turnEveryMs(limitMs);
  const cells = new Int32Array(new SharedArrayBuffer(8));
  const turn = () => {
    const isDebugged = debuggerUrl() !== undefined;
    Atomics.store(cells, DEBUGGED, isDebugged ? 1 : 0);
    Atomics.add(cells, TURNS, 1);
    onTurn?.(isDebugged);
  };
  turn();
  const timer = setInterval(turn, everyMs).unref();
  const parent = onlyOrphaned ? process.ppid : null;
  const workerData: WatchData = { cells, limitMs, everyMs, line, parent };
  // A text instead of a file: a thread of the executable sees no files, and in a clone the compiler that strips types would
  // take more memory than all the rest of the thread. No options of this process: its preloaded modules are not for this thread.
  const thread = new Worker(`(${watch})(${Silence})`, {
    eval: true,
    workerData,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1, stackSizeMb: 1 },
  });
  thread.on('error', (error) =>
    process.emitWarning(`The watchdog has ended, so a hang of this process is not noticed: ${String(error)}`),
  );
  thread.unref();
  return async () => {
    clearInterval(timer);
    await thread.terminate();
  };
}

const TURNS = 0;
const DEBUGGED = 1;

interface WatchData {
  /** At 0 the turns of the main thread, at 1 whether a debugger is open. */
  readonly cells: Int32Array;
  readonly limitMs: number;
  readonly everyMs: number;
  readonly line: WatchdogOptions['line'];
  /** The process id of the parent that watches this process; null if it is not to be asked for. */
  readonly parent: number | null;
}

/** The program of the thread. Its text is all that the thread has, so it uses nothing outside of itself. */
function watch(SilenceHere: typeof Silence): void {
  const { writeSync, writeFileSync } = process.getBuiltinModule('node:fs');
  const { setFlagsFromString } = process.getBuiltinModule('node:v8');
  const { cells, limitMs, everyMs, line, parent } = process.getBuiltinModule('node:worker_threads')
    .workerData as WatchData;
  const silence = new SilenceHere(everyMs);

  setInterval(() => {
    const silentMs = silence.look(Atomics.load(cells, 0), performance.now(), SilenceHere.readsOf(process.pid));
    if (silentMs < limitMs || Atomics.load(cells, 1) === 1) return;
    // The process id of the parent changes when the parent ends.
    if (parent !== null && process.ppid === parent) return;
    report(Math.round(silentMs));
    end();
  }, everyMs);

  function report(silentMs: number): void {
    const msg = 'the main thread no longer turns: this process ends itself';
    const record = { level: 60, time: new Date().toISOString(), pid: process.pid, silentMs, msg };
    if (line === 'json') write(1, `${JSON.stringify(record)}\n`);
    else if (line === 'sentence') write(2, `\n${msg} (${silentMs} ms)\n`);
  }

  /** Writes past the main thread, whose turn it would be. A reader that does not read is waited for a quarter of a second. */
  function write(fd: number, text: string): void {
    let rest = Buffer.from(text);
    for (let attempts = 0; rest.length > 0 && attempts < 25; attempts++) {
      try {
        rest = rest.subarray(writeSync(fd, rest));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
      }
    }
  }

  function end(): void {
    process.kill(process.pid, 'SIGKILL');
    // Fault: the kernel protects the first process of a container from every signal that comes from inside of it, SIGKILL
    // included. Only a fault of its own ends it, so the thread makes one: V8's instruction for a breakpoint (SIGTRAP). The
    // syntax is V8's own for its tests, and no promise of Node.js. Of the memory nothing may be dumped.
    try {
      writeFileSync('/proc/self/coredump_filter', '0');
    } catch {
      // Another system than Linux, which has no such filter.
    }
    setFlagsFromString('--allow-natives-syntax');
    new Function('%SystemBreak()')();
  }
}
