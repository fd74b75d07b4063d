import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'rolldown';

const ROOT = join(import.meta.dirname, '..', '..');
const CACHE = join(ROOT, 'node_modules', '.cache', 'tests');
/** A bundle of other sources may belong to a run that is under way. */
const OLD_MS = 3_600_000;

/** Modules find the files beside them where they lie in the clone. */
const inPlace: Plugin = {
  name: 'import.meta of the source',
  transform(code, id) {
    if (!code.includes('import.meta')) return null;
    const meta = { dirname: dirname(id), filename: id, url: pathToFileURL(id).href };
    return code
      .replace(/\bimport\.meta\.main\b/g, 'false')
      .replace(/\bimport\.meta\.(dirname|filename|url)\b/g, (_, name: keyof typeof meta) => JSON.stringify(meta[name]))
      .replace(/\bimport\.meta\b(?!\.)/g, `(${JSON.stringify(meta)})`);
  },
};

/**
 * Puts `bin/tollgate.js` and all that it imports into a few files: a process that starts from them spends a quarter less of
 * the processor, and the tests start a thousand. Its workers and threads are started from the sources.
 * @returns the file that takes the place of bin/tollgate.js
 */
export async function bundledProgram(): Promise<string> {
  const input = join(ROOT, 'src', 'main.ts');
  const { output } = await build({
    input,
    platform: 'node',
    plugins: [inPlace],
    output: { format: 'esm', entryFileNames: 'main.mjs', chunkFileNames: '[name]-[hash].mjs' },
    write: false,
    logLevel: 'silent',
  });
  const [bin, needed] = ['tollgate', 'needed-node'].map((name) =>
    readFileSync(join(ROOT, 'bin', `${name}.js`), 'utf8'),
  );
  const files = new Map(output.map((one) => [one.fileName, 'code' in one ? one.code : one.source]));
  files.set('needed-node.mjs', needed!);
  // Beside it lies `main.mjs`; the compile cache stays where it is.
  const moved = bin!.replace("'../src/main.ts'", "'./main.mjs'").replace('./needed-node.js', './needed-node.mjs');
  const placed = moved.replace('../node_modules/', '../../../').replace('../package.json', '../../../../package.json');
  files.set('tollgate.mjs', placed);
  const digest = createHash('sha256').update(ROOT);
  for (const [name, text] of files) digest.update(`${name}\0`).update(text);
  const folder = join(CACHE, digest.digest('hex').slice(0, 16));
  if (!existsSync(folder)) {
    const draft = `${folder}.${process.pid}`;
    mkdirSync(draft, { recursive: true });
    for (const name of readdirSync(CACHE)) {
      const path = join(CACHE, name);
      if (Date.now() - statSync(path).mtimeMs > OLD_MS) rmSync(path, { recursive: true, force: true });
    }
    for (const [name, text] of files) writeFileSync(join(draft, name), text);
    renameSync(draft, folder);
  }
  return join(folder, 'tollgate.mjs');
}
