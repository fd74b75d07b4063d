import { createRequire, SourceMap } from 'node:module';
import { basename, join, relative } from 'node:path';

/*
 * Makes the Lua that Redis runs of the engine (src/engine) and of the shell around it (src/stores/redis/shell).
 *
 * Each file becomes a function that runs when something of it is used for the first time, because making the functions of all
 * files would cost a sixth of a decision. What a file imports by value is looked up where it is used.
 */

// Not by `import`: TypeScript 7 would take its own types for those of the TypeScript that this folder has, unless that is installed.
const require = createRequire(import.meta.url);
const ts = require('typescript');
const tstl = require('typescript-to-lua');

export const ROOT = join(import.meta.dirname, '../..');
/** Relative to ROOT. */
export const ENGINE_LUA = 'src/stores/redis/engine.lua';
const SHELL = 'src/stores/redis/shell';
/** Files of types, and of what is there already, become none. */
const SOURCES = /^src\/(?:engine|stores\/redis\/shell)\/(?!types|script-globals)[\w-]+\.ts$/;
/** What begins a script: each exports `main`. */
const ENTRIES = ['decision-script', 'settlement-script'];

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

const HEADER = `-- Made by \`npm run engine:lua\` of src/engine and ${SHELL}, which say what it does: change those.
-- The line of TypeScript for each line is in engine.lua.map.
`;

const FOOTER = `}
setmetatable(files, {
  __index = function(_, name)
    local one = functions[name]()
    files[name] = one
    return one
  end,
})
`;

export interface EngineLua {
  readonly lua: string;
  /** A source map of version 3, as JSON. */
  readonly map: string;
}

/** A line of Lua, and of what line of TypeScript it was made, counted from 0. */
interface Line {
  readonly text: string;
  readonly from: { readonly source: string; readonly line: number } | null;
}

/** @throws Error with what the compiler says, or if a file needs what does not exist in Redis */
export function engineLua(): EngineLua {
  const program = ts.createProgram(
    ENTRIES.map((name) => join(ROOT, SHELL, `${name}.ts`)),
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
  const names = sources.map(({ fileName }) => luaName(basename(fileName, '.ts')));
  // Tables have their size from the start, because one that grows is made again and again.
  const header = `${HEADER}local files = {${names.map((name) => `${name} = nil`).join(', ')}}\nlocal functions = {`;
  const lines: Line[] = header.split('\n').map((text) => ({ text, from: null }));
  for (const { fileName } of sources) {
    const name = basename(fileName, '.ts');
    const lua = files.get(`${name}.lua`)!;
    const map = new SourceMap(JSON.parse(files.get(`${name}.lua.map`)!));
    const source = relative(ROOT, fileName);
    lines.push({ text: `${luaName(name)} = function()`, from: null });
    for (const [i, text] of moduleOf(name, lua).entries()) {
      const entry = map.findEntry(i, Number.MAX_SAFE_INTEGER);
      if (text !== '')
        lines.push({ text, from: 'originalLine' in entry ? { source, line: entry.originalLine } : null });
    }
    lines.push({ text: 'end,', from: null });
  }
  lines.push(
    ...FOOTER.trimEnd()
      .split('\n')
      .map((text) => ({ text, from: null })),
  );
  return { lua: `${lines.map(({ text }) => text).join('\n')}\n`, map: mapOf(lines) };
}

/** The lines of a file, with its imports looked up where they are used; empty where an import stood. */
function moduleOf(name: string, lua: string): string[] {
  const places = new Map<string, string>();
  const modules = new Map<string, string>();
  const lines = lua
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [, module, path] = /^local (\w+) = require\("([\w.-]+)"\)$/.exec(line) ?? [];
      if (module !== undefined) {
        const from = path!.split('.').at(-1)!;
        if (from.startsWith('lualib')) throw new Error(`${name}.ts needs the library of typescript-to-lua.`);
        modules.set(module, from === 'script-globals' ? '' : `files.${luaName(from)}.`);
        return '';
      }
      const [, as, of, what] = /^local (\w+) = (\w+)\.(\w+)$/.exec(line) ?? [];
      if (as === undefined || !modules.has(of!)) return line;
      places.set(as, `${modules.get(of!)}${what}`);
      return '';
    });
  const exported = [...lua.matchAll(/^(?:function )?____exports\.(\w+)(?= = |\()/gm)].map(
    ([, one]) => `${one} = false`,
  );
  return lines.map((line) => {
    if (line === 'local ____exports = {}') return `local ____exports = {${exported.join(', ')}}`;
    let text = line.replace(/^(?: {4})+/, (indent) => ' '.repeat(indent.length / 2));
    if (text.trimStart().startsWith('--')) return text;
    for (const [module, place] of modules) text = text.replace(new RegExp(`(?<![\\w.])${module}\\.`, 'g'), place);
    for (const [as, place] of places) {
      if (new RegExp(`\\b(?:local|for|function)\\b[^=(]*\\b${as}\\b|\\bfunction\\b.*\\([^)]*\\b${as}\\b`).test(text))
        throw new Error(`${name}.ts: a name hides what is imported as ${as}: ${text.trim()}`);
      text = text.replace(new RegExp(`(?<![\\w."])${as}(?![\\w"]| = )`, 'g'), place);
    }
    return text;
  });
}

/** The name of a file as that of a field. */
function luaName(file: string): string {
  return file.replaceAll('-', '_');
}

/** A source map of version 3 with one place for each line. */
function mapOf(lines: readonly Line[]): string {
  const sources = [...new Set(lines.flatMap(({ from }) => from?.source ?? []))];
  let [lastSource, lastLine] = [0, 0];
  const mappings = lines.map(({ from }) => {
    if (from === null) return '';
    const source = sources.indexOf(from.source);
    const segment = [0, source - lastSource, from.line - lastLine, 0].map(vlq).join('');
    [lastSource, lastLine] = [source, from.line];
    return segment;
  });
  return `${JSON.stringify({ version: 3, file: basename(ENGINE_LUA), sources, names: [], mappings: mappings.join(';') })}\n`;
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
