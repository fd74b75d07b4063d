import { extname, join } from 'node:path';

/**
 * The file of a program of ours that runs in a thread or a process of its own, and lies beside the module that starts it. Its
 * extension is that of the module: `.ts` in a clone, `.js` in the package, which holds compiled files.
 * @param name the name of the file without its extension
 */
export function programBeside({ dirname, filename }: ImportMeta, name: string): string {
  return join(dirname, `${name}${extname(filename)}`);
}
