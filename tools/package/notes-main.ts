import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../src/failure.ts';
import { ROOT } from '../docs/root.ts';
import { releaseNotes } from './notes.ts';

/** `npm run -s release:notes [-- VERSION]`: prints the release notes of a version from CHANGELOG.md. */
try {
  process.stdout.write(releaseNotes(readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8'), process.argv[2] ?? null));
} catch (error) {
  if (!(error instanceof Failure)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
