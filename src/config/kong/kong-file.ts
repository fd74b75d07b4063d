import { z } from 'zod';
import type { Path } from '../fault.ts';
import { type FileKind, field, isMapping, type ParseResult, parseYaml } from '../yaml.ts';

// A description of Kong, read as its services, routes, consumers and plugins: the form of decK and of Kong without a database
// (`_format_version`), or the lists of the Admin API. What is not said has the default of Kong (https://developer.konghq.com/gateway/entities/).

/** A plugin that is enabled, and what it is for. Without all three it is for every request. */
export interface KongPlugin {
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly route: KongRoute | null;
  readonly service: KongService | null;
  readonly consumer: KongConsumer | null;
  /** It is for a group of consumers, of which no edition without a licence knows. */
  readonly isForGroup: boolean;
  readonly at: Path;
}

export interface KongService {
  readonly name: string;
  readonly protocol: string;
  readonly host: string;
  readonly port: number;
  /** Without a slash at its end; empty for `/`. */
  readonly path: string;
  readonly connectTimeoutMs: number;
  readonly readTimeoutMs: number;
  readonly at: Path;
}

export interface KongRoute {
  readonly name: string;
  readonly service: KongService | null;
  readonly protocols: readonly string[];
  /** Empty: all of them, as also for hosts and paths. */
  readonly methods: readonly string[];
  readonly hosts: readonly string[];
  readonly paths: readonly string[];
  readonly stripsPath: boolean;
  readonly keepsHost: boolean;
  /** Whether it also asks for header fields or names of TLS. */
  readonly isNarrowed: boolean;
  readonly at: Path;
}

export interface KongConsumer {
  readonly name: string;
  readonly customId: string | null;
  readonly keys: readonly { readonly key: string; readonly at: Path }[];
  readonly groups: readonly string[];
  /** How many secrets for JSON Web Tokens it has. */
  readonly tokens: number;
  readonly at: Path;
}

interface KongUpstream {
  readonly targets: readonly { readonly target: string; readonly weight: number }[];
  readonly hashOn: string;
  readonly cookie: string | null;
  /** Null: its targets are not checked. */
  readonly healthPath: string | null;
}

export interface Kong {
  readonly services: readonly KongService[];
  readonly routes: readonly KongRoute[];
  readonly consumers: readonly KongConsumer[];
  readonly plugins: readonly KongPlugin[];
  /** The same by their names, and then by the route or else the service or else the consumer that they are for; null for all requests. */
  readonly pluginsOf: ReadonlyMap<string, ReadonlyMap<object | null, readonly KongPlugin[]>>;
  readonly upstreams: ReadonlyMap<string, KongUpstream>;
  /** Lists that were not read, such as `certificates`. */
  readonly others: readonly string[];
}

const text = z.string('must be text').nullish();
const number = z.number('must be a number').nullish();
const flag = z.boolean('must be true or false').nullish();
const texts = z.array(z.string('must be text'), 'must be a list of texts').nullish();

/** Another entity, by its name or its id. */
const reference = z
  .union(
    [z.string(), z.looseObject({ id: text, name: text, username: text })],
    'must be the name of an entity, or a mapping with its `id` or `name`',
  )
  .nullish();
type Reference = z.output<typeof reference>;

// Messages of the form `must be …` show the value, which may be a secret: a key without quotes, or one where a list belongs.
const listRule = 'is not a list, and not a page of the Admin API with the list in `data`';
const keyRule = 'is not text: put the key in quotes';
const credentialRule = 'is not a mapping with a `key`';
const NEXT =
  'is one page of several: read all of them into one list (`size=1000`, then `offset`), or nothing after it is moved';

/** A list, or the page of the Admin API with it. */
function listOf<S extends z.ZodType>(entity: S) {
  const page = z.looseObject({
    data: z.array(entity, listRule),
    next: z.null(NEXT).optional(),
  });
  return z
    .union([z.array(entity, listRule), page], listRule)
    .nullish()
    .transform((list): z.output<S>[] =>
      Array.isArray(list) ? list : ((list as { data: z.output<S>[] } | null)?.data ?? []),
    );
}

