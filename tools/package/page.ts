import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build, type OutputChunk, type Plugin } from 'rolldown';
import { ROOT } from '../docs/root.ts';
import { PAGE_WORDS } from './page-words.ts';

/** The sources of the page of the console. */
const PAGE = join(ROOT, 'src', 'admin', 'console', 'page');
/** Where the gateway finds the built page, in a clone and in a package. */
export const BUILT = join('src', 'admin', 'console', 'built');

/** The fonts of style.css, by packages, served from this host: the page asks no other. */
const FONTS: Readonly<Record<string, string>> = {
  'inter.woff2': '@fontsource-variable/inter/files/inter-latin-wght-normal.woff2',
  'inter-ext.woff2': '@fontsource-variable/inter/files/inter-latin-ext-wght-normal.woff2',
};

/**
 * The scripts: what is shown over a screen, three groups of screens, and what they share. A page loads the last, that of its screen, and
 * the first when a dialog is opened.
 */
const GROUPS = [
  {
    name: 'dialogs',
    test: /\/page\/(?:help|finder|fields|operation-dialog|screens\/(?:opened-dialog|bulk-dialog|recent-use))\.tsx$/,
  },
  { name: 'plans', test: /\/screens\/plans-(?!kept)|\/kit\/(?:editor|patch-view|yaml-parts|run)\./ },
  {
    name: 'watch',
    test: /\/screens\/(?:now|traffic|live|explain|upstreams|gateways)-|\/(?:kit\/(?:tabs|verdict-badge)|help-later)\./,
  },
  {
    name: 'records',
    test: /\/screens\/(?:(?:caller|keys|customers|retiring|audit|list)-screen|key-table|key-details|caller-card|caller-record|customers-by-use|where-from|last-)|\/kit\/(?:use|csv|search)\./,
  },
  { name: 'main', test: /./ },
].map((group, i) => ({ ...group, priority: 9 - i, includeDependenciesRecursively: false }));

export interface BuiltPage {
  /** By the names of the files below `/console/`. */
  readonly files: ReadonlyMap<string, string | Buffer>;
  /** Of the packages in it. */
  readonly modules: readonly string[];
}

/**
 * Makes the files of the page that the browser loads. Scripts and the style have the hash of their content in their names.
 * @param entry the first script; that of the console unless given @param words the modules that the build makes
 * @param style what follows style.css
 * @throws Error if a module cannot be bundled
 */
export async function buildPage({
  entry = join(PAGE, 'main.tsx'),
  words = PAGE_WORDS,
  style = '',
}: {
  readonly entry?: string;
  readonly words?: typeof PAGE_WORDS;
  readonly style?: string;
} = {}): Promise<BuiltPage> {
  const { output } = await build({
    input: { main: entry },
    platform: 'browser',
    preserveEntrySignatures: false,
    plugins: [wordsPlugin(words)],
    // As tsconfig.json says, which the builder of the image lacks.
    tsconfig: false,
    // Calls of `h` are shorter than those of the automatic runtime.
    transform: {
      jsx: { runtime: 'classic', pragma: 'h', pragmaFrag: 'Fragment' },
      inject: { h: ['preact', 'h'], Fragment: ['preact', 'Fragment'] },
    },
    experimental: { attachDebugInfo: 'none' },
    output: {
      format: 'esm',
      entryFileNames: '[name]-[hash].js',
      chunkFileNames: '[name]-[hash].js',
      minify: true,
      // The marks of pure calls are for a bundler, and take a fiftieth of the page.
      comments: false,
      codeSplitting: { groups: GROUPS },
    },
    write: false,
    logLevel: 'warn',
  });
  const chunks = output.filter((one) => one.type === 'chunk');
  const scripts = joined(chunks);
  const css = bareStyle(readFileSync(join(PAGE, 'style.css'), 'utf8') + style);
  const styleName = `style-${createHash('sha256').update(css).digest('base64url').slice(0, 8)}.css`;
  const html = readFileSync(join(PAGE, 'index.html'), 'utf8')
    .replace('/console/style.css', `/console/${styleName}`)
    .replace('/console/main.tsx', `/console/${chunks.find(({ isEntry }) => isEntry)!.fileName}`);
  const fonts = Object.entries(FONTS).map(
    ([name, specifier]) => [name, join(ROOT, 'node_modules', specifier)] as const,
  );
  const files = new Map<string, string | Buffer>([
    ['index.html', html],
    ['icon.svg', readFileSync(join(PAGE, 'icon.svg'), 'utf8')],
    [styleName, css],
    ...scripts,
    ...fonts.map(([name, file]) => [name, readFileSync(file)] as const),
  ]);
  return { files, modules: [...chunks.flatMap(({ moduleIds }) => moduleIds), ...fonts.map(([, file]) => file)] };
}

