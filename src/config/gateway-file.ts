import { isDeepStrictEqual } from 'node:util';
import { comparable, faultOfRequestField, faultOfResponseField } from '../http1/field-rules.ts';
import { hasPunctuation, reservedByFolding } from '../http1/forwarded-fields.ts';
import { IDEMPOTENT } from '../http1/request-line.ts';
import { looserRules } from '../routing/bounds.ts';
import { faultOfChange, faultOfTemplate, patternAfter } from '../routing/path-template.ts';
import { USAGE } from '../routing/route.ts';
import {
  areAlike,
  type Collision,
  findBare,
  findCollisions,
  findSurrounding,
  findUnserved,
  shapeOf,
  withHead,
} from '../routing/router.ts';
import type { Path } from './fault.ts';
import { type GatewayFile, gatewaySchema, listenEntry, routeEntry, upstreamEntry } from './gateway-schema.ts';
import { checkKeyFormats, checkKeySources, checkResource } from './identification.ts';
import { routesOf } from './routes.ts';
import { bodySeconds, faultOfTarget, instant, targetOf, timeout } from './setting-values.ts';
import { checkTimes, costTables, timesNamed } from './tables.ts';
import { asArray, type FileKind, field, isMapping, type Note, type ParseResult, parseYaml } from './yaml.ts';

type RouteEntry = GatewayFile['routes'][number];

/** Parses the text of gateway.yaml (contract section 2). @param file its name in faults */
export function parseGatewayFile(text: string, file: string): ParseResult<GatewayFile> {
  return parseYaml(text, file, GATEWAY_FILE);
}

const GATEWAY_FILE: FileKind<typeof gatewaySchema> = {
  schema: gatewaySchema,
  check(raw, fault, warn) {
    const [listen, upstreams, keys, headers, tables] = ['listen', 'upstreams', 'keys', 'headers', 'tables'].map(
      (name) => field(raw, name),
    );
    const routes = asArray(field(raw, 'routes'));
    checkPaths(routes, fault, warn);
    for (const [index, route] of routes.entries()) {
      const around = { listen, upstreams, keys, headers, tables };
      checkRoute(route, around, noteAt(fault, 'routes', index), noteAt(warn, 'routes', index));
    }
    checkSharedLimits(routes, fault);
    checkSurroundingRoutes(routes, { upstreams, tables, listen }, warn);
    checkUpstreams(routes, upstreams, fault, warn);
    checkListen(listen, noteAt(fault, 'listen'), noteAt(warn, 'listen'));
    checkTls(field(field(raw, 'admin'), 'tls'), noteAt(fault, 'admin', 'tls'));
    checkAllowedNames(asArray(field(headers, 'allow')), noteAt(fault, 'headers', 'allow'));
    checkErrorFields(field(field(raw, 'errors'), 'headers'), noteAt(fault, 'errors', 'headers'));
    checkCors(field(raw, 'cors'), noteAt(fault, 'cors'));
    if (field(keys, 'certificates') === true && field(field(listen, 'tls'), 'clientCa') === undefined) {
      fault(
        ['keys', 'certificates'],
        'needs `clientCa` in `listen.tls`, or no certificate of a client can be checked.',
      );
    }
    checkKeyFormats(keys, noteAt(fault, 'keys'), noteAt(warn, 'keys'));
    checkKeySources(keys, field(raw, 'jwt'), noteAt(fault, 'keys'));
    checkResource(field(raw, 'jwt'), noteAt(fault, 'jwt'));
  },
};

/** Records at paths below a part of the document. */
function noteAt(note: Note, ...at: Path): Note {
  return (path, message, part) => note([...at, ...path], message, part);
}

/** Compares the routes whose pattern is valid, even if another part of the route is not. */
function checkPaths(raw: readonly unknown[], fault: Note, warn: Note): void {
  const paths = raw.flatMap((entry, index) => {
    const path = routeEntry.shape.path.safeParse(field(entry, 'path'));
    const hosts = routeEntry.shape.hosts.safeParse(field(entry, 'hosts'));
    const when = routeEntry.shape.when.safeParse(field(entry, 'when'));
    if (!path.success || !hosts.success || !when.success) return [];
    return [{ index, hosts: hosts.data, path: path.data, when: when.data, methods: soundMethodsOf(entry) }];
  });
  for (const collision of findCollisions(paths)) {
    const [one, other] = [paths[collision.index]!, paths[collision.with]!];
    const text = collisionText(collision, `routes[${other.index}] (${other.path})`, one.when !== null);
    fault(['routes', one.index, 'path'], text);
  }
  for (const index of findUnserved(paths)) {
    const message =
      'leaves requests with other fields for this path to no route: they get 404. Add a route without `when`.';
    warn(['routes', paths[index]!.index, 'when'], message, 'key');
  }
  for (const { index, path } of paths) checkUsage(index, path, fault, warn);
  for (const i of findBare(paths)) {
    const { index, path } = paths[i]!;
    const bare = path.slice(0, -3);
    warn(
      ['routes', index, 'path'],
      `also matches ${bare}, which no route has. Give ${bare} a route if its rules differ.`,
    );
  }
}

