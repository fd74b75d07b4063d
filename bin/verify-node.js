// Compares the Node.js that `npm ci` has just fetched with the hashes of this repository (node-binaries.json). The package
// `node` fetches it in a script of its own, so package-lock.json does not cover it. One that differs is deleted, and the
// installation fails: no command of this clone can run it.
//
// At the installation and not at each start: whoever can change a file of node_modules later can change the sources as well.
// Run by the Node.js that runs npm (`npm_node_execpath`): `node` itself would be the program that is in question.
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const { version, sha256 } = JSON.parse(readFileSync(new URL('node-binaries.json', import.meta.url), 'utf8'));
const file = fileURLToPath(new URL('../node_modules/node/bin/node', import.meta.url));
const platform = `${process.platform}-${process.arch}`;

// Without development packages, as in the image, there is none.
if (existsSync(file)) {
  const expected = sha256[platform];
  if (expected === undefined) {
    process.stderr.write(
      `warning: The Node.js ${version} that was fetched is not verified: bin/node-binaries.json has no hash for ${platform}.\n`,
    );
  } else {
    const hash = createHash('sha256');
    for await (const piece of createReadStream(file, { highWaterMark: 1024 * 1024 })) hash.update(piece);
    const found = hash.digest('hex');
    if (found !== expected) {
      rmSync(file);
      process.stderr.write(
        `The Node.js that npm fetched is not the one that this repository names: its SHA-256 is ${found}, and that of ` +
          `Node.js ${version} for ${platform} is ${expected}. It has been deleted. Run \`npm ci\` again; where that ends in the ` +
          'same way, do not trust the registry that npm asks. After a change of the version of `node` in package.json write the new ' +
          'hashes into bin/node-binaries.json.\n',
      );
      process.exitCode = 1;
    }
  }
}
