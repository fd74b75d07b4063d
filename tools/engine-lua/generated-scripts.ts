import { createRequire, SourceMap } from 'node:module';
import { basename, join, relative } from 'node:path';

/*
 * Makes the scripts that Redis runs of the engine (src/engine), of the shell around it (src/stores/redis/shell) and of src/model/windows.ts. Each has what it needs.
 *
 * Each call makes the functions of the script again, at 400 instructions each and 100 for each look-up in a table of them. So what a file
 * exports becomes local variables, such as `charging_count`; an entry is a function that has the files which only it uses; and a file of
 * RARE becomes a table when something of it is used for the first time. A plain decision takes 45,000 instructions less than with a table
 * for each file.
 */

// Not by `import`: TypeScript 7 would take its own types for those of the TypeScript that this folder has, unless that is installed.
const require = createRequire(import.meta.url);
const ts = require('typescript');
const tstl = require('typescript-to-lua');

export const ROOT = join(import.meta.dirname, '../..');
/** The scripts, relative to ROOT, with the files of the shell that begin something: each exports `main`. */
const SCRIPTS: Readonly<Record<string, readonly string[]>> = {
  'src/stores/redis/engine.lua': ['decision-script', 'settlement-script'],
  'src/stores/redis/changes.lua': [
    'top-up-script',
    'undo-top-up-script',
    'reset-script',
    'lift-script',
    'carry-ban-script',
    'read-bans-script',
    'in-flight-script',
    'reconcile-script',
  ],
  'src/stores/redis/refusals.lua': ['refusals-script', 'refused-now-script'],
};
const SHELL = 'src/stores/redis/shell';
/** Files of types, and of what is there already, become none. */
const SOURCES = /^src\/(?:(?:engine|stores\/redis\/shell)\/(?!types|script-globals)[\w-]+|model\/windows)\.ts$/;
/** Most calls use nothing of these. */
const RARE: ReadonlySet<string> = new Set([
  ...['counting', 'leasing', 'refusing', 'special', 'rare-fields', 'windows', 'window-fields'],
  ...['operator-changes', 'reconcile', 'once', 'top-up-fields'],
  ...['history-hours', 'history-moves', 'stored-history', 'late-costs'],
]);

const OPTIONS = {
  target: ts.ScriptTarget.ESNext,
  lib: ['lib.esnext.d.ts'],
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  strict: true,
  noUncheckedIndexedAccess: true,
  rewriteRelativeImportExtensions: true,
  skipLibCheck: true,
  types: [],
  luaTarget: tstl.LuaTarget.Lua51,
  // A construct that needs the library of typescript-to-lua imports it, and is refused below.
  luaLibImport: tstl.LuaLibImportKind.Require,
  noImplicitSelf: true,
  noHeader: true,
  noResolvePaths: ['*'],
  sourceMap: true,
};

const headerOf = (
  path: string,
) => `-- Made by \`npm run engine:lua\` of src/engine and ${SHELL}, which say what it does: change those.
-- The line of TypeScript for each line is in ${basename(path)}.map.
`;

export interface Script {
  readonly path: string;
  readonly lua: string;
  /** A source map of version 3, as JSON. */
  readonly map: string;
}

/** A line of Lua, and of what line of TypeScript it was made, counted from 0. */
interface Line {
  readonly text: string;
  readonly from: { readonly source: string; readonly line: number } | null;
}

/** A file as the compiler has made it. */
interface Module {
  /** Of its file, without the ending. */
  readonly name: string;
  /** Relative to ROOT. */
  readonly source: string;
  readonly lua: string;
  readonly map: SourceMap;
  /** The names of the files of which it uses something. */
  readonly imports: readonly string[];
  readonly exports: readonly string[];
}

/** @throws Error with what the compiler says, or if a file needs what does not exist in Redis */
export function engineScripts(): readonly Script[] {
  const modules = compiled();
  return Object.entries(SCRIPTS).map(([path, entries]) => scriptOf(path, entries, modules));
}

