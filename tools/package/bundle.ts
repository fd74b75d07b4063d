import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { basename, dirname, join, relative } from 'node:path';
import { build, type Plugin } from 'rolldown';
import { ROOT } from '../docs/root.ts';
import { productionPackages } from './lock.ts';
import { BUILT, buildPage, writePage } from './page.ts';

const SRC = join(ROOT, 'src');
/** The programs that run in threads. */
export const THREADS = ['config/settings-thread', 'gateway/body-thread', 'operations/plans/draft-thread'] as const;
/** What is started or imported by itself. Each becomes a file of `src`, whatever its folder. */
const PROGRAMS = ['main', 'library', 'serve/workers/worker', ...THREADS] as const;

/**
 * Modules find the files that they read in the folder of their sources, and a program that they start beside the bundle: all files of the
 * bundle are in `src`, and `import.meta` alone stays that of the bundle.
 */
const inPlace: Plugin = {
  name: 'import.meta of the source',
  transform(code, id) {
    if (!id.startsWith(SRC) || !code.includes('import.meta')) return null;
    const file = relative(SRC, id);
    const placed = code
      .replaceAll(/\bimport\.meta\.url\b/g, `new URL(${JSON.stringify(file)}, import.meta.url).href`)
      .replaceAll(/\bimport\.meta\.dirname\b/g, `(import.meta.dirname + ${JSON.stringify(`/${dirname(file)}`)})`);
    // No line moves.
    return { code: placed, map: null };
  },
};

/**
 * An import of `node:http` makes Node.js load its WebSocket and with it undici, 20 ms and some MB, because the names that a module can
 * import have to be known. Taking the module in one piece does not.
 */
const withoutUndici: Plugin = {
  name: 'node:http without undici',
  resolveId: (id) => (id === 'node:http' ? '\0node:http' : null),
  load(id) {
    if (id !== '\0node:http') return null;
    const names = Object.keys(http).filter((name) => !/^(?:WebSocket|CloseEvent|MessageEvent|default)$/.test(name));
    return `const http = process.getBuiltinModule('node:http');\nexport const { ${names.join(', ')} } = http;`;
  },
};

/**
 * Puts the programs and all packages that they import into a few files of JavaScript in `src` of a folder, with the built page of the
 * console and the licences of all these packages. The same sources give the same bytes: no name of a folder gets into it.
 */
export async function bundleInto(folder: string): Promise<void> {
  const src = join(folder, 'src');
  const { output } = await build({
    input: Object.fromEntries(PROGRAMS.map((program) => [basename(program), join(SRC, `${program}.ts`)])),
    platform: 'node',
    plugins: [inPlace, withoutUndici],
    experimental: { attachDebugInfo: 'none' },
    output: {
      dir: src,
      format: 'esm',
      entryFileNames: '[name].js',
      chunkFileNames: '[name]-[hash].js',
      // V8 keeps the source of a loaded file, with two bytes for each character if one is not Latin-1. Without comments and in ASCII a
      // gateway needs 11 MB less. Names stay, and errors name the lines of `src` as before.
      minify: { compress: false, mangle: false, codegen: { removeWhitespace: true, asciiOnly: true } },
      sourcemap: true,
      sourcemapExcludeSources: true,
      // As if the bundle lay in the clone: an error names `src/cli/serve.ts`, wherever the bundle is.
      sourcemapPathTransform: (source, map) => relative(SRC, join(dirname(map), source)),
    },
    logLevel: 'warn',
  });
  const page = await buildPage();
  writePage(page, join(folder, BUILT));
  const modules = output.flatMap((one) => (one.type === 'chunk' ? one.moduleIds : []));
  writeFileSync(join(folder, 'THIRD-PARTY-NOTICES'), noticesOf([...modules, ...page.modules]));
}

/**
 * Puts the program of a thread and all that it imports into one file, as CommonJS: the threads of the executable see no file.
 * @param name of a program in THREADS
 */
export async function bundleThread(name: string, file: string): Promise<void> {
  const output = { file, format: 'cjs', codeSplitting: false } as const;
  const input = join(SRC, `${name}.ts`);
  await build({ input, platform: 'node', experimental: { attachDebugInfo: 'none' }, output, logLevel: 'warn' });
}

/** The names, licences and notices of the packages that have these files: most licences ask for that in every copy. */
function noticesOf(files: readonly string[]): string {
  const bundled = new Set(files.map((file) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file)?.[0]));
  const packages = productionPackages(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'));
  const parts = packages.flatMap(({ path, name, version, licence }) => {
    const at = join(ROOT, path);
    if (!bundled.has(at)) return [];
    const texts = readdirSync(at).filter((file) => /^(?:licen[cs]e|notice|copying)/i.test(file));
    return [`${name} ${version} (${licence})`, ...texts.map((file) => readFileSync(join(at, file), 'utf8').trim())];
  });
  return `Tollgate contains these packages.\n\n${parts.join(`\n\n`)}\n`;
}
