import { hash } from 'node:crypto';
import { ALPHABETS, type AlphabetName, FOREIGN_LENGTHS } from '../../identify/api-key.ts';
import { addresses } from '../../model/attributes.ts';
import { WINDOWS } from '../../model/values.ts';
import type { Path } from '../fault.ts';
import { quoted } from '../imported-routes.ts';
import { bodySeconds, faultOfTarget, healthPath, name as nameRule, token, writtenDuration } from '../setting-values.ts';
import { settingsHead } from '../settings-head.ts';
import type { Kong, KongConsumer, KongPlugin, KongService } from './kong-file.ts';
import { type LimitsHere, othersCounting, type PlanHere, planOf } from './kong-plans.ts';
import { type RouteHere, routesHere } from './kong-routes.ts';
import { guardsOf, limitOf, listIn, pluginFor, sizeOf } from './kong-rules.ts';

/** What is not moved, or means something else here. */
export interface Left {
  /** Where it stands in the file. */
  readonly at: Path;
  /** The end of a sentence that begins with what it is. */
  readonly why: string;
}

/** The files that do what a description of Kong says, as far as they can. */
export interface ImportedKong {
  readonly gateway: string;
  readonly plans: string;
  readonly keys: string;
  readonly left: readonly Left[];
  readonly routes: readonly RouteHere[];
  /** The names of the plans of consumers, and under null the plan of a consumer without plugins of its own. */
  readonly planOf: ReadonlyMap<KongConsumer | null, string>;
}

/** In a minute, for an address on a route without a key and without a limit in Kong: Tollgate needs one. */
const WIDE = 6_000;
/** The size of a body on routes without a limit of their own, in MiB. Kong has none. */
const BODY_MIB = 128;
const MIB = 1024 * 1024;
const MAX_FORMATS = 20;
/** 24 days, the longest timeout in gateway.yaml. */
const MAX_TIMEOUT_MS = 24 * 86_400_000;
const DEFAULT_PLAN = 'default';

/** Plugins that are moved, and those of which nothing needs to be moved. */
const MOVED = ['key-auth', 'rate-limiting', 'acl', 'request-size-limiting', 'ip-restriction', 'cors'];
const NOT_NEEDED: ReadonlyMap<string, string> = new Map(
  Object.entries({
    prometheus: 'is `/metrics` of the admin port, always on, with names of its own',
    'correlation-id': 'is `X-Request-Id`, in each response and to the service',
    'file-log': 'is the log on standard output, a line of JSON for each request',
    'http-log': 'is the log on standard output; let the collector of your logs read it',
    jwt: 'is `jwt` of gateway.yaml, for one issuer with public keys: its `audience` is not known here (docs/guides/tokens.md)',
    'request-termination': 'is `respond` of a route',
    'proxy-cache': 'is `cache` of a route, in memory (docs/guides/cache.md)',
    'request-transformer': 'is `headers` and `rewrite` of a route; bodies are not changed',
    'response-transformer': 'is `headers.response` of a route; bodies are not changed',
  }),
);

/**
 * Makes gateway.yaml, plans.yaml and keys.yaml of a description of Kong.
 *
 * Attack: a name in the file ends its line and continues as a setting. So each value is written as JSON, also in comments, or is a name
 * that was checked.
 */
export function importedKong(kong: Kong): ImportedKong {
  return new Import(kong).made();
}

class Import {
  readonly #kong: Kong;
  readonly #left: Left[] = [];
  readonly #routes: readonly RouteHere[];
  readonly #names = new Map<object, string>();
  readonly #taken = new Set<string>();
  /** How many names of entities were made of one text. */
  readonly #alike = new Map<string, number>();
  #scopes: readonly Scope[] | null = null;
  readonly #leftBefore = new Set<string>();
  /** Services of which a route does not keep the Host of clients. */
  readonly #withOwnHost: ReadonlySet<KongService | null>;