/** The parts of the document with which the parts of a route are compared. */
interface Surroundings {
  readonly listen: unknown;
  readonly upstreams: unknown;
  readonly keys: unknown;
  readonly headers: unknown;
  readonly tables: unknown;
}

function checkRoute(route: unknown, around: Surroundings, fault: Note, warn: Note): void {
  const { listen, upstreams } = around;
  checkMethods(asArray(field(route, 'methods')), fault);
  checkAuth(route, fault);
  checkUpgrade(route, upstreams, fault);
  checkDates(field(route, 'deprecated'), fault);
  checkRewrite(route, fault);
  checkOptions(route, fault);
  checkPassed(route, upstreams, fault);
  checkReply(route, fault);
  checkFieldRules(route, fault);
  checkBodyTime(route, listen, warn);
  checkIdleTimeout(route, warn);
  checkRetries(route, upstreams, fault, warn);
  checkCache(route, fault, warn);
  checkReserves(route, around, fault);
  checkTimes(field(route, 'cost'), around.tables, fault);
  checkWhen(route, around, fault);
}

/**
 * Attack: a client sends `X_Version`, which `headers.allow` lets pass, and a service that folds punctuation reads it as the X-Version by which
 * another route is chosen. Or the field is the one in which callers send their keys.
 */
function checkWhen(route: unknown, { keys, headers }: Surroundings, fault: Note): void {
  const when = field(route, 'when');
  const conditions = isMapping(when)
    ? [[['when'], when] as const]
    : asArray(when).map((one, i) => [['when', i], one] as const);
  const allowed = asArray(field(headers, 'allow')).filter((name) => typeof name === 'string');
  for (const [at, condition] of conditions) {
    const name = field(condition, 'header');
    if (typeof name !== 'string') continue;
    const isName = (other: unknown) => typeof other === 'string' && other.toLowerCase() === name.toLowerCase();
    const note = (message: string) => fault([...at, 'header'], message);
    const folding = allowed.find(
      (other) => comparable(other, 'request') === comparable(name, 'request') && !isName(other),
    );
    if (asArray(field(keys, 'from')).some((place) => isName(field(place, 'header')))) {
      note('may have the key of a caller (`keys.from`), and keys are not compared; name another field.');
    } else if (hasPunctuation(name) && !allowed.some(isName)) {
      note(
        'is a field that no service gets, because of its punctuation; name another one, or list it in `headers.allow`.',
      );
    } else if (folding !== undefined) {
      note(
        `is the same as ${folding} in \`headers.allow\` for services that fold punctuation; leave one of the two out.`,
      );
    }
  }
}

/**
 * A field that says what a request reserves has to reach the service.
 *
 * Attack: a client writes 1 into a field that the gateway drops or replaces, and the service does the work of its own default. Or it sends
 * `X_Max_Rows` beside it, which `headers.allow` lets pass, to a service that folds punctuation.
 */
function checkReserves(route: unknown, around: Surroundings, fault: Note): void {
  const cost = field(route, 'cost');
  for (const unit of isMapping(cost) ? Object.keys(cost) : []) {
    const reserve = field(field(cost, unit), 'reserve');
    const at = ['cost', unit, 'reserve'];
    checkReaches(field(reserve, 'header'), route, around, noteAt(fault, ...at, 'header'));
    for (const [i, part] of asArray(field(reserve, 'sum')).entries()) {
      checkReaches(field(part, 'header'), route, around, noteAt(fault, ...at, 'sum', i, 'header'));
    }
    for (const { path, named } of timesNamed(cost, unit)) {
      const by = field(field(field(around.tables, named.split('.')[0]!), 'by'), 'header');
      checkReaches(by, route, around, noteAt(fault, ...path));
    }
  }
}

