import { Failure } from '../../failure.ts';

export interface Credentials {
  readonly username?: string;
  readonly password?: string;
}

export interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

/** The address of the store: REDIS_URL, parsed (contract section 2). */
export type RedisAddress =
  | { readonly kind: 'socket'; readonly path: string; readonly db: number; readonly credentials: Credentials }
  | (Encryptable & HostAndPort & { readonly kind: 'server'; readonly db: number })
  | (Encryptable & { readonly kind: 'cluster'; readonly nodes: readonly HostAndPort[] })
  | (Encryptable & {
      readonly kind: 'sentinel';
      readonly nodes: readonly HostAndPort[];
      /** The Sentinels' name for the primary. */
      readonly name: string;
      readonly db: number;
      /** For logging in to the Sentinels; `credentials` are for the Redis servers that they point to. */
      readonly sentinelCredentials: Credentials;
    });

interface Encryptable {
  readonly isEncrypted: boolean;
  readonly credentials: Credentials;
}

const SERVER_LIST = /^(rediss?)\+(cluster|sentinel):\/\/(?:([^@/?#]*)@)?([^@/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/;

/**
 * Parses a REDIS_URL: `redis://`, `rediss://`, `unix:///path`, `redis+cluster://a:1,b:2`, `redis+sentinel://a:1,b:2/name/db`.
 * `faultOfRedisUrl` in config/environment.ts has already checked it and reports each fault in detail.
 * @throws Failure `bad_settings` if it cannot be parsed. The message does not quote it, since it may contain a password.
 */
export function readRedisUrl(text: string): RedisAddress {
  const list = SERVER_LIST.exec(text);
  if (list !== null) return serverList(list);
  const url = URL.parse(text);
  if (url === null) throw new Failure('bad_settings', 'REDIS_URL is not a URL; it must look like redis://host:port.');
  const parameters = url.searchParams;
  if (url.protocol.endsWith('unix:')) {
    // A URL without a host cannot carry credentials, so those of a socket are query parameters.
    const credentials = credentialsOf(parameters.get('username'), parameters.get('password'));
    return { kind: 'socket', path: decoded(url.pathname), db: Number(parameters.get('db') ?? 0), credentials };
  }
  return {
    kind: 'server',
    host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1',
    port: url.port === '' ? 6379 : Number(url.port),
    db: Number(url.pathname.slice(1) || 0),
    isEncrypted: url.protocol === 'rediss:',
    credentials: credentialsOf(decoded(url.username), decoded(url.password)),
  };
}

/** The address as messages show it, without credentials. */
export function describeAddress(address: RedisAddress): string {
  if (address.kind === 'cluster') return `${listed(address.nodes)} (cluster)`;
  const database = address.db === 0 ? '' : `, database ${address.db}`;
  if (address.kind === 'socket') return `${address.path}${database}`;
  if (address.kind === 'server') return `${listed([address])}${database}`;
  return `${address.name}${database} (found through the Sentinels ${listed(address.nodes)})`;
}

function serverList([, scheme, kind, user, hosts = '', path = '', query = '']: RegExpExecArray): RedisAddress {
  const [username, password] = (user ?? '').split(/:(.*)/s).map(decoded);
  const shared = { isEncrypted: scheme === 'rediss', credentials: credentialsOf(username, password) };
  if (kind === 'cluster') return { kind, nodes: hosts.split(',').map((host) => hostAndPort(host, 6379)), ...shared };
  const [name = '', db = ''] = path.split('/');
  const parameters = new URLSearchParams(query);
  return {
    kind: 'sentinel',
    nodes: hosts.split(',').map((host) => hostAndPort(host, 26_379)),
    name: decoded(name),
    db: Number(db || 0),
    sentinelCredentials: credentialsOf(parameters.get('sentinelUsername'), parameters.get('sentinelPassword')),
    ...shared,
  };
}

function hostAndPort(text: string, fallback: number): HostAndPort {
  const [, host = '', port] = /^\[?([^\]]*?)\]?(?::(\d+))?$/.exec(text) ?? [];
  return { host: host || '127.0.0.1', port: port === undefined ? fallback : Number(port) };
}

function credentialsOf(username: string | null | undefined, password: string | null | undefined): Credentials {
  return { ...(username ? { username } : {}), ...(password ? { password } : {}) };
}

function listed(nodes: readonly HostAndPort[]): string {
  return nodes.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(', ');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Failure(
      'bad_settings',
      'REDIS_URL has a `%` that is not part of an escape; write a literal percent sign as %25.',
    );
  }
}