  constructor(kong: Kong) {
    this.#kong = kong;
    this.#routes = routesHere(kong.routes, (route, why) => this.#leave(route.at, `route ${route.name}: ${why}`));
    this.#withOwnHost = new Set(
      this.#routes.flatMap(({ kong: { keepsHost, service } }) => (keepsHost ? [] : [service])),
    );
  }

  made(): ImportedKong {
    for (const one of this.#kong.plugins) this.#checkPlugin(one);
    for (const one of this.#kong.others) this.#leave([one], 'is not moved');
    const plans = this.#plans();
    const [gateway, keys] = [this.#gateway(plans), this.#keys(plans)];
    const planOf = new Map([...plans].flatMap(([name, { consumers }]) => consumers.map((one) => [one, name] as const)));
    const text = this.#plansText(plans);
    return { gateway, plans: text, keys, left: this.#left, routes: this.#routes, planOf };
  }

  #leave(at: Path, why: string): void {
    const before = `${at.join()} ${why}`;
    if (this.#leftBefore.has(before)) return;
    this.#leftBefore.add(before);
    this.#left.push({ at, why });
  }

  #checkPlugin(plugin: KongPlugin): void {
    const { name, at, isForGroup, consumer } = plugin;
    const leave = (why: string) => this.#leave(at, `${name}: ${why}`);
    if (isForGroup) leave('is for a group of consumers; give its consumers a plan in keys.yaml');
    else if (!MOVED.includes(name)) leave(NOT_NEEDED.get(name) ?? 'has nothing in its place');
    if (name === 'key-auth' && plugin.config.anonymous != null)
      leave('lets requests without a key pass as another consumer; here a route needs a key or is for everyone');
    if (name === 'key-auth' && plugin.config.key_in_body === true)
      leave('takes keys in bodies, which are not read here');
    if (consumer !== null && (name === 'request-size-limiting' || name === 'cors' || name === 'acl'))
      leave('is for one consumer, and here it is a matter of the route');
    if (name === 'ip-restriction' && listIn(plugin, 'deny', 'blacklist').length > 0)
      leave('denies addresses; here a list has those that are allowed');
  }

  /** Whether requests of a route need a key. */
  #needsKey({ kong: route }: Pick<RouteHere, 'kong'>): boolean {
    return pluginFor(this.#kong, 'key-auth', route, null) !== null;
  }

  #keyed(): readonly RouteHere[] {
    return this.#routes.filter((route) => this.#needsKey(route));
  }

  /** A name for an entity that fits the files, another one for each of them. */
  #nameOf(entity: object, wanted: string, kind: string): string {
    const known = this.#names.get(entity);
    if (known !== undefined) return known;
    const words = wanted.split(/[^A-Za-z0-9_]/).filter((word) => word !== '');
    const plain = words
      .join('-')
      .replace(/^[^A-Za-z]+/, '')
      .slice(0, 56);
    const base = nameRule().safeParse(plain).success ? plain : kind;
    let count = this.#alike.get(base) ?? 1;
    let name = count === 1 ? base : `${base}-${count}`;
    while (this.#taken.has(name)) name = `${base}-${++count}`;
    this.#alike.set(base, count);
    this.#taken.add(name);
    this.#names.set(entity, name);
    return name;
  }

  /** The plans by their names, each with its consumers. Consumers with the same limits share a plan. */
  #plans(): ReadonlyMap<string, PlanHere & { readonly consumers: readonly (KongConsumer | null)[] }> {
    const routes = this.#keyed();
    const plans = new Map<string, PlanHere & { readonly consumers: (KongConsumer | null)[] }>();
    const nameByForm = new Map<string, string>();
    const limits = this.#kong.plugins.filter(({ name }) => name === 'rate-limiting');
    const limited = new Set(limits.map(({ consumer }) => consumer));
    for (const consumer of [null, ...this.#kong.consumers]) {
      const keys = consumer?.keys.length ?? 1;
      // Most consumers have neither a limit of their own nor several keys, and so the plan of one without both.
      if (consumer !== null && keys <= 1 && !limited.has(consumer)) {
        plans.get(DEFAULT_PLAN)!.consumers.push(consumer);
        continue;
      }
      const leave = (plugin: KongPlugin, why: string) => this.#leave(plugin.at, `rate-limiting: ${why}`);
      const plan = planOf(this.#kong, consumer, { routes, keys }, leave);
      const form = JSON.stringify([plan.base?.limits, plan.groups.map(({ limits, patterns }) => [limits, patterns])]);
      const known = nameByForm.get(form);
      if (known !== undefined) {
        plans.get(known)!.consumers.push(consumer);
        continue;
      }
      const name = consumer === null ? DEFAULT_PLAN : this.#nameOf({}, `${consumer.name}-plan`, 'plan');
      nameByForm.set(form, name);
      plans.set(name, { ...plan, consumers: [consumer] });
    }
    return plans;
  }

  #plansText(plans: ReadonlyMap<string, PlanHere>): string {
    const lines = [
      '# yaml-language-server: $schema=plans.schema.json',
      '# Moved from Kong. Hours, days and months are those of the calendar in UTC, as there; a second or a minute begins with the first request',
      '# that is counted in it, and in Kong with the clock. All windows are exact over all gateways.',
      '',
      '# Kong does not ban callers that keep sending after a 429.',
      'bans: off',
      '',
      'plans:',
    ];
    for (const [name, { base, groups, isOfKey }] of plans) {
      lines.push(`  ${name}:`);
      if (isOfKey)
        lines.push(
          '    # limit_by: credential. Each key has these limits to itself, so its entry in keys.yaml has no customer.',
        );
      if (base === null) lines.push('    limits: { minute: unlimited } # Kong has no limit for all routes together.');
      else
        lines.push(
          `    limits: ${limitsText(base)}${base.plugin.consumer === null ? '' : ' # of the consumer, in place of all others'}`,
        );
      if (groups.length > 0) lines.push('    groups: # counted apart, in place of `limits`');
      for (const group of groups) {
        lines.push(
          `      ${group.name}:`,
          '        instead: true',
          `        limits: ${limitsText(group)}`,
          '        routes:',
        );
        lines.push(...group.patterns.map((pattern) => `          - ${quoted(pattern)}`));
      }
    }
    return `${lines.join('\n')}\n`;
  }

  #gateway(plans: ReadonlyMap<string, PlanHere>): string {
    const services = [...new Set(this.#routes.map(({ kong }) => kong.service!))];
    const sizes = this.#routes.flatMap(({ kong }) => this.#sizeFor(kong) ?? []);
    const most = Math.max(BODY_MIB * MIB, ...sizes);
    const head = settingsHead().replace(
      '  maxBodyBytes: 1MiB\n',
      `  maxBodyBytes: ${sizeText(most)} # Kong has no limit of its own.\n  requestTimeout: ${bodySeconds(most)}s # enough for that at 10 Mbit/s\n`,
    );
    return `${[
      head.trimEnd(),
      '',
      ...this.#keyPlaces(),
      ...this.#cors(),
      'upstreams:',
      ...services.flatMap((service) => this.#upstream(service)),
      '',
      '# Kong strips a path off where `strip_path` is on, and matches what begins with it: `/v1` and `/v1/**` here, without `/v1x`.',
      'routes:',
      ...this.#routes.flatMap((route) => this.#route(route, plans)),
    ].join('\n')}\n`;
  }

  #keyPlaces(): readonly string[] {
    const plugins = new Set(this.#routes.flatMap(({ kong }) => pluginFor(this.#kong, 'key-auth', kong, null) ?? []));
    if (plugins.size === 0) return [];
    const places = new Set<string>();
    for (const plugin of plugins) {
      const names = listIn(plugin, 'key_names');
      for (const name of names.length === 0 ? ['apikey'] : names) {
        if (/^authorization$/i.test(name)) {
          this.#leave(
            plugin.at,
            'key-auth: the whole `Authorization` is the key; here it is `Authorization: Bearer KEY`',
          );
          places.add('authorization');
        } else if (!/^[A-Za-z0-9-]{1,64}$/.test(name)) {
          this.#leave(plugin.at, `key-auth: the name ${name} has other characters than letters, digits and \`-\``);
        } else {
          if (plugin.config.key_in_header !== false) places.add(`{ header: ${name} }`);
          if (plugin.config.key_in_query !== false) places.add(`{ query: ${name} }`);
        }
      }
    }
    return [
      '# Where Kong looks for keys. None of them reaches a service, also where Kong has `hide_credentials: false`.',
      'keys:',
      `  from: [${[...(places.size === 0 ? ['authorization'] : places)].join(', ')}]`,
      ...this.#formats(),
      '',
      'headers: { consumer: kong } # Services learn who calls in the fields of Kong.',
      '',
    ];
  }

  /** The forms of the keys, so that made-up ones are refused without a look-up. */
  #formats(): readonly string[] {
    const lengths = new Map<AlphabetName, number[]>();
    for (const { key, at } of this.#kong.consumers.flatMap(({ keys }) => keys)) {
      const alphabet = alphabetOf(key);
      if (alphabet === null)
        this.#leave(at, 'key: has characters or a length that no key here can have; give its holder a new one');
      else lengths.set(alphabet, [...(lengths.get(alphabet) ?? []), key.length]);
    }
    const formats = [...lengths].flatMap(([alphabet, all]) => {
      const each = [...new Set(all)].sort((a, b) => a - b);
      const written = each.length * lengths.size <= MAX_FORMATS ? each.map(String) : [`[${each[0]}, ${each.at(-1)}]`];
      return written.map((length) => `    - { length: ${length}, characters: ${alphabet} }`);
    });
    return formats.length === 0
      ? []
      : ['  formats: # of the keys that Kong has; without keys of a format, remove it', ...formats];
  }

  #cors(): readonly string[] {
    const all = [...new Set(this.#routes.map(({ kong }) => pluginFor(this.#kong, 'cors', kong, null)))];
    const [plugin, other] = all.filter((one) => one !== null);
    if (plugin === undefined) return [];
    if (other !== undefined) {
      this.#leave(plugin.at, 'cors: there are several, and here one section is for all routes');
      return [];
    }
    const origins = listIn(plugin, 'origins');
    const given = origins.length === 0 ? ['*'] : origins.map((origin) => origin.toLowerCase().replace(/\/$/, ''));
    if (!given.every((origin) => /^(\*|[a-z][a-z0-9+.-]*:\/\/[a-z0-9.:[\]-]+)$/.test(origin))) {
      this.#leave(plugin.at, 'cors: an origin is a regular expression, or no scheme with a host');
      return [];
    }
    if (all.length > 1) this.#leave(plugin.at, 'cors: is for some routes, and here for all of them');
    const isOpen = given.includes('*');
    const { max_age: age, credentials } = plugin.config;
    if (isOpen && credentials === true)
      this.#leave(plugin.at, 'cors: credentials for every origin; name the origins, then set it');
    const names = (list: readonly string[]) => list.map(quoted).join(', ');
    const namesIn = (list: string) =>
      listIn(plugin, list).filter((name) => {
        const isName = token().safeParse(name).success;
        if (!isName) this.#leave(plugin.at, `cors: ${name} in ${list} is not the name of a header field`);
        return isName;
      });
    const [headers, expose] = [namesIn('headers'), namesIn('exposed_headers')];
    return [
      'cors:',
      `  origins: [${isOpen ? "'*'" : names(given)}]`,
      ...(headers.length === 0 ? [] : [`  headers: [${names(headers)}]`]),
      ...(expose.length === 0 ? [] : [`  expose: [${names(expose)}]`]),
      ...(credentials === true && !isOpen ? ['  credentials: true'] : []),
      ...(typeof age === 'number' ? [`  maxAge: ${Math.min(Math.max(0, Math.floor(age)), 86_400)}s`] : []),
      '',
    ];
  }

  #upstream(service: KongService): readonly string[] {
    const { protocol, host, port } = service;
    const balanced = this.#kong.upstreams.get(host);
    const url = (address: string) => `${protocol}://${address}`;
    const targets = (balanced?.targets ?? [{ target: `${host}:${port}`, weight: 100 }]).flatMap(
      ({ target, weight }) => {
        const address = /:\d+$/.test(target) ? target : `${target}:${port}`;
        const wrong = faultOfTarget(url(address));
        if (wrong !== null) this.#leave(service.at, `service ${service.name}: its target ${wrong}`);
        return wrong === null ? [{ url: url(address), weight }] : [];
      },
    );
    if (balanced !== undefined && balanced.targets.length === 0)
      this.#leave(
        service.at,
        `service ${service.name}: its upstream ${host} has no targets in the file (\`/upstreams/${host}/targets\` of the Admin API); the written address answers nothing`,
      );
    const [first] = targets;
    const isEven = targets.every(({ weight }) => weight === first?.weight && weight !== 0);
    const written = targets.map((one) =>
      isEven ? quoted(one.url) : `{ url: ${quoted(one.url)}, weight: ${one.weight} }`,
    );
    const leave = (why: string) => this.#leave(service.at, `service ${service.name}: ${why}`);
    const cookie = token().safeParse(balanced?.cookie).data ?? null;
    const sticky = stickyOf(balanced?.hashOn ?? 'none', cookie);
    if (balanced?.hashOn === 'cookie' && cookie === null)
      leave(`hash_on_cookie ${balanced.cookie} is not the name of a cookie`);
    else if (balanced !== undefined && balanced.hashOn !== 'none' && sticky === null)
      leave(`hash_on ${balanced.hashOn} is no cookie, consumer or address`);
    const health = balanced?.healthPath ?? null;
    const isSoundPath = health !== null && healthPath().safeParse(health).success;
    if (health !== null && !isSoundPath) leave(`its targets are not checked: ${health} is not a path`);
    const timeout = (ms: number) => writtenDuration(Math.min(Math.max(1, Math.floor(ms)), MAX_TIMEOUT_MS));
    const lines = [
      `  ${this.#nameOf(service, service.name, 'service')}:`,
      `    targets: [${(written.length === 0 ? [quoted('http://127.0.0.1:9')] : written).join(', ')}]`,
      `    connectTimeout: ${timeout(service.connectTimeoutMs)}`,
      `    responseTimeout: ${timeout(service.readTimeoutMs)}`,
      `    bodyTimeout: ${timeout(service.readTimeoutMs)}`,
    ];
    if (this.#keepsHost(service)) lines.push('    host: keep');
    if (sticky !== null) lines.push(`    sticky: { ${sticky} }`);
    if (isSoundPath) lines.push(`    health: { path: ${quoted(health)} }`);
    return lines;
  }

  #route(route: RouteHere, plans: ReadonlyMap<string, PlanHere>): readonly string[] {
    const { kong, path, hosts, methods, stripPrefix, notes } = route;
    const isKeyed = this.#needsKey(route);
    const limit = pluginFor(this.#kong, 'request-size-limiting', kong, null);
    const from = listIn(pluginFor(this.#kong, 'ip-restriction', kong, null) ?? NO_PLUGIN, 'allow', 'whitelist');
    const also = isKeyed ? othersCounting(route, plans.get(DEFAULT_PLAN)!) : [];
    if (kong.keepsHost && !this.#keepsHost(kong.service!))
      this.#leave(
        kong.at,
        `route ${kong.name}: preserve_host: others of its service have it off, and here it is a matter of the upstream (\`host: keep\`)`,
      );
    if (also.length > 0)
      this.#leave(
        kong.at,
        `route ${kong.name}: requests that match the paths of the group ${also.join(', ')} count there, in place of what is their own in Kong`,
      );
    const guards = guardsOf(this.#kong, kong);
    for (const guard of guards)
      this.#leave(
        guard.at,
        `${guard.name}: route ${kong.name} has no key beside it and would be open to everyone, so it answers 503 (\`respond\`) until you write what is in its place`,
      );
    const rewrite = rewriteOf(stripPrefix, kong.service!.path);
    const closed = guards.map(({ name }) => name).join(', ');
    return [
      ...[`route ${quoted(kong.name)} of Kong`, ...notes].map((note) => `  # ${note}`),
      ...(closed === ''
        ? []
        : [`  # Closed: ${quoted(closed)} of Kong is not moved. Write what is in its place, and remove \`respond\`.`]),
      `  - path: ${quoted(path)}`,
      ...(hosts.length === 0 ? [] : [`    hosts: [${hosts.map(quoted).join(', ')}]`]),
      `    methods: [${methods.join(', ')}]`,
      `    upstream: ${this.#nameOf(kong.service!, kong.service!.name, 'service')}`,
      ...(closed === ''
        ? rewrite
        : ['    respond: { status: 503 }', ...rewrite.map((line) => `    #${line.slice(3)}`)]),
      ...(limit === null ? [] : [`    maxBodyBytes: ${sizeText(sizeOf(limit))}`]),
      ...(from.length === 0 ? [] : [`    addresses: [${this.#addresses(from, kong.at).map(quoted).join(', ')}]`]),
      ...(isKeyed ? this.#scopesOf(route) : this.#openLimits(route)),
    ];
  }

  /** Whether all routes of a service keep the Host of clients. */
  #keepsHost(service: KongService): boolean {
    return !this.#withOwnHost.has(service);
  }

  #sizeFor(route: RouteHere['kong']): number | null {
    const plugin = pluginFor(this.#kong, 'request-size-limiting', route, null);
    return plugin === null ? null : sizeOf(plugin);
  }

  #addresses(given: readonly string[], at: Path): readonly string[] {
    return given.flatMap((one) => {
      const read = addresses.safeParse([one]);
      if (!read.success) this.#leave(at, `ip-restriction: ${one} is no address and no network as it is written here`);
      return read.success ? read.data : [];
    });
  }

  /** A route asks for one scope: Kong lets a consumer pass that is in any of the groups. */
  #scopesOf({ kong }: RouteHere): readonly string[] {
    const scope = scopeOf(pluginFor(this.#kong, 'acl', kong, null));
    return scope === null ? [] : [`    scopes: [${quoted(scope.name)}] # acl: ${scope.what}`];
  }

  #openLimits(route: RouteHere): readonly string[] {
    const plugin = pluginFor(this.#kong, 'rate-limiting', route.kong, null);
    const { by, limits, year } = plugin === null ? NO_LIMIT : limitOf(plugin);
    const isOfAddress = ['consumer', 'credential', 'ip'].includes(by);
    const given = isOfAddress
      ? WINDOWS.flatMap((window) => (limits[window] === undefined ? [] : [`${window}: ${limits[window]}`]))
      : [];
    if (plugin !== null && (!isOfAddress || year !== null))
      this.#leave(
        plugin.at,
        `rate-limiting: a route without a key has limits for each address, and none by ${by}, a year or the like`,
      );
    const none = given.length === 0;
    return [
      '    auth: none',
      `    limits: { ${none ? `minute: ${WIDE}` : given.join(', ')} }${none ? ' # Kong has none here; Tollgate needs one for each address.' : ''}`,
      ...(none ? [] : [`    sharedLimits: ${this.#nameOf(plugin!, nameOfLimit(plugin!), 'limit')}`]),
    ];
  }

  #keys(plans: ReadonlyMap<string, PlanHere & { readonly consumers: readonly (KongConsumer | null)[] }>): string {
    const [customers, keys]: [string[], string[]] = [[], []];
    for (const [plan, { consumers, isOfKey }] of plans) {
      for (const consumer of consumers) {
        if (consumer === null) continue;
        if (consumer.tokens > 0) this.#leave(consumer.at, `consumer ${consumer.name}: its tokens (jwt) are not moved`);
        const name = this.#nameOf(consumer, consumer.name, 'customer');
        const isAlone = isOfKey && consumer.keys.length > 1;
        const entry = this.#entryOf(consumer, plan);
        if (!isAlone) customers.push(`  ${name}: { ${entry.join(', ')} }`);
        for (const [i, { key }] of consumer.keys.entries()) {
          if (alphabetOf(key) === null) continue;
          const sha256 = `sha256: ${hash('sha256', key, 'hex')}, last4: ${quoted(key.slice(-4))}`;
          const of = isAlone
            ? [...entry, `owner: ${quoted(oneLine(consumer.name, 100))}`].join(', ')
            : `customer: ${name}`;
          keys.push(`  ${name}-key${consumer.keys.length === 1 ? '' : `-${i + 1}`}: { ${of}, ${sha256} }`);
        }
      }
    }
    const head = [
      '# yaml-language-server: $schema=keys.schema.json',
      '# The consumers and keys of Kong. Instead of each key it has its SHA-256: a short key can be guessed from it, so keep this file as a secret.',
      'set: kong',
    ];
    const section = (title: string, lines: readonly string[]) => [
      `${title}:${lines.length === 0 ? ' {}' : ''}`,
      ...lines,
    ];
    return `${[...head, ...section('customers', customers), ...section('keys', keys)].join('\n')}\n`;
  }

  #entryOf(consumer: KongConsumer, plan: string): readonly string[] {
    const scopes = this.#scopesFor(consumer);
    const restricted = this.#kong.plugins.find((one) => one.name === 'ip-restriction' && one.consumer === consumer);
    const from =
      restricted === undefined ? [] : this.#addresses(listIn(restricted, 'allow', 'whitelist'), restricted.at);
    if (
      restricted !== undefined &&
      this.#kong.plugins.some((one) => one.name === 'ip-restriction' && one.consumer === null)
    )
      this.#leave(
        restricted.at,
        'ip-restriction: of a consumer, beside that of routes; in Kong the first replaces the other, here both count',
      );
    return [
      `plan: ${plan}`,
      `name: ${quoted(oneLine(consumer.name, 100))}`,
      ...(scopes.length === 0 ? [] : [`scopes: [${scopes.map(quoted).join(', ')}]`]),
      ...(from.length === 0 ? [] : [`addresses: [${from.map(quoted).join(', ')}]`]),
      ...(consumer.customId === null ? [] : [`meta: { custom_id: ${quoted(oneLine(consumer.customId, 256))} }`]),
    ];
  }

  #allScopes(): readonly Scope[] {
    const plugins = new Set(this.#keyed().map(({ kong }) => pluginFor(this.#kong, 'acl', kong, null)));
    return [...plugins].flatMap((plugin) => scopeOf(plugin) ?? []);
  }

  /** The scopes of the routes whose groups let a consumer pass. */
  #scopesFor({ groups }: KongConsumer): readonly string[] {
    this.#scopes ??= this.#allScopes();
    const own = this.#scopes.filter(({ allows, denies }) =>
      allows.length > 0
        ? allows.some((group) => groups.includes(group))
        : !denies.some((group) => groups.includes(group)),
    );
    return [...new Set(own.map(({ name }) => name))].sort();
  }
}

