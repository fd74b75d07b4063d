import { join } from 'node:path';
import { ROOT } from '../docs/root.ts';
import { buildPackage } from './build.ts';

/** `npm run build:package`: writes the npm package to dist/package, for `npm pack`. */
const folder = join(ROOT, 'dist', 'package');
await buildPackage(folder);
process.stdout.write(`${folder}: \`npm pack ./dist/package\` makes the file that \`npm install\` takes.\n`);