/** @param name of a field of the request */
function checkReaches(name: unknown, route: unknown, { upstreams, keys, headers }: Surroundings, fault: Note): void {
  if (typeof name !== 'string') return;
  const isName = (other: unknown) => typeof other === 'string' && other.toLowerCase() === name.toLowerCase();
  const changes = [route, field(upstreams, String(field(route, 'upstream')))].map((of) =>
    field(field(of, 'headers'), 'request'),
  );
  const changed = changes.flatMap((change) => [
    ...asArray(field(change, 'remove')),
    ...Object.keys(field(change, 'set') ?? {}),
  ]);
  const ofKeys = asArray(field(keys, 'from')).map((place) => field(place, 'header'));
  const isReserved = reservedByFolding(name) !== null && !FORWARDED_AS_SENT.test(name);
  const allowed = asArray(field(headers, 'allow'));
  const isDropped = hasPunctuation(name) && !allowed.some(isName);
  const isAlike = (other: unknown) =>
    typeof other === 'string' && !isName(other) && comparable(other, 'request') === comparable(name, 'request');
  const alike = allowed.find(isAlike);
  if (alike !== undefined) {
    fault(
      [],
      `is read from ${name}, which services that fold punctuation take for ${alike} in \`headers.allow\`; leave one of the two out.`,
    );
  }
  if (!isReserved && !isDropped && ![...changed, ...ofKeys].some(isName)) return;
  fault([], `names ${name}, a field that the service does not get as the client sends it; name another one.`);
}

/** Fields that the gateway writes, with what the client or a trusted proxy sends. */
const FORWARDED_AS_SENT = /^(?:content-length|x-forwarded-.+)$/i;

/** The methods of a route; none if they are missing or cannot be read, which is reported elsewhere. */
function soundMethodsOf(entry: unknown): readonly string[] {
  const given = field(entry, 'methods');
  const methods = routeEntry.shape.methods.safeParse(given);
  if (!methods.success || (given === undefined && !hasReply(entry))) return [];
  const takesOptions = field(entry, 'options') !== undefined && !methods.data.includes('OPTIONS');
  return takesOptions ? [...methods.data, 'OPTIONS'] : methods.data;
}

/** Whether the gateway answers the requests of a route itself. */
function hasReply(entry: unknown): boolean {
  return field(entry, 'redirect') !== undefined || field(entry, 'respond') !== undefined;
}

/** @param other the earlier route @param hasFields whether both have `when` */
function collisionText({ host, method }: Collision, other: string, hasFields: boolean): string {
  const where = host === null ? '' : ` on ${host}`;
  if (method === null) {
    return `matches the same paths as ${other}${where}, with another percent-encoding; write both as in that route, or join them.`;
  }
  const implied = method === 'HEAD' ? ' (GET includes HEAD)' : '';
  if (hasFields) {
    return `has ${method} for the same paths and a value of \`when\` in common with ${other}${where}${implied}; leave it out of one of them.`;
  }
  return `has ${method} for the same paths as ${other}${where}${implied}; leave the method out of one of them, or change a path.`;
}

/** A rewrite must fit the route's path, and make nothing that the gateway would refuse from a client. */
function checkRewrite(entry: unknown, fault: Note): void {
  const path = routeEntry.shape.path.safeParse(field(entry, 'path'));
  const change = routeEntry.shape.rewrite.safeParse(field(entry, 'rewrite'));
  if (!path.success || !change.success || change.data === null) return;
  const wrong = faultOfChange(path.data, change.data);
  if (wrong !== null) fault(['rewrite', wrong.part], `${wrong.message}.`);
}

function checkOptions(entry: unknown, fault: Note): void {
  const options = field(entry, 'options');
  if (options !== undefined && hasReply(entry)) {
    fault(['options'], 'cannot be beside `redirect` or `respond`; name OPTIONS in `methods`, or leave it out.', 'key');
  } else if (options === 'answer' && asArray(field(entry, 'methods')).includes('OPTIONS')) {
    fault(['options'], 'cannot be `answer` while `methods` has OPTIONS, which passes it; leave one of the two out.');
  }
}

/**
 * Attack: an OpenAPI description has no operation for `/files/a%2Fb`, and the service another one than the gateway checks. Or a Location that
 * begins with `//` leads to another host. So a route has none of these and passes odd paths.
 */
