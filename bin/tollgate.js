import { fileURLToPath } from 'node:url';
import { isNodeTooOld, neededNode } from './needed-node.js';

// Started by `tollgate` beside it, which finds a Node.js that is new enough.
if (isNodeTooOld) {
  process.stderr.write(
    `Tollgate needs Node.js ${neededNode} or later, this is ${process.versions.node}. ` +
      (import.meta.url.includes('/node_modules/')
        ? 'Start it with `npx tollgate COMMAND`, which uses the Node.js that npm has installed beside it.\n'
        : 'In a clone run `npm ci` (it brings its own Node.js) and then `npm start` or `npm run -s tollgate -- COMMAND`.\n'),
  );
  process.exit(1);
}
// Scripts ask for the version alone, for which the commands need not be loaded.
if (process.argv.length === 3 && /^(?:--)?version$/.test(process.argv[2])) {
  const { default: manifest } = await import('../package.json', { with: { type: 'json' } });
  process.stdout.write(`${manifest.version}\n`);
  process.exit();
}
// npm runs a script in the folder of the package. The paths that a person gives to a command, and the files that it looks
// for unless told, are those of the folder where npm was called: a check of another folder's plans.yaml would pass unseen.
const { npm_lifecycle_event, npm_package_name, INIT_CWD } = process.env;
if (npm_package_name === 'tollgate' && npm_lifecycle_event === 'tollgate' && INIT_CWD) process.chdir(INIT_CWD);
// What was compiled at one start is not compiled again at the next: a third of its time, and a fifth of the memory. The
// folder belongs to whoever installed the packages; where it cannot be written, nothing is kept.
const { enableCompileCache, flushCompileCache } = await import('node:module');
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/tollgate', import.meta.url)));
// A gateway runs for long, and may end without a chance to write.
setTimeout(flushCompileCache, 5_000).unref();
const { runProcess } = await import('../src/main.ts');
await runProcess();
