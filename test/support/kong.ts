import { parse } from 'yaml';

/*
 * A small model of Kong, by its documentation alone: it reads the text of a declarative file, and shares no code with the import
 * (https://developer.konghq.com/gateway/entities/route/, /plugin/#plugin-precedence, /plugins/rate-limiting/).
 */

interface Plugin {
  readonly name: string;
  readonly config?: Readonly<Record<string, unknown>>;
  readonly route?: string;
  readonly service?: string;
  readonly consumer?: string;
}

interface Route {
  readonly name: string;
  readonly paths: readonly string[];
  readonly methods?: readonly string[];
  readonly hosts?: readonly string[];
  readonly headers?: object;
  readonly plugins?: readonly Plugin[];
}

interface Consumer {
  readonly username: string;
  readonly acls?: readonly { readonly group: string }[];
  readonly keyauth_credentials: readonly { readonly key: string }[];
  readonly plugins?: readonly Plugin[];
}

interface File {
  readonly services: readonly {
    readonly name: string;
    readonly routes: readonly Route[];
    readonly plugins?: readonly Plugin[];
  }[];
  readonly consumers: readonly Consumer[];
  readonly plugins: readonly Plugin[];
}

export interface KongRequest {
  readonly method: string;
  readonly host: string;
  readonly path: string;
  readonly key: string | null;
  readonly bodyBytes?: number;
}

/** The order of precedence: which of several plugins of one name runs. */
const PRECEDENCE = [
  'route service consumer',
  'route consumer',
  'service consumer',
  'route service',
  'consumer',
  'route',
  'service',
  '',
];

/** Kong, in the minute of its start: no window ends. Requests come from one address, 127.0.0.1. */
export class KongModel {
  readonly #file: File;
  readonly #plugins: readonly Plugin[];
  readonly #used = new Map<string, number>();

  constructor(text: string) {
    this.#file = parse(text) as File;
    const { services, consumers, plugins } = this.#file;
    const inside = (list: readonly Plugin[] = [], where: object) => list.map((one) => ({ ...one, ...where }));
    this.#plugins = [
      ...plugins,
      ...services.flatMap(({ name, plugins: own, routes }) => [
        ...inside(own, { service: name }),
        ...routes.flatMap((route) => inside(route.plugins, { route: route.name })),
      ]),
      ...consumers.flatMap(({ username, plugins: own }) => inside(own, { consumer: username })),
    ];
  }

  /** The status that a client gets; 200 stands for the answer of the service. */
  statusOf({ method, host, path, key, bodyBytes = 0 }: KongRequest): number {
    const found = this.#routed(method, host, path);
    if (found === null) return 404;
    const [service, route] = found;
    const at = { service, route: route.name };
    const isKeyed = this.#plugin('key-auth', at) !== null;
    const consumer = isKeyed ? this.#ofKey(key) : undefined;
    if (isKeyed && consumer === undefined) return 401;
    const of = (name: string) => this.#plugin(name, { ...at, consumer: consumer?.username });
    const from = of('ip-restriction')?.config?.allow as string[] | undefined;
    if (from !== undefined && !from.some((network) => network.startsWith('127.'))) return 403;
    const size = of('request-size-limiting')?.config as
      | { allowed_payload_size: number; size_unit?: string }
      | undefined;
    if (
      size !== undefined &&
      bodyBytes > size.allowed_payload_size * (size.size_unit === 'kilobytes' ? 1024 : 1024 ** 2)
    )
      return 413;
    const acl = of('acl')?.config as { allow?: string[]; deny?: string[] } | undefined;
    const groups = (consumer?.acls ?? []).map(({ group }) => group);
    if (acl?.allow !== undefined && !groups.some((group) => acl.allow!.includes(group))) return 403;
    if (acl?.deny?.some((group) => groups.includes(group))) return 403;
    const limit = of('rate-limiting');
    return limit === null || this.#counts(limit, consumer?.username ?? '127.0.0.1', key) ? 200 : 429;
  }

  #ofKey(key: string | null): Consumer | undefined {
    return this.#file.consumers.find((one) => one.keyauth_credentials.some((credential) => credential.key === key));
  }

  #routed(method: string, host: string, path: string): readonly [string, Route] | null {
    const all = this.#file.services.flatMap(({ name, routes }) => routes.map((route) => [name, route] as const));
    const matching = all.flatMap(([service, route]) => {
      if (route.headers !== undefined || !(route.hosts ?? [host]).includes(host)) return [];
      if (route.methods !== undefined && !route.methods.includes(method)) return [];
      const longest = route.paths
        .filter((one) => (one.startsWith('~') ? new RegExp(`^${one.slice(1)}`).test(path) : path.startsWith(one)))
        .sort((a, b) => b.length - a.length)[0];
      return longest === undefined ? [] : [{ service, route, longest }];
    });
    const [best] = matching.sort((a, b) => b.longest.length - a.longest.length);
    return best === undefined ? null : [best.service, best.route];
  }

  #plugin(name: string, request: Readonly<Record<string, string | undefined>>): Plugin | null {
    const scopes = ['route', 'service', 'consumer'] as const;
    const fitting = this.#plugins.filter(
      (one) => one.name === name && scopes.every((scope) => one[scope] === undefined || one[scope] === request[scope]),
    );
    const rank = (one: Plugin) => PRECEDENCE.indexOf(scopes.filter((scope) => one[scope] !== undefined).join(' '));
    return fitting.sort((a, b) => rank(a) - rank(b))[0] ?? null;
  }

  /** Counts a request under each window, unless one of them has no room. */
  #counts({ route = '', service = '', config = {} }: Plugin, consumer: string, key: string | null): boolean {
    const by = config.limit_by ?? 'consumer';
    const identifier = by === 'credential' ? key : by === 'ip' ? '127.0.0.1' : consumer;
    const windows = ['second', 'minute', 'hour', 'day', 'month', 'year'].filter(
      (window) => config[window] !== undefined,
    );
    const counters = windows.map(
      (window) => [[route, service, identifier, window].join(':'), config[window] as number] as const,
    );
    const isFull = counters.some(([name, limit]) => (this.#used.get(name) ?? 0) >= limit);
    if (!isFull) for (const [name] of counters) this.#used.set(name, (this.#used.get(name) ?? 0) + 1);
    return !isFull;
  }
}
