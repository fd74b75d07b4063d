import type { z } from 'zod';
import { findCollisions } from '../gateway/route.ts';
import { gatewaySchema, LATER_GATEWAY_KEYS, routeSchema } from './gateway-schema.ts';
import { asArray, field, isMapping } from './raw.ts';
import { instant } from './values.ts';
import { type FileKind, type Note, type Parsed, parseYaml } from './yaml.ts';

export type GatewayFile = z.output<typeof gatewaySchema>;

/** Reads the text of gateway.yaml (contract section 2). `file` is how its faults name it. */
export function parseGatewayFile(text: string, file: string): Parsed<GatewayFile> {
  return parseYaml(text, file, GATEWAY_FILE);
}

const GATEWAY_FILE: FileKind<typeof gatewaySchema> = {
  schema: gatewaySchema,
  later: LATER_GATEWAY_KEYS,
  check(raw, fault, warn) {
    const listen = field(raw, 'listen');
    const routes = asArray(field(raw, 'routes'));
    checkRoutes(routes, fault, warn);
    checkUpstreams(routes, field(raw, 'upstreams'), fault, warn);
    checkListen(listen, warn);
  },
};

/** Compares the routes whose pattern is sound, whatever is wrong with the rest. */
function checkRoutes(raw: readonly unknown[], fault: Note, warn: Note): void {
  const paths = raw.flatMap((entry, index) => {
    const path = routeSchema.shape.path.safeParse(field(entry, 'path'));
    return path.success ? [{ index, path: path.data }] : [];
  });
  for (const { index, with: other } of findCollisions(paths.map(({ path }) => path))) {
    const [one, first] = [paths[index]!, paths[other]!];
    const reason = `matches the same paths as routes[${first.index}] (${first.path}) and neither is more specific`;
    fault(['routes', one.index, 'path'], `${reason}; join them into one route or change one of the patterns.`);
  }
  for (const { index, path } of paths) checkUsage(index, path, fault, warn);
  for (const [index, entry] of raw.entries()) {
    checkMethods(asArray(field(entry, 'methods')), index, fault);
    checkDates(field(entry, 'deprecated'), index, fault);
  }
}

/** `GET /usage` is answered by the gateway itself (contract section 4). */
function checkUsage(index: number, path: string, fault: Note, warn: Note): void {
  const at = ['routes', index, 'path'];
  if (path === '/usage') fault(at, 'is taken: the gateway itself answers /usage. Give the route another path.');
  else if (path === '/**' || /^\/\{[^/]*\}$/.test(path)) {
    warn(at, 'also covers /usage, which the gateway answers itself and never forwards.');
  }
}

function checkMethods(methods: readonly unknown[], index: number, fault: Note): void {
  for (const [i, method] of methods.entries()) {
    if (methods.indexOf(method) < i)
      fault(['routes', index, 'methods', i], `names ${method} a second time; leave it out.`);
  }
}

/** RFC 9745 section 4: the sunset must not be earlier than the deprecation. */
function checkDates(deprecated: unknown, index: number, fault: Note): void {
  const [since, sunset] = [
    instant().safeParse(field(deprecated, 'since')),
    instant().safeParse(field(deprecated, 'sunset')),
  ];
  if (!since.success || !sunset.success || sunset.data >= since.data) return;
  fault(['routes', index, 'deprecated', 'sunset'], 'is before `since`; it must be the same time or a later one.');
}

function checkUpstreams(routes: readonly unknown[], raw: unknown, fault: Note, warn: Note): void {
  if (!isMapping(raw)) return;
  const names = Object.keys(raw);
  const used = new Set<unknown>();
  for (const [index, route] of routes.entries()) {
    const upstream = field(route, 'upstream');
    used.add(upstream);
    if (typeof upstream === 'string' && !names.includes(upstream)) {
      fault(
        ['routes', index, 'upstream'],
        `is not one of \`upstreams\`; it must be ${names.join(' or ') || 'defined there'}.`,
      );
    }
  }
  for (const name of names.filter((name) => !used.has(name))) {
    warn(['upstreams', name], 'is used by no route.', 'key');
  }
}

function checkListen(listen: unknown, warn: Note): void {
  const shape = gatewaySchema.shape.listen.unwrap().shape;
  const headers = shape.headersTimeout.safeParse(field(listen, 'headersTimeout'));
  const request = shape.requestTimeout.safeParse(field(listen, 'requestTimeout'));
  if (headers.success && request.success && headers.data > request.data) {
    const part = field(listen, 'headersTimeout') === undefined ? 'requestTimeout' : 'headersTimeout';
    warn(['listen', part], 'leaves headersTimeout longer than requestTimeout, so that it never comes into effect.');
  }
  for (const [i, network] of asArray(field(listen, 'trustedProxies')).entries()) {
    if (typeof network !== 'string' || !network.endsWith('/0')) continue;
    warn(
      ['listen', 'trustedProxies', i],
      'believes the X-Forwarded-For of everybody, who can then choose their address.',
    );
  }
}
