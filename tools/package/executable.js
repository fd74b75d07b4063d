// The first file of the executable (`npm run build:binary`). It lies beside package.json there.
import { join } from 'node:path';

// An error names the line of the TypeScript.
process.setSourceMapsEnabled(true);

// A worker (WORKERS): the supervisor forks this executable with the program of a worker in place of a command.
const worker = join(import.meta.dirname, 'src', 'worker.js');
if (process.send !== undefined && process.argv[2] === worker) {
  await import('./src/worker.js');
} else {
  const { runProcess } = await import('./src/main.js');
  await runProcess();
}
