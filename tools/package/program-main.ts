import { join } from 'node:path';
import { ROOT } from '../docs/root.ts';
import { buildProgram } from './build.ts';

/** `npm run build:program`: writes what the image has to dist/program. */
await buildProgram(join(ROOT, 'dist', 'program'));
