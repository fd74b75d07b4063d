import { faultOfPattern } from '../routing/pattern.ts';
import { USAGE } from '../routing/route.ts';
import { areAlike } from '../routing/router.ts';
import {
  type DescribedOperation,
  type DescribedPathItem,
  type Description,
  pathItemsOf,
  segmentsOf,
} from './description.ts';
import { instant, method, uriReference } from './setting-values.ts';
import { settingsHead } from './settings-head.ts';

export interface ImportOptions {
  /** The name of the upstream, and the address of its service. */
  readonly upstream: string;
  readonly target: string;
  /** Whether requests are to be checked against the description. */
  readonly validates: boolean;
  /** For operations that are deprecated since a day that the description does not have: `2026-11-23`. */
  readonly today: string;
}

interface ImportedRoutes {
  /** gateway.yaml with the routes, to be reviewed. */
  readonly text: string;
  readonly routes: number;
  /** How many paths of the description are there as a comment only. */
  readonly unmapped: number;
}

/**
 * Makes routes of an OpenAPI description, in its order: one for each path, and several where its operations are deprecated
 * in different ways.
 *
 * Attack: a path or an extension of the description ends its line, and continues as a setting of its own. So each value is
 * written as a JSON string, also in comments, or checked as the setting that it becomes.
 * @throws DescriptionFault
 */
export function importedRoutes(description: Description, options: ImportOptions): ImportedRoutes {
  const mapped: { readonly pattern: string; readonly item: DescribedPathItem }[] = [];
  const lines: string[] = [];
  let routes = 0;
  let unmapped = 0;
  for (const item of pathItemsOf(description)) {
    const pattern = patternOf(item.template);
    const reason = reasonAgainst(pattern, item, mapped);
    if (reason !== null) {
      lines.push(`  # ${quoted(item.template)} is not mapped: ${reason}`);
      unmapped++;
      continue;
    }
    mapped.push({ pattern: pattern!, item });
    for (const operations of routesOf(item)) {
      lines.push(...routeLines(pattern!, operations, options));
      routes++;
    }
  }
  const { upstream, target, validates } = options;
  const head = [
    'upstreams:',
    `  ${upstream}:`,
    `    targets: [${quoted(target)}]`,
    ...(validates ? [`    validate: ${quoted(description.file)}`] : []),
    '',
    `# Routes of ${quoted(description.file)}, to be reviewed: who needs a key, what a request costs, and where the service is.`,
    'routes:',
  ];
  return { text: `${settingsHead()}${[...head, ...lines].join('\n')}\n`, routes, unmapped };
}

/** The pattern of a route for a template, or null if a segment is only partly a parameter. */
function patternOf(template: string): string | null {
  const segments = segmentsOf(template);
  if (segments === null) return null;
  const names = new Set<string>();
  const written = template.slice(1).split('/');
  return segments
    .map((text, i) => {
      if (text !== null) return `/${encoded(text)}`;
      const plain = written[i]!.slice(1, -1)
        .replaceAll(/[^A-Za-z0-9_]/g, '_')
        .slice(0, 60);
      let name = /^[A-Za-z_]/.test(plain) ? plain : `p${plain}`;
      if (names.has(name)) name = `${name}_${i}`;
      names.add(name);
      return `/{${name}}`;
    })
    .join('');
}

