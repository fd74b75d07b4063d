import { Redis, type RedisOptions } from 'ioredis';
import { Failure } from '../../failure.ts';
import { ReplyDeadlines } from '../../io/deadlines.ts';
import { ClusterClient, type HostAndPort, type LinkOptions } from './cluster.ts';
import { sentinelConnector, serverConnector } from './connectors.ts';

interface ConnectionOptions {
  /** Any form of REDIS_URL (contract section 2). */
  readonly url: string;
  /** After this time the client abandons a connection attempt and begins another one. */
  readonly connectTimeoutMs: number;
}

/** One server, the primary that Sentinels name, or a whole cluster. */
export type RedisClient = Redis | ClusterClient;

/**
 * Connects to Redis. While there is no connection, commands fail at once. A command whose reply was lost is never sent
 * again, because it may have counted (contract section 6). The client reconnects by itself, with at most a second between
 * two attempts. The Circuit sets the deadlines of commands.
 * @throws Failure `bad_settings` if the URL cannot be parsed
 */
export function connectRedis({ url, connectTimeoutMs }: ConnectionOptions): RedisClient {
  const address = readRedisUrl(url);
  const shared = linkOptions(address, connectTimeoutMs);
  if (address.kind === 'cluster') {
    const { nodes } = address;
    const cluster = new ClusterClient({ nodes, link: shared, description: describeAddress(address) });
    // Without a listener, ioredis would print every failed attempt.
    cluster.on('error', () => {});
    cluster.on('node error', () => {});
    return cluster;
  }
  const redis = new ServerClient({ ...shared, ...placeOf(address, connectTimeoutMs) });
  redis.on('error', (error: Error) => {
    // ioredis would continue in database 0, among the keys of another program.
    if (isWrongDatabase(error)) redis.disconnect(true);
  });
  return redis;
}

function linkOptions(address: RedisAddress, connectTimeoutMs: number): LinkOptions {
  return {
    Connector: address.kind === 'sentinel' ? sentinelConnector() : serverConnector(),
    ...address.credentials,
    ...('isEncrypted' in address && address.isEncrypted ? { tls: {} } : {}),
    connectTimeout: connectTimeoutMs,
    // A process that closes its connection must be able to end even if the server never answers the close.
    disconnectTimeout: 100,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: retryInMs,
    // READONLY: the primary has become a replica, and a new connection finds the new primary. 1: reconnect without sending the
    // command again.
    reconnectOnError: (error: Error): false | 1 => (error.message.startsWith('READONLY') ? 1 : false),
    replyMapping: 'legacy',
  };
}

function retryInMs(attempt: number): number {
  return Math.min(50 * 2 ** Math.min(attempt, 5), 1_000);
}

type OnePlace = Exclude<RedisAddress, { readonly kind: 'cluster' }>;

function placeOf(address: OnePlace, connectTimeoutMs: number): Omit<RedisOptions, 'replyMapping'> {
  if (address.kind === 'socket') return { path: address.path, db: address.db };
  if (address.kind === 'server') return { host: address.host, port: address.port, db: address.db };
  return {
    sentinels: [...address.nodes],
    name: address.name,
    role: 'master',
    db: address.db,
    ...sentinelCredentials(address.sentinelCredentials),
    ...(address.isEncrypted ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {}),
    sentinelRetryStrategy: retryInMs,
    sentinelCommandTimeout: connectTimeoutMs,
    // A former primary continues to accept writes. So the client closes its connections as soon as the Sentinels announce another
    // primary, and not only when it stops answering.
    failoverDetector: true,
    updateSentinels: true,
  };
}

function sentinelCredentials({ username, password }: Credentials): Omit<RedisOptions, 'replyMapping'> {
  return {
    ...(username === undefined ? {} : { sentinelUsername: username }),
    ...(password === undefined ? {} : { sentinelPassword: password }),
  };
}

/**
 * Waits until the server accepts commands; in a cluster, until each primary does.
 * @throws Failure `store_unavailable` with the most specific error of the connection; `bad_settings` if waiting cannot help
 *   because REDIS_URL must change
 */
export function untilReady(redis: RedisClient, withinMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    if (isReady(redis)) return resolve();
    let lastError: Error | null = null;
    const onError = (error: Error) => {
      lastError = nearest(lastError, error);
      // Waiting does not end a refusal, such as one for a wrong password.
      if (isRefusal(error)) end(error);
    };
    const onReady = () => {
      if (isReady(redis)) end(null);
    };
    const late = () => {
      // The store can use a cluster of which only a part is ready.
      const hasPart = redis instanceof ClusterClient && redis.nodes('master').some(({ status }) => status === 'ready');
      end(hasPart && redis.status === 'ready' ? null : (lastError ?? new Error('no answer')));
    };
    const deadline = new ReplyDeadlines().set(late, withinMs);
    const end = (error: Error | null) => {
      deadline.cancel();
      for (const event of ERROR_EVENTS) redis.off(event, onError);
      for (const event of READY_EVENTS) redis.off(event, onReady);
      if (error === null) resolve();
      else reject(connectionFailure(whereOf(redis), error));
    };
    for (const event of ERROR_EVENTS) redis.on(event, onError);
    for (const event of READY_EVENTS) redis.on(event, onReady);
  });
}

