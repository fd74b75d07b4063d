#!/usr/bin/env node
// Plain JavaScript, so that a Node.js too old for the TypeScript behind it gets a sentence and not a parse error.
const needed = [26, 5, 1];
const has = process.versions.node.split('.').map(Number);
const tooOld = needed.reduce((verdict, part, i) => verdict || Math.sign(has[i] - part), 0) < 0;

if (tooOld) {
  process.stderr.write(
    `Tollgate needs Node.js ${needed.join('.')} or later, this is ${process.versions.node}. ` +
      'In a clone run `npm ci` (it brings its own Node.js) and then `npm start` or `npm run -s tollgate -- COMMAND`.\n',
  );
  process.exit(1);
}
await import('../src/main.ts');
