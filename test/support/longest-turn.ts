// Loaded into a gateway before it starts (`node --import`): at SIGUSR2 it writes `longest turn N ms` to stderr, and begins anew.
// The milliseconds are those of the processor, so that other processes of a busy machine do not count. A collection of
// garbage within the turn does.
import { isMainThread } from 'node:worker_threads';

const EVERY_MS = 1;

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

if (isMainThread) {
  let [lastMs, longestMs] = [cpuMs(), 0];
  setInterval(() => {
    const nowMs = cpuMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  }, EVERY_MS).unref();
  process.on('SIGUSR2', () => {
    process.stderr.write(`longest turn ${longestMs.toFixed(1)} ms\n`);
    longestMs = 0;
  });
}