function checkPassed(entry: unknown, upstreams: unknown, fault: Note): void {
  const path = field(entry, 'path');
  const validate = field(entry, 'validate') ?? field(field(upstreams, String(field(entry, 'upstream'))), 'validate');
  for (const form of ['encodedSlashes', 'dotSegments', 'emptySegments']) {
    if (field(entry, form) !== 'pass') continue;
    if (typeof path === 'string' && !path.endsWith('/**')) {
      fault([form], 'can be `pass` only if the path of the route ends in `/**`: its other segments are never odd.');
    } else if (hasReply(entry)) fault([form], 'cannot be `pass` beside `redirect` or `respond`; leave it out.');
    else if (typeof validate === 'string') {
      fault([form], 'cannot be `pass` beside `validate`, which does not know such paths; set `validate: false` here.');
    }
  }
}

/** A route has a service, a redirect or a fixed response. */
function checkReply(entry: unknown, fault: Note): void {
  const [redirect, respond] = [field(entry, 'redirect'), field(entry, 'respond')];
  if (redirect !== undefined && respond !== undefined)
    fault(['respond'], 'cannot be beside `redirect`; leave one out.');
  if (isMapping(entry) && !hasReply(entry)) {
    for (const [part, what] of [
      ['upstream', 'the name of one of `upstreams`'],
      ['methods', 'a list of methods such as [GET, POST]'],
    ] as const) {
      if (field(entry, part) === undefined)
        fault([part], `is missing: it must be ${what}, unless there is \`redirect\` or \`respond\`.`);
    }
  }
  const path = routeEntry.shape.path.safeParse(field(entry, 'path'));
  const to = routeEntry.shape.redirect.safeParse(redirect);
  if (path.success && to.success && to.data !== null) {
    const message = faultOfTemplate(path.data, to.data.path);
    if (message !== null) fault(['redirect', 'to'], `${message}.`);
  }
  const [status, body] = [field(respond, 'status'), field(respond, 'body')];
  if ((status === 204 || status === 205 || status === 304) && body !== undefined && body !== '') {
    fault(['respond', 'body'], `cannot be sent with status ${status}; leave it out.`);
  }
  const headers = field(respond, 'headers');
  for (const name of isMapping(headers) ? Object.keys(headers) : []) {
    const message = /^content-type$/i.test(name) ? 'is `contentType` here; use that' : faultOfResponseField(name);
    if (message !== null && !/^retry-after$/i.test(name)) fault(['respond', 'headers', name], `${message}.`, 'key');
  }
}

function checkErrorFields(fields: unknown, fault: Note): void {
  for (const name of isMapping(fields) ? Object.keys(fields) : []) {
    const message = /^content-type$/i.test(name) ? 'follows from `form`; leave it out' : faultOfResponseField(name);
    if (message !== null) fault([name], `${message}.`, 'key');
  }
}

/** @param own what a route, or the listener, says of bodies; @param listen what the listener does where a route says nothing */
function checkBodyTime(own: unknown, listen: unknown, warn: Note): void {
  const [size, time] = ['maxBodyBytes', 'requestTimeout'] as const;
  const part = [size, time].find((name) => field(own, name) !== undefined);
  const bytes = listenEntry.shape[size].safeParse(field(own, size) ?? field(listen, size));
  const ms = listenEntry.shape[time].safeParse(field(own, time) ?? field(listen, time));
  if (part === undefined || !bytes.success || !ms.success) return;
  const needed = bodySeconds(bytes.data);
  if (needed * 1_000 <= ms.data) return;
  warn(
    [part],
    `lets a body have ${bytes.data} bytes in ${ms.data / 1_000} s, which takes a client on a line of 10 Mbit/s ${needed} s: it gets 408 first. Raise requestTimeout, or lower maxBodyBytes.`,
  );
}

function checkIdleTimeout(route: unknown, warn: Note): void {
  if (field(route, 'idleTimeout') === undefined || field(route, 'websocket') === true) return;
  if (asArray(field(route, 'upgrades')).length > 0) return;
  warn(['idleTimeout'], 'has no effect without `websocket` or `upgrades`; leave it out.', 'key');
}

/** Retries need a service, a method that may be sent twice, and time for more than one attempt. */
function checkRetries(route: unknown, upstreams: unknown, fault: Note, warn: Note): void {
  const retries = field(route, 'retries');
  if (retries === undefined) return;
  const at = ['retries'];
  const reply = ['redirect', 'respond'].find((name) => field(route, name) !== undefined);
  if (reply !== undefined) warn(at, `has no effect beside \`${reply}\`; leave it out.`, 'key');
  if (field(route, 'websocket') === true || asArray(field(route, 'upgrades')).length > 0) {
    warn(at, 'has no effect on upgrades, which are never retried, only on other requests of this route.', 'key');
  }
  const methods = asArray(field(route, 'methods'));
  if (methods.length > 0 && !methods.some((method) => typeof method === 'string' && IDEMPOTENT.has(method))) {
    const names = [...IDEMPOTENT].join(', ');
    fault(at, `needs one of ${names} among \`methods\`: no other method may be sent twice.`, 'key');
  }
  const attempt = timeout().safeParse(field(retries, 'attemptTimeout'));
  const response = responseTimeoutMs(route, upstreams);
  if (!attempt.success || response === null || attempt.data < response) return;
  const message = `must be shorter than the response timeout of the route (${response} ms), which is for all attempts together.`;
  fault([...at, 'attemptTimeout'], message);
}

