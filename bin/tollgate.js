#!/usr/bin/env node
import { fileURLToPath } from 'node:url';

// Plain JavaScript, so that a Node.js too old for the TypeScript behind it gets a sentence and not a parse error.
const needed = [26, 5, 1];
const has = process.versions.node.split('.').map(Number);
const tooOld = needed.reduce((verdict, part, i) => verdict || Math.sign(has[i] - part), 0) < 0;

if (tooOld) {
  process.stderr.write(
    `Tollgate needs Node.js ${needed.join('.')} or later, this is ${process.versions.node}. ` +
      (import.meta.url.includes('/node_modules/')
        ? `Run \`npx node@26 node_modules/.bin/tollgate COMMAND\`, or install Node.js 26, with nvm: \`nvm install 26\`.\n`
        : 'In a clone run `npm ci` (it brings its own Node.js) and then `npm start` or `npm run -s tollgate -- COMMAND`.\n'),
  );
  process.exit(1);
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