const plugin = z.looseObject({
  name: z.string('must be the name of a plugin'),
  enabled: flag,
  config: z.looseObject({}, 'must be a mapping').nullish(),
  route: reference,
  service: reference,
  consumer: reference,
  consumer_group: reference,
});
const entity = { id: text, name: text, plugins: listOf(plugin) };
const route = z.looseObject({
  ...entity,
  protocols: texts,
  methods: texts,
  hosts: texts,
  paths: texts,
  snis: texts,
  headers: z.looseObject({}, 'must be a mapping').nullish(),
  strip_path: flag,
  preserve_host: flag,
  service: reference,
});
const service = z.looseObject({
  ...entity,
  url: text,
  protocol: text,
  host: text,
  port: number,
  path: text,
  connect_timeout: number,
  read_timeout: number,
  enabled: flag,
  routes: listOf(route),
});
const credential = z.looseObject({ key: z.string(keyRule).nullish(), consumer: reference }, credentialRule);
const group = z.looseObject({ group: z.string('must be the name of a group'), consumer: reference });
const consumer = z.looseObject({
  id: text,
  username: text,
  custom_id: text,
  plugins: listOf(plugin),
  keyauth_credentials: listOf(credential),
  acls: listOf(group),
  jwt_secrets: listOf(credential),
});
const target = z.looseObject({ target: z.string('must be an address'), weight: number, upstream: reference });
const upstream = z.looseObject({
  id: text,
  name: z.string('must be a name'),
  hash_on: text,
  hash_on_cookie: text,
  healthchecks: z.looseObject({}).nullish(),
  targets: listOf(target),
});

const kongSchema = z.looseObject({
  _format_version: z.union([z.string(), z.number()]).optional(),
  services: listOf(service),
  routes: listOf(route),
  consumers: listOf(consumer),
  plugins: listOf(plugin),
  upstreams: listOf(upstream),
  targets: listOf(target),
  keyauth_credentials: listOf(credential),
  'key-auths': listOf(credential),
  acls: listOf(group),
  jwt_secrets: listOf(credential),
  jwts: listOf(credential),
});
type KongFile = z.output<typeof kongSchema>;

const FILE: FileKind<typeof kongSchema> = { schema: kongSchema, maxParts: 400_000, check: () => {} };
/** The size limit of the file, in bytes. */
export const MAX_KONG_BYTES = 4 * 1024 * 1024;

/** Parses a description of Kong. @param file its name in faults */
export function parseKong(text: string, file: string): ParseResult<Kong> {
  const parsed = parseYaml(text, file, FILE);
  if ('faults' in parsed) return parsed;
  const faults: { readonly path: Path; readonly message: string }[] = [];
  const value = new Entities(parsed.value, (path, message) => faults.push({ path, message })).read();
  if (faults.length === 0) return { ...parsed, value };
  return { faults: faults.map(({ path, message }) => ({ ...parsed.locate(path), message })), warnings: [] };
}

type Fault = (path: Path, message: string) => void;

/** A list, by the consumers that its entries name. */
interface Outside<T> {
  readonly member: string;
  readonly by: ReadonlyMap<string | null, readonly (readonly [number, T])[]>;
}

function byConsumer<T extends { readonly consumer?: Reference }>(member: string, list: readonly T[]): Outside<T> {
  return { member, by: Map.groupBy(list.entries(), ([, { consumer }]) => nameOf(consumer)) };
}