/** Only what a service answers to GET can be stored. */
function checkCache(route: unknown, fault: Note, warn: Note): void {
  if (field(route, 'cache') === undefined) return;
  const reply = ['redirect', 'respond'].find((name) => field(route, name) !== undefined);
  if (reply !== undefined) warn(['cache'], `has no effect beside \`${reply}\`; leave it out.`, 'key');
  if (field(route, 'auth') === 'none' && field(field(route, 'cache'), 'shared') !== true) {
    const message =
      'needs `shared: true` on a route with `auth: none`: many people may have one address, and each would get what is for another.';
    fault(['cache'], message);
  }
  const methods = asArray(field(route, 'methods'));
  if (methods.length > 0 && !methods.includes('GET')) {
    fault(['cache'], 'needs GET among `methods`: no other response is stored.', 'key');
  }
}

/** The deadline for the head of a response on a route; null if it cannot be read. */
function responseTimeoutMs(route: unknown, upstreams: unknown): number | null {
  const upstream = field(route, 'upstream');
  const own = field(field(route, 'timeouts'), 'response');
  const ofUpstream = typeof upstream === 'string' ? field(field(upstreams, upstream), 'responseTimeout') : undefined;
  const { success, data } = upstreamEntry.shape.responseTimeout.safeParse(own ?? ofUpstream);
  return success ? data : null;
}

/** @param entry a route or an upstream */
function checkFieldRules(entry: unknown, fault: Note): void {
  for (const [direction, faultOf] of [
    ['request', faultOfRequestField],
    ['response', faultOfResponseField],
  ] as const) {
    const changes = field(field(entry, 'headers'), direction);
    const check = (name: unknown, where: Path) => {
      const message = typeof name === 'string' ? faultOf(name) : null;
      if (message !== null) fault(['headers', direction, ...where], `${message}.`, 'key');
    };
    for (const [i, name] of asArray(field(changes, 'remove')).entries()) check(name, ['remove', i]);
    for (const part of ['set', 'add']) {
      const fields = field(changes, part);
      const names = isMapping(fields) ? Object.keys(fields) : [];
      for (const name of names) check(name, [part, name]);
      for (const i of repeated(names.map((name) => name.toLowerCase()))) {
        fault(['headers', direction, part, names[i]!], 'is there already in other letters; leave it out.', 'key');
      }
    }
  }
}

/**
 * `GET /usage` belongs to the gateway (contract section 4). Nothing is said of `/**`: it means whatever no other route
 * takes, and `tollgate init` writes it.
 */
function checkUsage(index: number, path: string, fault: Note, warn: Note): void {
  const at = ['routes', index, 'path'];
  if (areAlike(USAGE.path, path)) {
    fault(at, 'is reserved: /usage belongs to the gateway itself. Give the route another path.');
  } else if (/^\/\{[^/]*\}$/.test(path)) {
    warn(at, 'also covers /usage, which the gateway answers itself and does not forward.');
  }
}

/**
 * Attack: a service treats `/v1/admin/` or `/v1/%2561dmin` as `/v1/admin`. A client that requests one of these matches the
 * surrounding route and reaches the service under that route's looser rules. To the gateway these are different paths, so all it
 * can do is warn; other spellings the router refuses. Paths are compared as the service gets them: with a rewrite, a route may
 * surround another although their own paths have nothing in common. A method of the surrounding route is compared with
 * the route that has it, and with each route of the path if none has it: that path refuses the method.
 */