/** The scripts by their names, as rolldown makes them but for how they are joined. */
function joined(chunks: readonly OutputChunk[]): readonly (readonly [name: string, code: string])[] {
  const main = chunks.find(({ isEntry }) => isEntry)!;
  const [list = '', names = ''] = /export\{([^}]*)\};?\s*$/.exec(main.code) ?? [];
  const pairs = names.split(',').map((one) => one.split(' as '));
  // What the first script exports keeps its own name: a second one for each would not compress.
  const own = new Map(pairs.map(([name = '', exported = name]) => [exported, name]));
  const bound = (one: string) => {
    const [exported = '', name = exported] = one.split(' as ');
    return `${own.get(exported)} as ${name}`;
  };
  const fromMain = new RegExp(`(?<=import\\{)[^}]*(?=\\}from"\\./${RegExp.escape(main.fileName)}")`);
  return chunks
    .filter(({ fileName }) => !fileName.startsWith('rolldown-runtime-'))
    .map(({ fileName, code }) => [
      fileName,
      code
        .replace(list, () => `export{${[...new Set(own.values())].join()}}`)
        .replace(fromMain, (imports) => imports.split(',').map(bound).join())
        // The one function that rolldown would make a script of its own.
        .replace(
          /import\{\w+ as (\w+)\}from"\.\/rolldown-runtime-[^"]+";/,
          (_, name) => `const ${name}=e=>{let t={};for(let r in e)Object.defineProperty(t,r,{get:e[r]});return t};`,
        ),
    ]);
}

/** Writes the page into a folder, in which nothing else remains. Files that are there already stay: a gateway may be reading them. */
export function writePage({ files }: BuiltPage, folder: string): void {
  mkdirSync(folder, { recursive: true });
  const present = new Set(readdirSync(folder));
  for (const [name, content] of files) {
    const file = join(folder, name);
    if (present.has(name) && readFileSync(file).equals(Buffer.from(content))) continue;
    writeFileSync(`${file}.${process.pid}`, content);
    renameSync(`${file}.${process.pid}`, file);
  }
  for (const name of present) if (!files.has(name)) rmSync(join(folder, name), { force: true });
}

/** The modules `NAME.js` of the page, which have what the gateway's own modules say. */
function wordsPlugin(words: typeof PAGE_WORDS): Plugin {
  const nameOf = (id: string) => /^\.{1,2}\/(\w+)\.js$/.exec(id)?.[1] ?? '';
  return {
    name: 'words of the page',
    resolveId: (id) => (nameOf(id) in words ? `\0words/${nameOf(id)}` : null),
    load(id) {
      const values = id.startsWith('\0words/') ? words[id.slice('\0words/'.length)] : undefined;
      if (values === undefined) return null;
      return Object.entries(values)
        .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`)
        .join('\n');
    },
  };
}

/** A style sheet without comments and what a browser skips around signs. No text of style.css contains either. */
function bareStyle(text: string): string {
  return text
    .replace(/\/\*[^*]*\*\//g, '')
    .replace(/\s*([{};,>])\s*/g, '$1')
    .replace(/([{;][\w-]+):\s+/g, '$1:')
    .replace(/;}/g, '}');
}
