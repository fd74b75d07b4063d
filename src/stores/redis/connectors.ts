import { createConnection, type NetConnectOpts, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { AbstractConnector, type RedisOptions, SentinelConnector } from 'ioredis';
import type { Names } from './names.ts';
import { endWhenSilent } from './silence.ts';

/** How ioredis makes its connections. */
type Connector = NonNullable<RedisOptions['Connector']>;

/** As ioredis connects to one server or socket by itself, only that names are looked up by `names`. */
export function serverConnector(names: Names): Connector {
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

/** As ioredis finds the primary that Sentinels name, only that all names are looked up by `names`. */
export function sentinelConnector(names: Names): Connector {
  const toServer = { Connector: serverConnector(names) };
  return class extends SentinelConnector {
    constructor(options: RedisOptions) {
      // Of a primary whose address is a name.
      const natMap = (address: string) => {
        const [, host = '', port] = /^(.*):(\d+)$/.exec(address) ?? [];
        return { host, port: Number(port), lookup: names.lookup };
      };
      super({ ...options, natMap });
      // The one way to its own connections to the Sentinels; there is no option for it.
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
