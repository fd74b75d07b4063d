import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../docs/root.ts';
import { buildBinary } from './binary.ts';

/** `npm run build:binary`: writes the gateway with its Node.js as one file, dist/tollgate. */
mkdirSync(join(ROOT, 'dist'), { recursive: true });
const file = join(ROOT, 'dist', process.platform === 'win32' ? 'tollgate.exe' : 'tollgate');
await buildBinary(file);
process.stdout.write(`${file}: run \`${file} start\`.\n`);