function scriptOf(path: string, entries: readonly string[], all: readonly Module[]): Script {
  const needed = new Set(entries.flatMap((entry) => [...usedBy(entry, all)]));
  const modules = all.filter(({ name }) => needed.has(name));
  const rare = modules.filter(({ name }) => RARE.has(name));
  const usual = modules.filter(({ name }) => !RARE.has(name));
  const used = [...entries, ...rare.map(({ name }) => name)].map((root) => usedBy(root, modules));
  const shared = usual.filter(({ name }) => used.filter((names) => names.has(name)).length > 1);
  const lines = linesOf(`${headerOf(path)}local rare_files = {}`);
  for (const one of shared) lines.push(...asLocals(one));
  lines.push(...linesOf('setmetatable(rare_files, {__index = function(_, name)'));
  for (const [i, one] of rare.entries()) {
    lines.push(...linesOf(`${i === 0 ? 'if' : 'elseif'} name == "${luaName(one.name)}" then`), ...asTable(one));
  }
  lines.push(...linesOf('end\nend})'));
  for (const [i, entry] of entries.entries()) {
    const own = usual.filter((one) => used[i]!.has(one.name) && !shared.includes(one));
    lines.push(...linesOf(`local function ${luaName(entry)}()`), ...own.flatMap(asLocals));
    lines.push(...linesOf(`return ${luaName(entry)}_main()\nend`));
  }
  return { path, lua: `${lines.map(({ text }) => text).join('\n')}\n`, map: mapOf(basename(path), lines) };
}

