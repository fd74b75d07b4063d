import { readdirSync, readFileSync } from 'node:fs';

/** How often it is looked whether this process came late. */
const LOOK_EVERY_MS = 10;
/** Less than this is no stall: a timer is never exact. */
const EXACT_MS = 5;
/** No machine is so busy that more than this is forgiven: what a deadline is for has to be seen. */
const MOST_LOST_MS = 4_000;

export interface Took {
  /** Milliseconds that have passed: for the least that something may take. */
  readonly ms: number;
  /** The same without what the machine kept from the processes that took part: for the most. */
  readonly fairMs: number;
}

/**
 * Measures what has a deadline, on a machine that is busy with other things. What is forgiven is measured, not guessed: how
 * late this process came to its own timers, and how long the others stood in the queue for a processor (Linux tells;
 * elsewhere nothing is forgiven for them). On a quiet machine both readings are the same.
 *
 * Where the code runs in the test's own process, time is better held still: `holdTime`.
 *
 * @param pids the other processes that take part
 * @returns stops it, and tells
 */
export function stopwatch(...pids: readonly number[]): () => Took {
  const beganAtMs = performance.now();
  const queuedBeforeMs = pids.map(queuedMs);
  const queuedNowMs = [...queuedBeforeMs];
  let lateMs = 0;
  let dueAtMs = beganAtMs + LOOK_EVERY_MS;
  const look = () => {
    const nowMs = performance.now();
    if (nowMs - dueAtMs > EXACT_MS) lateMs += nowMs - dueAtMs;
    dueAtMs = nowMs + LOOK_EVERY_MS;
    for (const [i, pid] of pids.entries()) queuedNowMs[i] = Math.max(queuedMs(pid), queuedNowMs[i]!);
  };
  const looking = setInterval(look, LOOK_EVERY_MS).unref();
  return () => {
    clearInterval(looking);
    look();
    const ms = performance.now() - beganAtMs;
    const lostMs = queuedNowMs.reduce((sum, nowMs, i) => sum + nowMs - queuedBeforeMs[i]!, lateMs);
    return { ms, fairMs: ms - Math.min(lostMs, MOST_LOST_MS) };
  };
}

/** How long the threads of a process have waited for a processor since they were started. 0 when it has ended. */
function queuedMs(pid: number): number {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.reduce((sum, thread) => sum + queuedMsOf(`/proc/${pid}/task/${thread}`), 0);
  } catch {
    return 0;
  }
}

function queuedMsOf(thread: string): number {
  try {
    return Number(readFileSync(`${thread}/schedstat`, 'utf8').split(' ')[1]) / 1_000_000;
  } catch {
    return 0;
  }
}

/** Processor time that `work` takes, milliseconds: what it costs, however often it is interrupted. */
export function processorMs(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
