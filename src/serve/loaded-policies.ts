import { type ModuleHooks, registerHooks } from 'node:module';
import { relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { printFault } from '../config/fault.ts';
import { type PolicyFile, versionOfPolicy } from '../config/policy-files.ts';
import type { Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import { escapedText } from '../io/terminal-text.ts';
import { PolicyChain, type PolicyObserver } from '../policies/chain.ts';
import { inPolicy } from '../policies/context.ts';
import type { Policy } from '../policies/policy.ts';
import type { Route } from '../routing/route.ts';

/** The policies that a program has given, by name. */
export type GivenPolicies = Readonly<Record<string, Policy>>;

interface Loaded {
  readonly file: PolicyFile;
  readonly policy: Policy;
}

/**
 * Imports the policies of the settings, in the thread that serves: functions cannot be sent from the thread that reads the
 * settings. What has not changed is not imported again, so a policy keeps what it remembers. Node.js never
 * unloads a module, so each changed version of a policy stays in memory until the process ends.
 */
export class LoadedPolicies {
  readonly #given: GivenPolicies;
  /** Those of the files that were loaded last, by name. */
  #loaded: ReadonlyMap<string, Loaded> = new Map();
  /** How many modules have been imported. Each has a URL of its own, or Node.js would not load it again. */
  #imports = 0;
  /** Null until a file is imported. */
  #hooks: ModuleHooks | null = null;

  constructor(given: GivenPolicies = {}) {
    this.#given = given;
  }

  /**
   * @returns null if nothing is to be imported; otherwise call `chainsOf` once it has resolved
   * @throws Failure `bad_settings` with a line for each policy that cannot be used; those that were loaded before stay
   */
  load({ policyFiles }: Pick<Settings, 'policyFiles'>): Promise<void> | null {
    const isLoaded = [...policyFiles].every(([name, file]) => this.#isLoaded(name, file));
    return isLoaded ? null : this.#load(policyFiles);
  }

  /** The policies of each route that has some. Call `load` with the settings first. */
  chainsOf(
    { routes, policies: { timeoutMs } }: Pick<Settings, 'routes' | 'policies'>,
    observer: PolicyObserver,
    monotonicMs: () => number,
  ): ReadonlyMap<Route, PolicyChain> {
    const chains = new Map<Route, PolicyChain>();
    for (const route of routes) {
      if (route.policies === null) continue;
      const policies = route.policies.map((name) => ({ name, policy: this.#policyOf(name) }));
      chains.set(route, new PolicyChain(policies, observer, { timeoutMs, monotonicMs }));
    }
    return chains;
  }

  #policyOf(name: string): Policy {
    const policy = this.#loaded.get(name)?.policy ?? (Object.hasOwn(this.#given, name) ? this.#given[name] : undefined);
    if (policy === undefined) throw new Error(`the policy ${name} has not been loaded`);
    return policy;
  }

  #isLoaded(name: string, { path, version }: PolicyFile): boolean {
    const file = this.#loaded.get(name)?.file;
    return file !== undefined && file.path === path && file.version === version;
  }

  async #load(policies: ReadonlyMap<string, PolicyFile>): Promise<void> {
    this.#hooks ??= registerHooks({ resolve: withVersionOfParent });
    const loaded = new Map<string, Loaded>();
    const faults: string[] = [];
    for (const [name, file] of policies) {
      const found = this.#isLoaded(name, file) ? this.#loaded.get(name)! : await this.#import(name, file);
      if (typeof found === 'string') faults.push(found);
      else loaded.set(name, found);
    }
    if (faults.length > 0) throw new Failure('bad_settings', faults.join('\n'));
    this.#loaded = loaded;
  }

  /** @returns the fault, as one line, if it cannot be used */
  async #import(name: string, file: PolicyFile): Promise<Loaded | string> {
    const url = `${pathToFileURL(file.path)}?${VERSION}=${++this.#imports}`;
    const whole = { file: file.path, line: 1, column: 1 };
    let module: { readonly default?: unknown };
    try {
      module = await inPolicy(name, () => import(url));
    } catch (error) {
      const place =
        placeOf(error, file) ?? placeOf(error instanceof SyntaxError && (await errorAsTypeScript(url)), file);
      return importFault(name, place ?? whole, error);
    }
    if (versionOfPolicy(file.path) !== file.version) {
      return faultIn(whole, `changed while the policy ${name} was loaded.`);
    }
    // Node.js has one CommonJS module for each file, so a changed one would stay as it was.
    if ('module.exports' in module) {
      return faultIn(whole, 'must be an ECMAScript module: `export default policy`, not `module.exports`.');
    }
    if (typeof module.default !== 'function') {
      return faultIn(whole, 'must have a function as its default export: `export default policy`.');
    }
    return { file, policy: module.default as Policy };
  }
}

const VERSION = 'tollgate-policy';
/** Ends the version of modules that are read as TypeScript, whatever their names end with. */
const TYPED = 't';
const VERSION_QUERY = `\\?${VERSION}=\\d+${TYPED}?`;
const VERSION_OF = new RegExp(VERSION_QUERY);
const EVERY_VERSION = new RegExp(VERSION_QUERY, 'g');

/** The relative imports of a policy are loaded with it, each time, so that all of its files are of one version. */
const withVersionOfParent: Parameters<typeof registerHooks>[0]['resolve'] = (specifier, context, next) => {
  const found = next(specifier, context);
  const version = VERSION_OF.exec(context.parentURL ?? '')?.[0];
  if (version === undefined || !specifier.startsWith('.') || !found.url.startsWith('file:')) return found;
  return { ...found, url: found.url + version };
};

/** Node.js says where a syntax error is only if it has read the module as TypeScript. @param url with its version */
async function errorAsTypeScript(url: string): Promise<unknown> {
  const hooks = registerHooks({
    load: (one, context, next) =>
      next(one, one.endsWith(TYPED) && VERSION_OF.test(one) ? { ...context, format: 'module-typescript' } : context),
  });
  try {
    await import(url + TYPED);
    return null;
  } catch (error) {
    return error;
  } finally {
    hooks.deregister();
  }
}

/** Where a policy cannot be imported; null if Node.js does not say it. */
function placeOf(error: unknown, { files }: PolicyFile): Place | null {
  return error instanceof Error ? placeIn((error.stack ?? '').replaceAll(EVERY_VERSION, ''), files) : null;
}

/** Why a policy cannot be imported. */
function importFault(name: string, place: Place, error: unknown): string {
  const { message } = error instanceof Error ? error : new Error(String(error));
  const [reason] = message.replaceAll(EVERY_VERSION, '').split('\n');
  return faultIn(place, `the policy ${name} cannot be loaded: ${reason!.replace(/\.?$/, '.')}`);
}

interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The first place in one of the files that a stack names, as a path or as a URL. */
function placeIn(stack: string, files: readonly string[]): Place | null {
  const lines = stack.split('\n');
  for (const [i, line] of lines.entries()) {
    for (const file of files) {
      const text = line.includes('file:') ? pathToFileURL(file).href : file;
      const from = line.indexOf(text);
      const at = from === -1 ? null : /^:(\d+)(?::(\d+))?/.exec(line.slice(from + text.length));
      if (at === null) continue;
      // Lines of the file follow, with a mark below the last.
      const mark = lines.slice(i + 1).find((below) => /^\s*\^/.test(below)) ?? '^';
      return { file, line: Number(at[1]), column: at[2] === undefined ? mark.indexOf('^') + 1 : Number(at[2]) };
    }
  }
  return null;
}

/** One printable line. The path is relative if the file is below the working directory, as an operator would write it. */
function faultIn({ file, line, column }: Place, message: string): string {
  const near = relative(process.cwd(), file);
  const shown = near.startsWith('..') ? file : near;
  return escapedText(printFault({ file: shown, line, column, path: '', message }));
}