/** The path of a service in Kong comes in front of what is left of the path: `/v1/orders` becomes `/orders`, and not `/orders/`. */
function rewriteOf(stripPrefix: string, addPrefix: string): readonly string[] {
  const parts = [
    ...(stripPrefix === '' ? [] : [`stripPrefix: ${quoted(stripPrefix)}`]),
    ...(addPrefix === '' ? [] : [`addPrefix: ${quoted(addPrefix)}`]),
  ];
  return parts.length === 0 ? [] : [`    rewrite: { ${parts.join(', ')} }`];
}

/** What sends requests that belong together to one target; null if nothing does, or if it is not moved. */
function stickyOf(hashOn: string, cookie: string | null): string | null {
  if (hashOn === 'cookie' && cookie !== null) return `cookie: ${quoted(cookie)}`;
  return hashOn === 'consumer' ? 'key' : hashOn === 'ip' ? 'address' : null;
}

/** What a limit is called that an address has on several routes. */
function nameOfLimit({ route, service }: KongPlugin): string {
  return `of-${route?.name ?? service?.name ?? 'all-routes'}`;
}

const NO_PLUGIN = { config: {} } as KongPlugin;
const NO_LIMIT: ReturnType<typeof limitOf> = { by: 'consumer', limits: {}, year: null };

