import { Failure } from '../../failure.ts';

export interface Credentials {
  readonly username?: string;
  readonly password?: string;
}

export interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

/** Where the store is, as REDIS_URL says (contract section 2). */
export type RedisAddress =
  | { readonly kind: 'socket'; readonly path: string; readonly db: number; readonly credentials: Credentials }
  | (Encryptable & HostAndPort & { readonly kind: 'server'; readonly db: number })
  | (Encryptable & { readonly kind: 'cluster'; readonly nodes: readonly HostAndPort[] })
  | (Encryptable & {
      readonly kind: 'sentinel';
      readonly nodes: readonly HostAndPort[];
      /** What the Sentinels call the primary. */
      readonly name: string;
      readonly db: number;
      /** For the Sentinels themselves; `credentials` are for the servers that they name. */
      readonly sentinelCredentials: Credentials;
    });

interface Encryptable {
  readonly isEncrypted: boolean;
  readonly credentials: Credentials;
}

const SEVERAL = /^(rediss?)\+(cluster|sentinel):\/\/(?:([^@/?#]*)@)?([^@/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/;

/**
 * Reads a REDIS_URL: `redis://`, `rediss://`, `unix:///path`, `redis+cluster://a:1,b:2`, `redis+sentinel://a:1,b:2/name/db`.
 * What is wrong with one in detail is told by config/redis-url.ts, before it comes here.
 * @throws Failure `bad_settings` for what cannot be read; the message does not repeat it, it may hold a password
 */
export function readRedisUrl(text: string): RedisAddress {
  const several = SEVERAL.exec(text);
  if (several !== null) return ofSeveral(several);
  const url = URL.parse(text);
  if (url === null) throw new Failure('bad_settings', 'REDIS_URL is no URL; it must look like redis://host:port.');
  const parameters = url.searchParams;
  if (url.protocol.endsWith('unix:')) {
    // A socket has no host, and a URL without a host no place for credentials: there they are parameters.
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

/** For people: without user and password. */
export function describeAddress(address: RedisAddress): string {
  if (address.kind === 'cluster') return `${listed(address.nodes)} (cluster)`;
  const database = address.db === 0 ? '' : `, database ${address.db}`;
  if (address.kind === 'socket') return `${address.path}${database}`;
  if (address.kind === 'server') return `${listed([address])}${database}`;
  return `${address.name}${database} (of the Sentinels ${listed(address.nodes)})`;
}

function ofSeveral([, scheme, kind, user, hosts = '', path = '', query = '']: RegExpExecArray): RedisAddress {
  const [username, password] = (user ?? '').split(/:(.*)/s).map(decoded);
  const shared = { isEncrypted: scheme === 'rediss', credentials: credentialsOf(username, password) };
  if (kind === 'cluster') return { kind, nodes: hosts.split(',').map((one) => hostAndPort(one, 6379)), ...shared };
  const [name = '', db = ''] = path.split('/');
  const parameters = new URLSearchParams(query);
  return {
    kind: 'sentinel',
    nodes: hosts.split(',').map((one) => hostAndPort(one, 26_379)),
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
    throw new Failure('bad_settings', 'REDIS_URL has a `%` that begins no escape; a percent sign itself is %25.');
  }
}
