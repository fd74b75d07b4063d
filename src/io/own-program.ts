import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { isSea } from 'node:sea';
import { Worker, type WorkerOptions } from 'node:worker_threads';

// Programs of ours that run in a process or a thread of their own. Each lies beside the module that starts it.

/**
 * The file of such a program. Its extension is that of the module: `.ts` in a clone, `.js` in the package, which holds compiled
 * files.
 * @param name the name of the file without its extension
 */
export function programBeside({ dirname, filename }: ImportMeta, name: string): string {
  return join(dirname, `${name}${extname(filename)}`);
}

/**
 * The options of Node.js for such a process: those of this one. The executable has them built in, and takes every argument
 * for one of a command.
 */
export function nodeOptions(): string[] {
  if (isSea()) return [];
  return process.sourceMapsEnabled ? ['--enable-source-maps', ...process.execArgv] : process.execArgv;
}

/**
 * Starts such a program in a thread. Only the main thread of the executable (`npm run build:binary`) sees the files in it, so
 * it has each thread's program once more as one text that needs no file.
 */
export function startThread(module: ImportMeta, name: string, options: WorkerOptions): Worker {
  if (!isSea()) return new Worker(programBeside(module, name), options);
  const text = readFileSync(join(module.dirname, threadBundleOf(name)), 'utf8');
  return new Worker(text, { ...options, eval: true });
}

/** The name of the file that has a thread's program with all that it imports, as CommonJS. */
export function threadBundleOf(name: string): string {
  return `${name}.bundle.cjs`;
}