/** Joins the entities of a file, which stand in one another or name one another. */
class Entities {
  readonly #file: KongFile;
  readonly #fault: Fault;
  /** What consumers have in lists of their own. */
  readonly #outside: {
    readonly [List in 'inFile' | 'listed' | 'secrets' | 'jwts']: Outside<z.output<typeof credential>>;
  } & { readonly acls: Outside<z.output<typeof group>> };
  readonly #services = new Map<string, KongService>();
  readonly #routes = new Map<string, KongRoute>();
  readonly #consumers = new Map<string, KongConsumer>();
  readonly #plugins: KongPlugin[] = [];

  constructor(file: KongFile, fault: Fault) {
    this.#file = file;
    this.#fault = fault;
    this.#outside = {
      inFile: byConsumer('keyauth_credentials', file.keyauth_credentials),
      listed: byConsumer('key-auths', file['key-auths']),
      acls: byConsumer('acls', file.acls),
      secrets: byConsumer('jwt_secrets', file.jwt_secrets),
      jwts: byConsumer('jwts', file.jwts),
    };
  }

  read(): Kong {
    const { services, routes, consumers, plugins } = this.#file;
    const all = {
      services: services.map((one, i) => this.#service(one, ['services', i])),
      consumers: consumers.map((one, i) => this.#consumer(one, ['consumers', i])),
    };
    const inServices = services.map((one, i) =>
      one.routes.map((inner, j) => this.#route(inner, ['services', i, 'routes', j], all.services[i]!)),
    );
    const alone = routes.map((one, i) => {
      const found = this.#named(one.service, this.#services, ['routes', i, 'service'], 'service');
      return this.#route(one, ['routes', i], found);
    });
    for (const [i, one] of services.entries()) {
      this.#take(one.plugins, ['services', i, 'plugins'], { service: all.services[i]! });
      for (const [j, inner] of one.routes.entries()) {
        this.#take(inner.plugins, ['services', i, 'routes', j, 'plugins'], { route: inServices[i]![j]! });
      }
    }
    for (const [i, one] of routes.entries()) this.#take(one.plugins, ['routes', i, 'plugins'], { route: alone[i]! });
    for (const [i, one] of consumers.entries())
      this.#take(one.plugins, ['consumers', i, 'plugins'], { consumer: all.consumers[i]! });
    this.#take(plugins, ['plugins'], {});
    const enabled = new Set(all.services.filter((_, i) => services[i]!.enabled !== false));
    return {
      ...all,
      routes: [...inServices.flat(), ...alone].filter((one) => one.service === null || enabled.has(one.service)),
      plugins: this.#plugins,
      pluginsOf: new Map(
        Map.groupBy(this.#plugins, ({ name }) => name)
          .entries()
          .map(([name, all]) => [name, Map.groupBy(all, (one) => one.route ?? one.service ?? one.consumer)]),
      ),
      upstreams: this.#upstreams(),
      others: othersIn(this.#file),
    };
  }

  #service(one: KongFile['services'][number], at: Path): KongService {
    const url = one.url == null ? null : URL.parse(one.url);
    if (one.url != null && url === null) this.#fault([...at, 'url'], 'must be a URL.');
    const protocol = url?.protocol.slice(0, -1) ?? one.protocol ?? 'http';
    const port = url?.port || one.port || (protocol === 'https' ? 443 : 80);
    const made: KongService = {
      name: one.name ?? one.id ?? `service-${at[1]}`,
      protocol,
      host: url?.hostname ?? one.host ?? '',
      port: Number(port),
      path: withoutSlash(url?.pathname ?? one.path ?? ''),
      connectTimeoutMs: one.connect_timeout ?? 60_000,
      readTimeoutMs: one.read_timeout ?? 60_000,
      at,
    };
    if (made.host === '') this.#fault(at, 'has no `url` and no `host`.');
    register(this.#services, one, made);
    return made;
  }

  #route(one: KongFile['routes'][number], at: Path, service: KongService | null): KongRoute {
    const made: KongRoute = {
      name: one.name ?? one.id ?? `route-${at.filter((step) => typeof step === 'number').join('-')}`,
      service,
      protocols: one.protocols ?? ['http', 'https'],
      methods: one.methods ?? [],
      hosts: one.hosts ?? [],
      paths: one.paths ?? [],
      stripsPath: one.strip_path ?? true,
      keepsHost: one.preserve_host ?? false,
      isNarrowed: (one.snis ?? []).length > 0 || Object.keys(one.headers ?? {}).length > 0,
      at,
    };
    register(this.#routes, one, made);
    return made;
  }

  #consumer(one: KongFile['consumers'][number], at: Path): KongConsumer {
    const names = [...new Set([one.id, one.username, one.custom_id])].filter((name) => name != null);
    const outside = <T>({ by, member }: Outside<T>) =>
      names.flatMap((name) => by.get(name) ?? []).map(([i, given]) => ({ given, at: [member, i] as Path }));
    const { inFile, listed, acls, secrets, jwts } = this.#outside;
    const credentials = [
      ...one.keyauth_credentials.map((given, i) => ({ given, at: [...at, 'keyauth_credentials', i] as Path })),
      ...outside(inFile),
      ...outside(listed),
    ];
    const made: KongConsumer = {
      name: one.username ?? one.custom_id ?? one.id ?? `consumer-${at[1]}`,
      customId: one.custom_id ?? null,
      keys: credentials.flatMap(({ given, at: place }) => {
        if (typeof given.key === 'string') return [{ key: given.key, at: place }];
        this.#fault(place, 'has no `key`: Kong made it when it read this file, so take a dump of the running Kong.');
        return [];
      }),
      groups: [...one.acls, ...outside(acls).map(({ given }) => given)].map((acl) => acl.group),
      tokens: one.jwt_secrets.length + outside(secrets).length + outside(jwts).length,
      at,
    };
    register(this.#consumers, { ...one, name: one.username }, made);
    return made;
  }

  /** @param around the entity in which the plugins stand */
  #take(
    plugins: KongFile['plugins'],
    at: Path,
    around: Partial<Pick<KongPlugin, 'service' | 'route' | 'consumer'>>,
  ): void {
    for (const [i, one] of plugins.entries()) {
      if (one.enabled === false) continue;
      const place = [...at, i];
      this.#plugins.push({
        name: one.name,
        config: one.config ?? {},
        route: around.route ?? this.#named(one.route, this.#routes, [...place, 'route'], 'route'),
        service: around.service ?? this.#named(one.service, this.#services, [...place, 'service'], 'service'),
        consumer: around.consumer ?? this.#named(one.consumer, this.#consumers, [...place, 'consumer'], 'consumer'),
        isForGroup: one.consumer_group != null,
        at: place,
      });
    }
  }

  #named<T>(reference: Reference, among: ReadonlyMap<string, T>, at: Path, what: string): T | null {
    const name = nameOf(reference);
    if (name === null) return null;
    const found = among.get(name);
    if (found === undefined) this.#fault(at, `is no ${what} of this file.`);
    return found ?? null;
  }

  #upstreams(): ReadonlyMap<string, KongUpstream> {
    const { upstreams } = this.#file;
    const targets = Map.groupBy(this.#file.targets, ({ upstream }) => nameOf(upstream));
    return new Map(
      upstreams.map((one) => {
        const outside = [...new Set([one.id, one.name])].flatMap((name) =>
          name == null ? [] : (targets.get(name) ?? []),
        );
        const active = field(one.healthchecks, 'active');
        const [path, interval] = [field(active, 'http_path'), field(field(active, 'healthy'), 'interval')];
        return [
          one.name,
          {
            targets: [...one.targets, ...outside].map((given) => ({
              target: given.target,
              weight: given.weight ?? 100,
            })),
            hashOn: one.hash_on ?? 'none',
            cookie: one.hash_on_cookie ?? null,
            healthPath: typeof interval !== 'number' || interval === 0 ? null : typeof path === 'string' ? path : '/',
          },
        ];
      }),
    );
  }
}

/** A path without slashes at its end. */
export function withoutSlash(path: string): string {
  let end = path.length;
  while (path[end - 1] === '/') end--;
  return path.slice(0, end);
}

function nameOf(reference: Reference): string | null {
  if (typeof reference === 'string') return reference;
  return reference?.name ?? reference?.username ?? reference?.id ?? null;
}

/** An entity is named by its name and by its id. */
function register<T>(
  among: Map<string, T>,
  { id, name }: { readonly id?: string | null | undefined; readonly name?: string | null | undefined },
  made: T,
): void {
  for (const one of [id, name]) if (one != null) among.set(one, made);
}

/** The lists of a file that are of no use here, such as `certificates`, if they have something. */
function othersIn(file: KongFile): readonly string[] {
  const known = Object.keys(kongSchema.shape);
  return Object.entries(file).flatMap(([name, value]) => {
    if (known.includes(name) || name.startsWith('_')) return [];
    const list = isMapping(value) ? field(value, 'data') : value;
    return Array.isArray(list) && list.length > 0 ? [name] : [];
  });
}