/** Percent-encodes what a path cannot have as it is. */
function encoded(text: string): string {
  try {
    return text.replaceAll(/[^A-Za-z0-9._~!$&'()+,;=:@%-]+/gu, (found) => encodeURIComponent(found));
  } catch {
    return text;
  }
}

function reasonAgainst(
  pattern: string | null,
  item: DescribedPathItem,
  before: readonly { readonly pattern: string; readonly item: DescribedPathItem }[],
): string | null {
  if (pattern === null) return 'a segment is only partly a parameter, and `{name}` takes a whole one.';
  const fault = faultOfPattern(pattern);
  if (fault !== null) return `it ${fault}.`;
  if (areAlike(USAGE.path, pattern)) return '/usage belongs to the gateway itself.';
  const same = before.find((other) => areAlike(other.pattern, pattern));
  if (same !== undefined) return `it matches the same paths as ${quoted(same.item.template)}.`;
  return methodsOf(item).length === 0 ? 'it has no method.' : null;
}

function methodsOf({ operations }: DescribedPathItem): readonly string[] {
  const methods = operations.map((operation) => operation.method).filter((name) => method().safeParse(name).success);
  const isImplied = (name: string) => name === 'HEAD' && methods.includes('GET');
  return methods.filter((name) => !isImplied(name));
}

/** The operations of a path by what their routes must differ in: whether and how each is deprecated. */
function routesOf(item: DescribedPathItem): readonly (readonly DescribedOperation[])[] {
  const methods = methodsOf(item);
  const operations = item.operations.filter((operation) => methods.includes(operation.method));
  const groups = Map.groupBy(operations, ({ value }) =>
    isDeprecated(value) ? JSON.stringify(DEPRECATION_EXTENSIONS.map((name) => value[name])) : '',
  );
  return [...groups.values()];
}

function routeLines(
  pattern: string,
  operations: readonly DescribedOperation[],
  { upstream, today }: ImportOptions,
): readonly string[] {
  const methods = operations.map((operation) => operation.method).join(', ');
  const lines = [`  - path: ${quoted(pattern)}`, `    methods: [${methods}]`, `    upstream: ${upstream}`];
  const bodiless = operations.filter(
    (operation) =>
      ['GET', 'HEAD', 'DELETE', 'OPTIONS'].includes(operation.method) && operation.value.requestBody !== undefined,
  );
  if (bodiless.length > 0) lines.push('    body: true');
  const isOpen = ({ value }: DescribedOperation) => Array.isArray(value.security) && value.security.length === 0;
  const open = operations.filter(isOpen).map((operation) => operation.method);
  if (open.length > 0) {
    lines.push(
      `    # By the description ${open.join(', ')} needs no key: \`auth: none\` with \`limits: { minute: 60 }\` does that for a route.`,
    );
  }
  const { value } = operations[0]!;
  return isDeprecated(value) ? [...lines, ...deprecationLines(value, today)] : lines;
}

type Operation = DescribedOperation['value'];

const DEPRECATION_EXTENSIONS = ['x-deprecated-since', 'x-sunset', 'x-successor', 'x-deprecation-link'] as const;

function isDeprecated(operation: Operation): boolean {
  return operation.deprecated === true || operation['x-sunset'] !== undefined;
}

function deprecationLines(operation: Operation, today: string): readonly string[] {
  const lines = ['    deprecated:'];
  const remarks: string[] = [];
  const timeOf = (name: string) => {
    const text = operation[name];
    if (text === undefined) return undefined;
    const time = instant().safeParse(text);
    if (time.success) return { text: text as string, atMs: time.data };
    remarks.push(
      `    # ${name} is left out: it must be a date such as 2030-12-05, or a time such as 2030-12-05T00:00:00Z.`,
    );
    return undefined;
  };
  const sunset = timeOf('x-sunset');
  const since = timeOf('x-deprecated-since');
  const first = since ?? { text: today, atMs: Date.parse(today) };
  // The sunset must not be before the deprecation.
  const begins = sunset !== undefined && sunset.atMs < first.atMs ? sunset : first;
  lines.push(`      since: ${quoted(begins.text)}${since === undefined ? ' # the day of the import' : ''}`);
  if (sunset !== undefined) lines.push(`      sunset: ${quoted(sunset.text)}`);
  for (const [setting, name] of [
    ['successor', 'x-successor'],
    ['link', 'x-deprecation-link'],
  ] as const) {
    const text = operation[name];
    if (text === undefined) continue;
    if (uriReference().safeParse(text).success) lines.push(`      ${setting}: ${quoted(text as string)}`);
    else remarks.push(`    # ${name} is left out: it must be a URL or path of visible ASCII.`);
  }
  return [...lines, ...remarks];
}

/** JSON is YAML. Line ends and control characters are escaped, also those that only some readers take for one. */
export function quoted(text: string): string {
  return JSON.stringify(text).replaceAll(
    /[\x7f-\x9f\u2028\u2029\uFEFF]/g,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