function checkSurroundingRoutes(
  raw: readonly unknown[],
  { upstreams, tables, listen }: Pick<Surroundings, 'upstreams' | 'tables' | 'listen'>,
  warn: Note,
): void {
  const sound = raw.flatMap((entry, index) => {
    const route = routeEntry.safeParse(entry);
    return route.success ? [{ index, route: route.data, methods: withHead(route.data.methods) }] : [];
  });
  // Rewrites and redirects are not compared, and may have faults.
  const routes = routesOf({
    routes: sound.map(({ route }) => ({ ...route, rewrite: null, redirect: null })),
    upstreams: gatewaySchema.shape.upstreams.safeParse(upstreams).data ?? {},
    tables: costTables.safeParse(tables).data ?? {},
    listen: { maxBodyBytes: listenEntry.shape.maxBodyBytes.safeParse(field(listen, 'maxBodyBytes')).data ?? 0 },
    jwt: null,
  });
  const served = new Map<string, Set<string>>();
  for (const { route, methods } of sound) {
    const shape = shapeOf(route.path);
    served.set(shape, new Set([...(served.get(shape) ?? []), ...methods]));
  }
  for (const { index, within } of findSurrounding(sound.map(({ route }) => atService(route)))) {
    const [inner, outer] = [sound[index]!, sound[within]!];
    if (outer.route.redirect !== null || outer.route.respond !== null) continue;
    const looser = [...looserRules(routes[within]!, routes[index]!)];
    if (inner.route.deprecated?.sunsetMs === null && outer.route.deprecated === null) looser.push('no deprecation');
    const all = served.get(shapeOf(inner.route.path))!;
    if (!outer.methods.some((method) => inner.methods.includes(method) || !all.has(method))) continue;
    if (looser.length === 0 || !reachOneService(outer.route.upstream, inner.route.upstream, upstreams)) continue;
    warn(
      ['routes', outer.index, 'path'],
      `${outer.route.path} surrounds routes[${inner.index}] (${inner.route.path}) with looser rules (${looser.join(', ')}): ` +
        'a service that ignores a trailing slash in a path, or decodes it twice, serves that route under them, too. ' +
        'Give both the same rules, or let the service refuse such paths.',
    );
  }
}

/** The pattern of the paths that the service gets. */
function atService({ path, rewrite }: RouteEntry): string {
  return rewrite === null || faultOfChange(path, rewrite) !== null ? path : patternAfter(path, rewrite);
}

/** Whether two upstreams are the same, or have a target in common. */
function reachOneService(one: string, other: string, upstreams: unknown): boolean {
  const targetsOf = (name: string) => asArray(field(field(upstreams, name), 'targets')).map(urlOf);
  if (one === '' || other === '') return false;
  return one === other || targetsOf(one).some((target) => targetsOf(other).includes(target));
}

/** The address of a target, written alone or with a weight, in its normal form. */
function urlOf(target: unknown): unknown {
  const url = isMapping(target) ? field(target, 'url') : target;
  return typeof url === 'string' && faultOfTarget(url) === null ? targetOf(url) : url;
}

/** Routes that count an address together limit it alike. */
function checkSharedLimits(routes: readonly unknown[], fault: Note): void {
  const first = new Map<string, number>();
  for (const [index, route] of routes.entries()) {
    const name = field(route, 'sharedLimits');
    if (typeof name !== 'string') continue;
    const at = ['routes', index, 'sharedLimits'];
    if (field(route, 'auth') !== 'none') fault(at, 'goes with `auth: none` only; `groups` of a plan count keys.');
    const other = first.get(name) ?? index;
    first.set(name, other);
    if (!isDeepStrictEqual(field(route, 'limits'), field(routes[other], 'limits'))) {
      fault(at, `is the name of routes[${other}] too, which has other \`limits\`; write the same in both.`);
    }
  }
}

function checkMethods(methods: readonly unknown[], fault: Note): void {
  for (const i of repeated(methods)) fault(['methods', i], `names ${methods[i]} a second time; leave it out.`);
}

/** The indices of items that occur earlier in the list. */
function repeated(list: readonly unknown[]): readonly number[] {
  const seen = new Set<unknown>();
  return [...list.keys()].filter((i) => seen.size === seen.add(list[i]).size);
}

/** A client asks for an upgrade with a GET request, as RFC 6455 section 4.1 says of WebSocket. */
function checkUpgrade(route: unknown, upstreams: unknown, fault: Note): void {
  const protocols = asArray(field(route, 'upgrades'));
  const http2 = http2Of(field(upstreams, String(field(route, 'upstream'))));
  const message = `needs an upstream with HTTP/1.1, and that of this route has \`protocol: ${http2}\`.`;
  if (http2 !== null && field(route, 'websocket') === true) fault(['websocket'], message);
  if (http2 !== null && protocols.length > 0) fault(['upgrades'], message);
  for (const [i, name] of protocols.entries()) {
    if (typeof name !== 'string' || !/^websocket(?:\/|$)/i.test(name)) continue;
    fault(['upgrades', i], 'is allowed by `websocket: true`; leave it out.');
  }
  const methods = asArray(field(route, 'methods'));
  if (methods.length === 0 || methods.includes('GET')) return;
  if (field(route, 'websocket') === true) {
    fault(['websocket'], 'needs GET among `methods`: a WebSocket is asked for with it.');
  }
  if (protocols.length > 0) fault(['upgrades'], 'needs GET among `methods`: an upgrade is asked for with it.');
}