/**
 * Watches a client for the reason why it has no connection.
 * @returns a function that makes a failure of the reason, which names the server by `where`; null while there is a connection,
 *   and while the reason is unknown
 */
export function watchTrouble(redis: RedisClient): (where?: string) => Failure | null {
  let last: Error | null = null;
  const onError = (error: Error) => {
    last = nearest(last, error);
  };
  const onReady = () => {
    last = null;
  };
  for (const event of ERROR_EVENTS) redis.on(event, onError);
  for (const event of READY_EVENTS) redis.on(event, onReady);
  // A failover may move the slots to nodes that were already connected, so that none of them becomes ready.
  redis.on('refresh', () => isReady(redis) && onReady());
  return (where = whereOf(redis)) => (last === null ? null : connectionFailure(where, last));
}

function isReady(redis: RedisClient): boolean {
  return redis instanceof ClusterClient ? redis.isWhole : redis.status === 'ready';
}

/** The error that is nearer to the cause; the later one if both are equally near. */
function nearest(before: Error | null, error: Error): Error {
  if (before === null || isRefusal(error)) return error;
  // An error with a code, or an unknown name, is the cause. The client's later, general errors must not replace it.
  const isCause = isUnknownName(before) || (codeOf(error) === null && (codeOf(before) !== null || isRefusal(before)));
  return isCause ? before : error;
}

const ERROR_EVENTS = ['error', 'node error', 'sentinelError'] as const;
const READY_EVENTS = ['ready', 'whole'] as const;

/** The address of a client for messages, without user and password. */
export function addressOf(redis: RedisClient): string {
  if (redis instanceof ClusterClient) return redis.description;
  const { path, host = '', port = 0, db = 0, sentinels, name = '' } = redis.options;
  const credentials = {};
  if (path !== undefined) return describeAddress({ kind: 'socket', path, db, credentials });
  const encryption = { isEncrypted: false, credentials };
  if (!sentinels) return describeAddress({ kind: 'server', host, port, db, ...encryption });
  const nodes = sentinels.map(({ host = '', port = 0 }) => ({ host, port }));
  return describeAddress({ kind: 'sentinel', nodes, name, db, sentinelCredentials: {}, ...encryption });
}

function whereOf(redis: RedisClient): string {
  return `Redis at ${addressOf(redis)}`;
}

function connectionFailure(where: string, error: Error): Failure {
  const failure = (code: 'bad_settings' | 'store_unavailable', text: string) =>
    new Failure(code, `${where}${text}`, error);
  if (isWrongDatabase(error))
    return failure('bad_settings', ': there is no such database. Choose another one in REDIS_URL.');
  if (isNoCluster(error))
    return failure(
      'bad_settings',
      ' is a single server, not a cluster. Write redis:// instead of redis+cluster:// in REDIS_URL.',
    );
  if (isRefusal(error)) {
    const word = error.message.split(' ')[0];
    return failure('store_unavailable', ` refuses us (${word}). Check user and password in REDIS_URL.`);
  }
  if (isUnknownName(error))
    return failure('store_unavailable', ': the Sentinels know no primary of this name. Check it in REDIS_URL.');
  const word = codeOf(error);
  const code = word === null ? '' : ` (${word})`;
  if (/CERT|SELF_SIGNED|VERIFY|ERR_TLS/.test(code)) {
    const remedy =
      'Name the file of its authority in NODE_EXTRA_CA_CERTS, and the host in REDIS_URL as it names itself.';
    return failure('store_unavailable', `: its certificate is not trusted${code}. ${remedy}`);
  }
  return failure(
    'store_unavailable',
    ` does not answer${code}. Check REDIS_URL, and that the server runs and can be reached.`,
  );
}

function codeOf(error: Error): string | null {
  return 'code' in error ? String(error.code) : null;
}

function isWrongDatabase({ message }: Error): boolean {
  return /DB index/.test(message);
}

function isNoCluster({ message }: Error): boolean {
  return /cluster support disabled/.test(message);
}

function isUnknownName({ message }: Error): boolean {
  return /invalid reply: null|No such master with that name/.test(message);
}

function isRefusal(error: Error): boolean {
  return (
    /^(NOAUTH|WRONGPASS|NOPERM)\b|invalid password/.test(error.message) || isWrongDatabase(error) || isNoCluster(error)
  );
}

/** Pause between an unexpected `end` of the client and the next attempt. */
const RECONNECT_AFTER_MS = 200;

/**
 * A client of ioredis for one server, or for the primary that Sentinels name, that always reconnects until `disconnect()`.
 * ioredis itself gives up (status `end`) if a connection is dropped while the next one is being made. Its failover detector
 * causes that when the Sentinels announce one failover twice.
 */
export class ServerClient extends Redis {
  #isClosed = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: RedisOptions & { readonly replyMapping: 'legacy' }) {
    super(options);
    this.on('end', () => this.#connectSoon());
  }

  override disconnect(reconnect = false): void {
    if (!reconnect) {
      this.#isClosed = true;
      if (this.#timer !== null) clearTimeout(this.#timer);
    }
    super.disconnect(reconnect);
  }

  #connectSoon(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => this.connect().catch(() => {}), RECONNECT_AFTER_MS);
  }
}

interface Credentials {
  readonly username?: string;
  readonly password?: string;
}

/** The address of the store: REDIS_URL, parsed (contract section 2). */
type RedisAddress =
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
