// Loaded into a gateway before it starts (`node --import`), and into each of its workers: tells on a Unix socket in the folder
// RESOURCE_PROBE what the process holds. The connection that asks is one handle and one descriptor in every answer.
import { createServer } from 'node:net';
import { join } from 'node:path';

/** What one process holds. */
export interface Held {
  /** What keeps it running, by Node's own count: handles, requests, timers and immediates by their type. */
  readonly active: Readonly<Record<string, number>>;
  /** How long each timer is set for that has not run out, in milliseconds, also where it does not keep the process running. */
  readonly timers: readonly number[];
}

type Timer = NodeJS.Timeout & { readonly _destroyed?: boolean };
type SetTimer = (callback: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => Timer;

/** Timers that do not keep the process running are in no count of Node's, so all are kept here as they are set. */
const timers = new Map<Timer, number>();
/** So many are kept before those that are over are let go. */
let most = 1_000;

function keepTimers(set: SetTimer): SetTimer {
  const kept: SetTimer = (callback, ms, ...args) => {
    const timer = set(callback, ms, ...args);
    timers.set(timer, ms ?? 1);
    if (timers.size > most) most = 1_000 + 2 * runningTimers().length;
    return timer;
  };
  return Object.defineProperties(kept, Object.getOwnPropertyDescriptors(set));
}

function runningTimers(): number[] {
  for (const timer of timers.keys()) if (timer._destroyed !== false) timers.delete(timer);
  return [...timers.values()];
}

globalThis.setTimeout = keepTimers(globalThis.setTimeout as SetTimer) as typeof setTimeout;
globalThis.setInterval = keepTimers(globalThis.setInterval as SetTimer) as typeof setInterval;

const server = createServer((socket) => {
  const active: Record<string, number> = {};
  for (const type of process.getActiveResourcesInfo()) active[type] = (active[type] ?? 0) + 1;
  socket.on('error', () => socket.destroy());
  socket.end(JSON.stringify({ active, timers: runningTimers() } satisfies Held));
});
server.listen(join(process.env.RESOURCE_PROBE ?? '.', `${process.pid}.sock`)).unref();
