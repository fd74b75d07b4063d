import type { Redis, RedisOptions } from 'ioredis';
import { Failure } from '../../failure.ts';
import { type Credentials, describeAddress, type RedisAddress, readRedisUrl } from './address.ts';
import { ClusterClient, type LinkOptions } from './cluster.ts';
import { sentinelConnector, serverConnector } from './connectors.ts';
import { Names } from './names.ts';
import { ServerClient } from './server-client.ts';

export interface ConnectionOptions {
  /** Any form of REDIS_URL (contract section 2). */
  readonly url: string;
  /** A connection attempt is given up after this long, and begun again. */
  readonly connectTimeoutMs: number;
  /** The link failed or could not be made; it is tried again by itself. */
  readonly onError?: (error: Error) => void;
}

/** One server, the primary that Sentinels name, or a whole cluster. */
export type RedisClient = Redis | ClusterClient;

/**
 * A connection that loses no time and repeats nothing: a command fails at once while there is no link, and one whose
 * reply was lost is never sent again, because it may have counted (contract section 6). It connects by itself
 * and again after each loss, at least once a second. Deadlines are the Circuit's.
 * @throws Failure `bad_settings` for a URL that cannot be read
 */
export function connectRedis({ url, connectTimeoutMs, onError }: ConnectionOptions): RedisClient {
  const address = readRedisUrl(url);
  const shared = linkOptions(address, connectTimeoutMs);
  if (address.kind === 'cluster') {
    const { nodes } = address;
    const cluster = new ClusterClient({ nodes, link: shared, description: describeAddress(address) });
    // Without a listener every failed attempt would be printed.
    cluster.on('error', (error: Error) => onError?.(error));
    cluster.on('node error', (error: Error) => onError?.(error));
    return cluster;
  }
  const redis = new ServerClient({ ...shared, ...placeOf(address, connectTimeoutMs) });
  redis.on('error', (error: Error) => {
    // The client would go on in database 0, among the keys of somebody else.
    if (isWrongDatabase(error)) redis.disconnect(true);
    onError?.(error);
  });
  return redis;
}

function linkOptions(address: RedisAddress, connectTimeoutMs: number): LinkOptions {
  const names = new Names();
  return {
    Connector: address.kind === 'sentinel' ? sentinelConnector(names) : serverConnector(names),
    ...address.credentials,
    ...('isEncrypted' in address && address.isEncrypted ? { tls: {} } : {}),
    connectTimeout: connectTimeoutMs,
    // A process that has closed its connection ends; the other side may be gone and never say goodbye.
    disconnectTimeout: 100,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: retryInMs,
    // The primary has become a replica: a new connection finds the new primary. 1: without sending the write again.
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
    // An old primary that nobody follows any more goes on accepting writes: its connections are left as soon as the
    // Sentinels tell of another one, not when the old one falls silent.
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
 * Waits until commands can be sent; of a cluster, to each of its primaries.
 * @throws Failure `store_unavailable` with what the link last complained of; `bad_settings` where waiting cannot help
 *   and REDIS_URL has to change
 */
export function untilReady(redis: RedisClient, withinMs: number): Promise<void> {
  const isReady = () => (redis instanceof ClusterClient ? redis.isWhole : redis.status === 'ready');
  return new Promise((resolve, reject) => {
    if (isReady()) return resolve();
    let complaint: Error | null = null;
    const onError = (error: Error) => {
      // What is behind a complaint comes first; then the client says that all are unreachable, or a link is closed.
      if (complaint === null || (!isUnknownName(complaint) && !(codeOf(complaint) && !codeOf(error))))
        complaint = error;
      // Waiting does not make a wrong password right.
      if (isRefusal(error)) end(error);
    };
    const onReady = () => {
      if (isReady()) end(null);
    };
    const late = () => {
      // A part of a cluster that is away is no reason to do without the others.
      const hasPart = redis instanceof ClusterClient && redis.nodes('master').some(({ status }) => status === 'ready');
      end(hasPart && redis.status === 'ready' ? null : (complaint ?? new Error('no answer')));
    };
    const timer = setTimeout(late, withinMs);
    const end = (error: Error | null) => {
      clearTimeout(timer);
      for (const event of COMPLAINTS) redis.off(event, onError);
      for (const event of PROGRESS) redis.off(event, onReady);
      if (error === null) resolve();
      else reject(complaintOf(redis, error));
    };
    for (const event of COMPLAINTS) redis.on(event, onError);
    for (const event of PROGRESS) redis.on(event, onReady);
  });
}

const COMPLAINTS = ['error', 'node error', 'sentinelError'] as const;
const PROGRESS = ['ready', 'whole'] as const;

/** Where a client connects to, for people: without user and password. */
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

function complaintOf(redis: RedisClient, error: Error): Failure {
  const where = `Redis at ${addressOf(redis)}`;
  const tell = (code: 'bad_settings' | 'store_unavailable', text: string) =>
    new Failure(code, `${where}${text}`, error);
  if (isWrongDatabase(error))
    return tell('bad_settings', ': there is no such database. Choose another one in REDIS_URL.');
  if (isNoCluster(error))
    return tell(
      'bad_settings',
      ' is one server and no cluster. Write redis:// instead of redis+cluster:// in REDIS_URL.',
    );
  if (isRefusal(error)) {
    const word = error.message.split(' ')[0];
    return tell('store_unavailable', ` refuses us (${word}). Check user and password in REDIS_URL.`);
  }
  if (isUnknownName(error))
    return tell('store_unavailable', ': the Sentinels know no primary of this name. Check it in REDIS_URL.');
  const word = codeOf(error);
  const code = word === null ? '' : ` (${word})`;
  if (/CERT|SELF_SIGNED|VERIFY|ERR_TLS/.test(code)) {
    const remedy =
      'Name the file of its authority in NODE_EXTRA_CA_CERTS, and the host in REDIS_URL as it names itself.';
    return tell('store_unavailable', `: its certificate is not trusted${code}. ${remedy}`);
  }
  return tell(
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
