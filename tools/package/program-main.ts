import { join } from 'node:path';
import { ROOT } from '../docs/root.ts';
import { buildProgram } from './build.ts';

/** `npm run build:program [-- FOLDER]`: writes what the image has to dist/program, or to another folder, which is emptied first. */
const [folder = join(ROOT, 'dist', 'program')] = process.argv.slice(2);
await buildProgram(folder);
