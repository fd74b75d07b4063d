import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';
import { createConnection, type NetConnectOpts, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { AbstractConnector, type RedisOptions, SentinelConnector } from 'ioredis';

/** How ioredis makes its connections. */
type Connector = NonNullable<RedisOptions['Connector']>;

/** Connects to one server or socket as ioredis does by itself, but with names looked up by `names`. */
export function serverConnector(names: HostNames): Connector {
  return class extends AbstractConnector {
    readonly #options: RedisOptions;

    constructor(options: RedisOptions) {
      super(options.disconnectTimeout ?? 0);
      this.#options = options;
    }

    override async connect(): Promise<Socket> {
      const { path, host = 'localhost', port = 6379, family, tls } = this.#options;
      this.connecting = true;
      await new Promise<void>((resolve) => process.nextTick(resolve));
      if (!this.connecting) throw new Error('Connection is closed.');
      const place: NetConnectOpts = path ? { path } : { host, port, family, lookup: names.lookup };
      const stream = tls ? connectTls({ ...place, ...tls } as ConnectionOptions) : createConnection(place);
      stream.once('error', (error) => {
        this.firstError = error;
      });
      endWhenSilent(stream);
      this.stream = stream;
      return stream;
    }
  } as Connector;
}

/** Connects to the primary that Sentinels name as ioredis does by itself, but with names looked up by `names`. */
export function sentinelConnector(names: HostNames): Connector {
  const toServer = { Connector: serverConnector(names) };
  return class extends SentinelConnector {
    constructor(options: RedisOptions) {
      // For a primary whose address is a name.
      const natMap = (address: string) => {
        const [, host = '', port] = /^(.*):(\d+)$/.exec(address) ?? [];
        return { host, port: Number(port), lookup: names.lookup };
      };
      super({ ...options, natMap });
      // ioredis has no option for its own connections to the Sentinels, so this overrides a private method.
      const own = this as unknown as { connectToSentinel(endpoint: unknown, more?: object): unknown };
      const connectToSentinel = own.connectToSentinel.bind(this);
      own.connectToSentinel = (endpoint, more) => connectToSentinel(endpoint, { ...more, ...toServer });
    }

    override async connect(...how: Parameters<SentinelConnector['connect']>): Promise<Socket> {
      const stream = (await super.connect(...how)) as Socket;
      endWhenSilent(stream);
      return stream;
    }
  } as Connector;
}

/** A peer that sends nothing for this long after a command counts as gone. */
const SILENCE_MS = 5_000;
const CHECK_EVERY_MS = 500;

/**
 * Destroys a connection whose peer does not answer a command; the kernel would wait for a quarter of an hour. A connection
 * that only listens may be silent for any time.
 *
 * This polls the byte counters of the socket. ioredis can do the same (`socketTimeout`), at the cost of a timer and a
 * listener for each command. A command that was sent between the last answer and the poll that saw it is noticed only with
 * the next command. That follows soon: each call has a deadline, after which the circuit sends probes.
 */
export function endWhenSilent(connection: Socket): void {
  let lastBytesRead = 0;
  /** `bytesWritten` when the peer was last heard. */
  let lastBytesWritten = 0;
  let silentForMs = 0;
  const check = () => {
    const { bytesRead, bytesWritten } = connection;
    if (bytesRead !== lastBytesRead || bytesWritten === lastBytesWritten) silentForMs = 0;
    else silentForMs += CHECK_EVERY_MS;
    if (silentForMs >= SILENCE_MS) {
      connection.destroy(new Error(`Nothing was heard for ${SILENCE_MS} ms after a command.`));
    } else if (silentForMs === 0) [lastBytesRead, lastBytesWritten] = [bytesRead, bytesWritten];
  };
  const timer = setInterval(check, CHECK_EVERY_MS);
  timer.unref();
  connection.once('close', () => clearInterval(timer));
}

type Callback = (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void;
type Answer = Parameters<Callback>;

/** The type of `dns.lookup`. */
export type SystemLookup = (host: string, options: LookupOptions, callback: Callback) => void;

/** How long an answer is kept: if look-ups take longer than a connection attempt may, the next attempt can still use it. */
const CACHED_FOR_MS = 2_000;

/**
 * Looks up the names of Redis servers, one at a time, and shares each look-up among concurrent callers.
 *
 * Node runs few look-ups at a time for the whole process, and each takes many seconds if the name server is away. Without
 * this class, every connection attempt would queue one more look-up in front of those for upstreams.
 */
export class HostNames {
  readonly #system: SystemLookup;
  readonly #answers = new Map<string, Promise<Answer>>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(system: SystemLookup = lookup as SystemLookup) {
    this.#system = system;
  }

  /** Replaces `dns.lookup` in the options of a connection. */
  readonly lookup = (host: string, options: LookupOptions, callback: Callback): void => {
    void this.#ask(host, options).then((answer) => callback(...answer));
  };

  #ask(host: string, options: LookupOptions): Promise<Answer> {
    const key = JSON.stringify([host, options.family, options.hints, options.all]);
    const known = this.#answers.get(key);
    if (known !== undefined) return known;
    const answer = this.#last.then(
      () => new Promise<Answer>((resolve) => this.#system(host, options, (...result) => resolve(result))),
    );
    this.#last = answer;
    this.#answers.set(key, answer);
    void answer.then(([error]) => {
      if (error !== null) this.#answers.delete(key);
      else setTimeout(() => this.#answers.delete(key), CACHED_FOR_MS).unref();
    });
    return answer;
  }
}
