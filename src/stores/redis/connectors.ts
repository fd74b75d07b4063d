import { createConnection, type NetConnectOpts, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { AbstractConnector, type RedisOptions, SentinelConnector } from 'ioredis';
import { type Lookup, NAMES } from '../../io/resolver.ts';

/** Makes a connection of ioredis. */
type Connector = NonNullable<RedisOptions['Connector']>;

/** Connects to one server or socket as ioredis does by itself, which has no option for looking up names. */
export function serverConnector(lookup: Lookup = NAMES.lookup): Connector {
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
      const place: NetConnectOpts = path ? { path } : { host, port, family, lookup };
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

/** Connects to the primary that Sentinels name as ioredis does by itself, which has no option for looking up names. */
export function sentinelConnector(lookup: Lookup = NAMES.lookup): Connector {
  const toServer = { Connector: serverConnector(lookup) };
  return class extends SentinelConnector {
    constructor(options: RedisOptions) {
      // Looks up a primary whose address is a name.
      const natMap = (address: string) => {
        const [, host = '', port] = /^(.*):(\d+)$/.exec(address) ?? [];
        return { host, port: Number(port), lookup };
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

/** After this silence following a command, the peer counts as gone. */
const SILENCE_MS = 5_000;
const CHECK_EVERY_MS = 500;

/**
 * Destroys a connection whose peer does not answer a command; the kernel would wait for a quarter of an hour. A connection that
 * only listens may be silent for any time.
 *
 * This polls the byte counters of the socket. ioredis can do the same (`socketTimeout`), at the cost of a timer and a listener for
 * each command. If a command goes out between the last answer and the poll that sees it, only the next command reveals the silence.
 * That follows soon: each call has a deadline, after which the circuit sends probes.
 */
export function endWhenSilent(connection: Socket): void {
  let lastBytesRead = 0;
  /** `bytesWritten` when the peer last sent something. */
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