/** The files of which Lua is made, each behind those that it imports. */
function compiled(): readonly Module[] {
  const program = ts.createProgram(
    Object.values(SCRIPTS).flatMap((entries) => entries.map((name) => join(ROOT, SHELL, `${name}.ts`))),
    OPTIONS,
  );
  const files = new Map<string, string>();
  const sources = (program.getSourceFiles() as readonly { readonly fileName: string }[]).filter(({ fileName }) =>
    SOURCES.test(relative(ROOT, fileName)),
  );
  const { diagnostics } = new tstl.Transpiler().emit({
    program,
    sourceFiles: sources,
    writeFile: (name: string, text: string) => files.set(basename(name), text),
  });
  const faults = [...ts.getPreEmitDiagnostics(program), ...diagnostics];
  if (faults.length > 0) {
    const host = {
      getCanonicalFileName: (name: string) => name,
      getCurrentDirectory: () => ROOT,
      getNewLine: () => '\n',
    };
    throw new Error(ts.formatDiagnostics(faults, host));
  }
  return sources.map(({ fileName }) => {
    const name = basename(fileName, '.ts');
    const lua = files.get(`${name}.lua`)!;
    return {
      ...{ name, lua, source: relative(ROOT, fileName) },
      map: new SourceMap(JSON.parse(files.get(`${name}.lua.map`)!)),
      imports: [...lua.matchAll(/= require\("([\w.-]+)"\)/g)].map(([, path]) => path!.split('.').at(-1)!),
      exports: [...lua.matchAll(/^(?:function )?____exports\.(\w+)(?= = |\()/gm)].map(([, one]) => one!),
    };
  });
}

/** The names of a file and of all that it needs. */
function usedBy(root: string, modules: readonly Module[]): ReadonlySet<string> {
  const names = new Set([root]);
  for (const name of names) for (const one of modules.find((one) => one.name === name)?.imports ?? []) names.add(one);
  return names;
}

function linesOf(text: string): Line[] {
  return text.split('\n').map((line) => ({ text: line, from: null }));
}

/** A file whose exports are local variables. */
function asLocals(one: Module): Line[] {
  const names = one.exports.map((name) => `${luaName(one.name)}_${name}`);
  return [...linesOf(`local ${names.join(', ')}\ndo`), ...bodyOf(one, `${luaName(one.name)}_`), ...linesOf('end')];
}

/** A file whose exports are a table, which has its size from the start, because one that grows is made again and again. */
function asTable(one: Module): Line[] {
  const fields = one.exports.map((name) => `${name} = false`);
  return [
    ...linesOf(`local exports = {${fields.join(', ')}}`),
    ...bodyOf(one, 'exports.'),
    ...linesOf(`rare_files.${luaName(one.name)} = exports\nreturn exports`),
  ];
}

/** The lines of a file, with what it imports named as it is where it is used. @param own what is before the names of its exports */
function bodyOf({ name, lua, map, source }: Module, own: string): Line[] {
  const places = new Map<string, string>();
  const modules = new Map([['____exports', own]]);
  const lines = lua.trimEnd().split('\n');
  const rest = lines.map((line) => {
    const [, module, path] = /^local (\w+) = require\("([\w.-]+)"\)$/.exec(line) ?? [];
    if (module !== undefined) {
      const from = path!.split('.').at(-1)!;
      if (from.startsWith('lualib')) throw new Error(`${name}.ts needs the library of typescript-to-lua.`);
      const before = RARE.has(from) ? `rare_files.${luaName(from)}.` : `${luaName(from)}_`;
      modules.set(module, from === 'script-globals' ? '' : before);
      return '';
    }
    if (line === 'local ____exports = {}' || line === 'return ____exports') return '';
    const [, as, of, what] = /^local (\w+) = (\w+)\.(\w+)$/.exec(line) ?? [];
    if (as === undefined || !modules.has(of!)) return line;
    places.set(as, `${modules.get(of!)}${what}`);
    return '';
  });
  return rest.flatMap((line, i) => {
    if (line === '') return [];
    const entry = map.findEntry(i, Number.MAX_SAFE_INTEGER);
    const from = 'originalLine' in entry ? { source, line: entry.originalLine } : null;
    let text = line.replace(/^(?: {4})+/, (indent) => ' '.repeat(indent.length / 2));
    if (text.trimStart().startsWith('--')) return { text, from };
    for (const [module, place] of modules) text = text.replace(new RegExp(`(?<![\\w.])${module}\\.`, 'g'), place);
    for (const [as, place] of places) {
      if (new RegExp(`\\b(?:local|for|function)\\b[^=(]*\\b${as}\\b|\\bfunction\\b.*\\([^)]*\\b${as}\\b`).test(text))
        throw new Error(`${name}.ts: a name hides what is imported as ${as}: ${text.trim()}`);
      text = text.replace(new RegExp(`(?<![\\w."])${as}(?![\\w"]| = )`, 'g'), place);
    }
    return { text: withoutIterator(text), from };
  });
}

/** A loop over an array by numbers, which takes fewer instructions than one by `ipairs`. */
function withoutIterator(line: string): string {
  return line.replace(
    /^( *)for ____, (\w+) in ipairs\((.*)\) do$/,
    '$1local ____all = $3 for ____i = 1, #____all do local $2 = ____all[____i]',
  );
}

/** The name of a file as that of a field. */
function luaName(file: string): string {
  return file.replaceAll('-', '_');
}

/** A source map of version 3 with one place for each line. */
function mapOf(file: string, lines: readonly Line[]): string {
  const sources = [...new Set(lines.flatMap(({ from }) => from?.source ?? []))];
  let [lastSource, lastLine] = [0, 0];
  const mappings = lines.map(({ from }) => {
    if (from === null) return '';
    const source = sources.indexOf(from.source);
    const segment = [0, source - lastSource, from.line - lastLine, 0].map(vlq).join('');
    [lastSource, lastLine] = [source, from.line];
    return segment;
  });
  return `${JSON.stringify({ version: 3, file, sources, names: [], mappings: mappings.join(';') })}\n`;
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** A number as source maps write it: five bits a digit, the lowest first, of which the very first is the sign. */
function vlq(number: number): string {
  let text = '';
  let rest = number < 0 ? 1 - 2 * number : 2 * number;
  do {
    text += DIGITS[(rest & 31) | (rest > 31 ? 32 : 0)]!;
    rest >>= 5;
  } while (rest > 0);
  return text;
}
