import { writeSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

// Loaded into every process of a gateway before it starts (`node --import`): SIGUSR2 makes its main thread hang, as a defect
// does that keeps it for ever, or for HANGS_FOR_MS. It says `hangs` on standard error first.
const forMs = Number(process.env.HANGS_FOR_MS ?? Number.POSITIVE_INFINITY);
if (isMainThread) {
  process.on('SIGUSR2', () => {
    writeSync(2, 'hangs\n');
    const fromMs = performance.now();
    while (performance.now() - fromMs < forMs);
  });
}