function checkAuth(entry: unknown, fault: Note): void {
  const isPublic = field(entry, 'auth') === 'none';
  const hasLimits = field(entry, 'limits') !== undefined;
  if (isPublic && !hasLimits) {
    fault(['auth'], 'is `none`, which needs `limits: { minute: 60 }`: what one client address may do.');
  } else if (hasLimits && !isPublic) {
    fault(
      ['limits'],
      'go with `auth: none` only. Where a key is asked for, plans.yaml has the limits, also those of a route: see `groups` of a plan.',
    );
  }
  if (isPublic && field(entry, 'scopes') !== undefined) {
    fault(['scopes'], 'need a key or a token, and this route has `auth: none`; leave one of the two out.', 'key');
  }
}

/** RFC 9745 section 4: the sunset must not be earlier than the deprecation. */
function checkDates(deprecated: unknown, fault: Note): void {
  const [since, sunset] = [
    instant().safeParse(field(deprecated, 'since')),
    instant().safeParse(field(deprecated, 'sunset')),
  ];
  if (!since.success || !sunset.success || sunset.data >= since.data) return;
  fault(['deprecated', 'sunset'], 'is before `since`; it must be the same time or a later one.');
}

function checkUpstreams(routes: readonly unknown[], written: unknown, fault: Note, warn: Note): void {
  const raw = written ?? {};
  if (!isMapping(raw)) return;
  const names = Object.keys(raw);
  const allowed = someOf(names);
  const used = new Set<unknown>();
  for (const [index, route] of routes.entries()) {
    const upstream = field(route, 'upstream');
    used.add(upstream);
    if (typeof upstream === 'string' && !Object.hasOwn(raw, upstream)) {
      fault(['routes', index, 'upstream'], `is not one of \`upstreams\`; it must be ${allowed}.`);
    }
  }
  for (const name of names.filter((name) => !used.has(name))) {
    warn(['upstreams', name], 'is used by no route.', 'key');
  }
  for (const name of names) checkUpstream(raw[name], noteAt(fault, 'upstreams', name), noteAt(warn, 'upstreams', name));
}

/** A thousand names in each of ten thousand faults would be half a gigabyte, so only the first few are listed. */
function someOf(names: readonly string[]): string {
  const [listed, more] = [names.slice(0, MAX_NAMES).join(' or '), names.length - MAX_NAMES];
  return more > 0 ? `${listed} or one of ${more} others` : listed || 'defined there';
}

const MAX_NAMES = 10;

/** Why a target cannot be reached with a `protocol`, as the end of a sentence; null if it can. */
export function faultOfProtocol(url: string, protocol: 'http1' | 'h2' | 'h2c'): string | null {
  const isEncrypted = url.startsWith('https:');
  if (protocol === 'h2' && !isEncrypted) {
    return 'must begin with https:// with `protocol: h2`; without TLS, HTTP/2 is `protocol: h2c`.';
  }
  if (protocol === 'h2c' && isEncrypted) return 'begins with https://, where HTTP/2 is `protocol: h2`.';
  return null;
}

/** The `protocol` of an upstream, if it is one of HTTP/2; else null. */
function http2Of(upstream: unknown): 'h2' | 'h2c' | null {
  const protocol = field(upstream, 'protocol');
  return protocol === 'h2' || protocol === 'h2c' ? protocol : null;
}

function checkUpstream(raw: unknown, fault: Note, warn: Note): void {
  checkFieldRules(raw, fault);
  const targets = asArray(field(raw, 'targets')).map(urlOf);
  for (const [i, url] of targets.entries()) {
    const message = typeof url === 'string' ? faultOfProtocol(url, http2Of(raw) ?? 'http1') : null;
    if (message !== null) fault(['targets', i], message);
  }
  for (const i of repeated(targets)) fault(['targets', i], 'is there already; leave it out.');
  const tls = field(raw, 'tls');
  if (!isMapping(tls)) return;
  for (const [one, other] of [
    ['cert', 'key'],
    ['key', 'cert'],
  ] as const) {
    if (field(tls, one) !== undefined && field(tls, other) === undefined) {
      fault(['tls', one], `needs \`${other}\` beside it.`);
    }
  }
  if (field(tls, 'verify') === false) {
    warn(['tls', 'verify'], 'accepts any certificate: anyone on the network path can read and change everything.');
  }
  if (!targets.some((target) => typeof target === 'string' && target.startsWith('https:'))) {
    warn(['tls'], 'has no effect: no target begins with https://.', 'key');
  }
}

