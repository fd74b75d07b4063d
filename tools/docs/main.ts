import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generatedPages } from './pages.ts';
import { ROOT } from './root.ts';

/** `npm run docs:generate`: writes every page of docs/ that is generated, in whole or in part, and names those that changed. */
for (const [path, text] of await generatedPages()) {
  const file = join(ROOT, path);
  if (textOf(file) === text) continue;
  writeFileSync(file, text);
  process.stdout.write(`${path} written\n`);
}

function textOf(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}
