import { Redis } from 'ioredis';
import { Failure } from '../../failure.ts';

export interface ConnectionOptions {
  /** `redis://`, `rediss://`, `unix:///path` or `redis+unix:///path`. */
  readonly url: string;
  /** A connection attempt is given up after this long, and begun again. */
  readonly connectTimeoutMs: number;
  /** The link failed or could not be made; it is tried again by itself. */
  readonly onError?: (error: Error) => void;
}

/**
 * A connection that loses no time and repeats nothing: a command fails at once while there is no link, and one whose
 * reply was lost is never sent again, because it may have counted (contract section 6). It connects by itself
 * and again after each loss, at least once a second. Deadlines are the Circuit's.
 */
export function connectRedis({ url, connectTimeoutMs, onError }: ConnectionOptions): Redis {
  const options = {
    ...optionsOf(url),
    connectTimeout: connectTimeoutMs,
    // A process that has closed its connection ends; the other side may be gone and never say goodbye.
    disconnectTimeout: 100,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (attempt: number) => Math.min(50 * 2 ** Math.min(attempt, 5), 1_000),
    // The primary has become a replica: a new connection finds the new primary. 1: without sending the write again.
    reconnectOnError: (error: Error): false | 1 => (error.message.startsWith('READONLY') ? 1 : false),
    // A peer that has vanished without a word is given up although the kernel would wait for a quarter of an hour.
    socketTimeout: SILENCE_MS,
    replyMapping: 'legacy' as const,
  };
  const redis = new Redis(options);
  // Without a listener every failed attempt would be printed.
  redis.on('error', (error: Error) => {
    // The client would go on in database 0, among the keys of somebody else.
    if (isWrongDatabase(error)) redis.disconnect(true);
    onError?.(error);
  });
  return redis;
}

const SILENCE_MS = 5_000;

/** A connection beside another, to subscribe on. Made at `connect()`. */
export function subscriberOf(redis: Redis): Redis {
  const subscriber = redis.duplicate({
    lazyConnect: true,
    // Silence is what a subscriber mostly hears.
    socketTimeout: undefined,
    // When the client itself subscribes again and is refused, nobody can catch that: it would end the process.
    autoResubscribe: false,
  });
  subscriber.on('error', () => {});
  return subscriber;
}

/**
 * Waits until commands can be sent.
 * @throws Failure `store_unavailable` with what the link last complained of
 */
export function untilReady(redis: Redis, withinMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    if (redis.status === 'ready') return resolve();
    let complaint: Error | null = null;
    const onError = (error: Error) => {
      complaint = error;
      // Waiting does not make a wrong password right.
      if (isRefusal(error)) end(error);
    };
    const onReady = () => end(null);
    const timer = setTimeout(() => end(complaint ?? new Error('no answer')), withinMs);
    const end = (error: Error | null) => {
      clearTimeout(timer);
      redis.off('error', onError).off('ready', onReady);
      if (error === null) resolve();
      else reject(new Failure('store_unavailable', sentenceFor(redis, error), error));
    };
    redis.on('error', onError).on('ready', onReady);
  });
}

/** Where a client connects to, for people: without user and password. */
export function addressOf({ options: { path, host, port, db } }: Redis): string {
  const database = db === undefined || db === 0 ? '' : `, database ${db}`;
  return `${path ?? `${host?.includes(':') ? `[${host}]` : host}:${port}`}${database}`;
}

function sentenceFor(redis: Redis, error: Error): string {
  const where = `Redis at ${addressOf(redis)}`;
  if (isWrongDatabase(error)) return `${where}: there is no such database. Choose another one in REDIS_URL.`;
  if (isRefusal(error))
    return `${where} refuses us (${error.message.split(' ')[0]}). Check user and password in REDIS_URL.`;
  const code = 'code' in error ? ` (${String(error.code)})` : '';
  return `${where} does not answer${code}. Check REDIS_URL, and that the server runs and can be reached.`;
}

function isWrongDatabase({ message }: Error): boolean {
  return /DB index/.test(message);
}

function isRefusal(error: Error): boolean {
  return /^(NOAUTH|WRONGPASS|NOPERM)\b|invalid password/.test(error.message) || isWrongDatabase(error);
}

/**
 * A socket has no host, and a URL without a host no place for credentials: there they are parameters, as in
 * `unix:///run/redis.sock?db=2&username=gateway&password=…`.
 * @throws Failure `bad_settings` for what is no URL; the message does not repeat it, it may hold a password
 */
function optionsOf(text: string) {
  const url = URL.parse(text);
  if (url === null) throw new Failure('bad_settings', 'REDIS_URL is no URL; it must look like redis://host:port.');
  const isSocket = url.protocol.endsWith('unix:');
  const parameters = url.searchParams;
  const username = isSocket ? (parameters.get('username') ?? '') : decoded(url.username);
  const password = isSocket ? (parameters.get('password') ?? '') : decoded(url.password);
  const credentials = {
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
  };
  if (isSocket) {
    return { ...credentials, path: decoded(url.pathname), db: Number(parameters.get('db') ?? 0) };
  }
  return {
    ...credentials,
    host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1',
    port: url.port === '' ? 6379 : Number(url.port),
    db: Number(url.pathname.slice(1) || 0),
    ...(url.protocol === 'rediss:' ? { tls: {} } : {}),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Failure('bad_settings', 'REDIS_URL has a `%` that begins no escape; a percent sign itself is %25.');
  }
}