/**
 * Attack: if `X.Consumer.Id` were allowed, a client could choose the consumer that a service sees if the service reads
 * that field as X-Consumer-Id. So no name can be allowed that folds into one of the gateway's own fields.
 */
function checkAllowedNames(names: readonly unknown[], fault: Note): void {
  for (const [i, name] of names.entries()) {
    if (typeof name !== 'string') continue;
    const reserved = reservedByFolding(name);
    if (reserved !== null) {
      fault(
        [i],
        `passes for ${reserved} in services that fold punctuation, and only the gateway may set that; leave it out.`,
      );
    } else if (!hasPunctuation(name)) {
      fault([i], 'needs no exception: it has only letters, digits and `-`; leave it out.');
    }
  }
}

/** Pages of every origin must not read answers to requests that carry the user's cookies (Fetch, CORS protocol). */
function checkCors(cors: unknown, fault: Note): void {
  const origins = asArray(field(cors, 'origins'));
  if (!origins.includes('*')) return;
  if (origins.length > 1) fault(['origins'], 'has `*`, which allows all; leave the others out, or `*`.');
  if (field(cors, 'credentials') === true) fault(['credentials'], 'cannot be true for all origins; name them.');
}

/** Checks settings of the public listener that need one another, or that are probably wrong. */
function checkListen(listen: unknown, fault: Note, warn: Note): void {
  const tls = field(listen, 'tls');
  checkTls(tls, noteAt(fault, 'tls'));
  checkCertificateSource(tls, noteAt(fault, 'tls'));
  const http2 = field(listen, 'http2');
  if (http2 !== undefined && http2 !== false && tls === undefined) {
    fault(['http2'], 'needs `tls`: HTTP/2 is agreed on in the TLS handshake.');
  }
  const proxies = asArray(field(listen, 'trustedProxies'));
  if (field(listen, 'proxyProtocol') === true && proxies.length === 0) {
    fault(['proxyProtocol'], 'needs `trustedProxies`: only who is named there may say who the client is.');
  }
  const headers = listenEntry.shape.headersTimeout.safeParse(field(listen, 'headersTimeout'));
  const request = listenEntry.shape.requestTimeout.safeParse(field(listen, 'requestTimeout'));
  if (headers.success && request.success && headers.data > request.data) {
    const part = field(listen, 'headersTimeout') === undefined ? 'requestTimeout' : 'headersTimeout';
    warn([part], 'leaves headersTimeout longer than requestTimeout, so that it never comes into effect.');
  }
  checkBodyTime(listen, listen, warn);
  for (const [i, network] of proxies.entries()) {
    if (typeof network !== 'string' || !network.endsWith('/0')) continue;
    warn(['trustedProxies', i], 'believes the X-Forwarded-For of everybody, who can then choose their address.');
  }
}

function checkTls(tls: unknown, fault: Note): void {
  if (isMapping(tls) && field(tls, 'clientCertificate') !== undefined && field(tls, 'clientCa') === undefined) {
    fault(['clientCertificate'], 'needs `clientCa`, or no certificate of a client can be checked.');
  }
}

/** The certificate of the public listener comes from two files or by ACME, not both. */
function checkCertificateSource(tls: unknown, fault: Note): void {
  if (!isMapping(tls)) return;
  const acme = field(tls, 'acme');
  for (const file of ['cert', 'key'] as const) {
    const isGiven = field(tls, file) !== undefined;
    if (acme !== undefined && isGiven)
      fault([file], 'cannot stand beside `acme`, which orders the certificate itself.');
    if (acme === undefined && !isGiven)
      fault([file], 'is missing: it must be the path of a file, unless `acme` orders the certificate.');
  }
  if (!isMapping(acme)) return;
  if (field(acme, 'httpPort') !== undefined && field(acme, 'challenge') !== 'http-01') {
    fault(['acme', 'httpPort'], 'needs `challenge: http-01`; the other challenge has no port of its own.');
  }
}