type Scope = NonNullable<ReturnType<typeof scopeOf>>;

/** The scope that stands for the groups of a plugin `acl`; null without one. */
function scopeOf(plugin: KongPlugin | null) {
  if (plugin === null) return null;
  const [allows, denies] = [listIn(plugin, 'allow', 'whitelist'), listIn(plugin, 'deny', 'blacklist')];
  const groups = (allows.length > 0 ? allows : denies).toSorted();
  if (groups.length === 0) return null;
  const text = groups.join('|').replaceAll(/[^!#-[\]-~]/g, '_');
  const what =
    allows.length > 0
      ? `a consumer in ${quoted(groups.join(' or '))}`
      : `a consumer that is not in ${quoted(groups.join(' or '))}`;
  return { name: allows.length > 0 ? text : `not:${text}`, what, allows, denies };
}

/** A text as an attribute of a customer may be: in one line, without control characters. @param most characters */
function oneLine(text: string, most: number): string {
  return (
    text
      .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
      .trim()
      .slice(0, most) || 'without a name'
  );
}

/** The narrowest alphabet of a key; null if it cannot be a key here. */
function alphabetOf(key: string): AlphabetName | null {
  if (key.length < FOREIGN_LENGTHS.least || key.length > FOREIGN_LENGTHS.most || key.startsWith('tg_live_'))
    return null;
  const names = Object.keys(ALPHABETS) as AlphabetName[];
  return names.find((name) => [...key].every((character) => ALPHABETS[name].includes(character))) ?? null;
}

/** Hours and days of Kong are those of the calendar. */
function limitsText({ limits }: Pick<LimitsHere, 'limits'>): string {
  const written = WINDOWS.flatMap((window) => {
    const limit = limits[window];
    if (limit === undefined) return [];
    const isOfCalendar = window === 'hour' || window === 'day';
    return [`${window}: ${isOfCalendar ? `{ limit: ${limit}, align: calendar }` : limit}`];
  });
  return `{ ${written.join(', ')} }`;
}

function sizeText(bytes: number): string {
  return bytes % MIB === 0 ? `${bytes / MIB}MiB` : bytes % 1024 === 0 ? `${bytes / 1024}KiB` : `${bytes}B`;
}
