import type { Route } from '../routing/router.ts';
import type { Program } from '../validate/program.ts';
import { type Description, DescriptionFault, pathItemsOf, readDescription } from './description.ts';
import type { Described } from './description-program.ts';
import type { Fault, Path } from './fault.ts';
import type { GatewayFile } from './gateway-file.ts';
import { signatureOf } from './read-file.ts';

/*
 * The descriptions that gateway.yaml names (`validate`).
 */

/** A route whose requests are checked, and the file of the description. */
export interface DescribedRoute extends Described {
  /** The route's own path; `pattern` is what the service gets. */
  readonly path: string;
  readonly file: string;
  /** Where the file is named. */
  readonly at: Path;
}

export interface ReadDescriptions {
  readonly programs: ReadonlyMap<string, Program>;
  readonly texts: readonly string[];
  /** `signatureOf` the files, taken before they were read. */
  readonly signature: string;
  readonly faults: readonly Fault[];
  readonly warnings: readonly Fault[];
}

/** The routes whose requests are checked, as the service gets their paths. @param entries what gateway.yaml says of each */
export function describedRequests(
  routes: readonly Route[],
  { routes: entries }: Pick<GatewayFile, 'routes'>,
): readonly DescribedRoute[] {
  return routes.flatMap(({ path, methods, rewrite, upstream, description: file }, i) => {
    if (file === null) return [];
    const at: Path =
      entries[i]!.validate === undefined ? ['upstreams', upstream, 'validate'] : ['routes', i, 'validate'];
    return [{ file, at, path, pattern: rewrite?.pattern ?? path, methods }];
  });
}

/** Reads the descriptions, each once. @param gateway the positions of gateway.yaml */
export async function readDescriptions(
  routes: readonly DescribedRoute[],
  gateway: { locate(path: Path): Fault },
  isReload: boolean,
): Promise<ReadDescriptions> {
  const programs = new Map<string, Program>();
  const texts: string[] = [];
  const faults: Fault[] = [];
  const warnings: Fault[] = [];
  const files = [...new Set(routes.map(({ file }) => file))];
  const signature = signatureOf(files);
  if (files.length === 0) return { programs, texts, signature, faults, warnings };
  // Only for a gateway that checks requests: ajv and its kin take 30 ms and 10 MB.
  const compiler = await import('./description-program.ts');
  for (const file of files) {
    const own = routes.filter((route) => route.file === file);
    const { line } = gateway.locate(own[0]!.at);
    const read = readDescription(file, `It is named in line ${line} of gateway.yaml.`, isReload);
    if ('fault' in read) {
      faults.push(read.fault);
      continue;
    }
    const made = madeOf(read, own, compiler);
    if ('fault' in made) {
      faults.push(made.fault);
      continue;
    }
    programs.set(file, made.program);
    texts.push(read.text);
    warnings.push(...made.warnings);
    for (const route of own) {
      const message = faultOfRoute(route, made.program, read, compiler);
      if (message !== null) faults.push({ ...gateway.locate(route.at), message });
    }
  }
  return { programs, texts, signature, faults, warnings };
}

type Compiler = typeof import('./description-program.ts');

function madeOf(description: Description, routes: readonly DescribedRoute[], { programOf }: Compiler) {
  const at = (path: string, message: string): Fault => {
    return { file: description.file, line: 1, column: 1, path: path.slice(0, 300), message };
  };
  try {
    const { program, warnings } = programOf(description, routes);
    return { program, warnings: warnings.map((warning) => at(warning.at, warning.message)) };
  } catch (error) {
    if (error instanceof DescriptionFault) return { fault: at(error.at, error.message) };
    // Attack: schemas within schemas, each sound by itself, exhaust the stack of what compiles them.
    if (error instanceof RangeError) return { fault: at('', 'is nested too deeply to be made into checks.') };
    throw error;
  }
}

/** A route that the description lacks would refuse every request. */
function faultOfRoute(
  route: DescribedRoute,
  { paths }: Program,
  description: Description,
  { overlaps }: Compiler,
): string | null {
  const { pattern, methods, file } = route;
  const described = paths.filter((path) => overlaps(pattern, path));
  if (described.length === 0) return noPathText(route, description);
  if (pattern.endsWith('/**')) return null;
  const has = (method: string) => described.some(({ operations }) => operations.has(method));
  const missing = methods.filter((method) => !has(method) && !(method === 'HEAD' && has('GET')));
  if (missing.length === 0) return null;
  return `${file} describes no ${missing.join(', ')} for ${pattern}; describe it, or leave the method out of the route.`;
}

/** How many paths of a description a message names. */
const MAX_PATHS = 3;

/** Says what the service gets and what is described, each whole, because `rewrite` and `servers` both change paths. */
function noPathText({ path, pattern, file }: DescribedRoute, description: Description): string {
  const templates = pathItemsOf(description).map(({ template }) => JSON.stringify(template).slice(1, -1));
  const named = templates.slice(0, MAX_PATHS).join(', ').slice(0, 300);
  const more = templates.length > MAX_PATHS ? ` and ${templates.length - MAX_PATHS} more` : '';
  const { basePath } = description;
  const server = basePath === '' ? '' : ` (with ${basePath} of its first server in front)`;
  const rewritten = path === pattern ? '' : ` of ${path} by \`rewrite\``;
  const all = templates.length === 0 ? 'no path' : `${named}${more}${server}`;
  return (
    `${file} describes no path that this route serves (${pattern}). The service gets ${pattern}${rewritten}, and the description has ` +
    `${all}. Change the path or \`rewrite\` of the route, or \`servers\` of the description, so that both are the same.`
  );
}
