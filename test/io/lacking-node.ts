import { EventEmitter } from 'node:events';
import http, { ClientRequest, Server, ServerResponse } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { Socket, Server as TcpServer } from 'node:net';
import { Duplex } from 'node:stream';

// Loaded by `--import` before a gateway: makes its Node.js one that lacks what NODE_LACKS names (several, by commas), or has
// it and works in another way. Only src/io/node-internals.ts sees the difference. Node itself goes on using what it has.

/** Whether the code that touches a member is that of src/io/node-internals.ts, in one of these functions where any is named. */
function isOurs(...functions: string[]): boolean {
  // This function, the accessor and then the code in question.
  const caller = new Error().stack?.split('\n')[3] ?? '';
  return (
    caller.includes('/io/node-internals.ts') && (functions.length === 0 || functions.some((it) => caller.includes(it)))
  );
}

interface Accessor {
  /** What our code reads in place of the value. */
  readonly get?: (value: unknown, of: object) => unknown;
  /** Where our code writes, nothing is written. */
  readonly isReadOnly?: true;
  readonly in?: readonly string[];
}

/** Puts an accessor between an object, or all objects of a class, and one of the members. */
function alter(prototype: object, name: string, { get, isReadOnly, in: functions = [] }: Accessor): void {
  const parent = Object.getPrototypeOf(prototype) as object;
  const before = Object.getOwnPropertyDescriptor(prototype, name) ?? Object.getOwnPropertyDescriptor(parent, name);
  const inherited = Reflect.get(parent, name);
  const own = Symbol(name);
  const current = (of: object) => {
    if (before?.get !== undefined) return before.get.call(of);
    return own in of ? (of as Record<symbol, unknown>)[own] : (before?.value ?? inherited);
  };
  Object.defineProperty(prototype, name, {
    configurable: true,
    get(this: object) {
      const value = current(this);
      return get !== undefined && isOurs(...functions) ? get(value, this) : value;
    },
    set(this: object, value: unknown) {
      if (isReadOnly === true && isOurs(...functions)) return;
      if (before?.set !== undefined) before.set.call(this, value);
      else Object.defineProperty(this, own, { value, configurable: true, writable: true });
    },
  });
}

/** The same for the handles of accepted connections: that of the class cannot be altered. */
function alterHandles(accessor: Accessor): void {
  const { emit } = EventEmitter.prototype;
  TcpServer.prototype.emit = function (this: TcpServer, event: string, ...args: unknown[]) {
    if (event === 'connection' && args[0] instanceof Socket) alter(args[0], '_handle', accessor);
    return Reflect.apply(emit, this, [event, ...args]);
  } as typeof emit;
}

const hidden: Accessor = { get: () => undefined };
const ignored: Accessor = { isReadOnly: true };

const LACKS: Readonly<Record<string, () => void>> = {
  'one listener for data': () => {
    alter(EventEmitter.prototype, 'listeners', { get: () => () => [() => {}, () => {}] });
  },
  'a parser that leaves the connection alone': () => {
    alter(Socket.prototype, 'removeListener', { get: (_, socket) => () => socket });
  },
  'packets that are shown': () => alter(Duplex.prototype, 'parser', hidden),
  'bodies that are copied': () => {
    type Take = (chunk: Buffer) => void;
    const get = (once: unknown, request: object) => (event: string, take: Take) =>
      Reflect.apply(once as typeof EventEmitter.prototype.once, request, [
        event,
        (chunk: Buffer) => take(chunk.fill('b')),
      ]);
    alter(http.IncomingMessage.prototype, 'once', { get });
  },
  'resume by its method': () => alter(Duplex.prototype, 'resume', ignored),
  'shouldKeepAlive that is obeyed': () => alter(ServerResponse.prototype, 'shouldKeepAlive', ignored),
  assignSocket: () => alter(ServerResponse.prototype, 'assignSocket', hidden),
  'a request without a client': () => {
    http.IncomingMessage = new Proxy(http.IncomingMessage, {
      construct: (target, words, made) => {
        if (isOurs()) throw new TypeError('Illegal constructor');
        return Reflect.construct(target, words, made) as object;
      },
    });
    syncBuiltinESMExports();
  },
  'a path that can be set': () => alter(ClientRequest.prototype, 'path', ignored),
  descriptors: () => alterHandles({ ...hidden, in: ['descriptorOf'] }),
  carriers: () => alter(Socket.prototype, 'stream', { ...hidden, in: ['carriedBy'] }),
  'handles of HTTP/2': () => {
    const all = Object.getOwnPropertySymbols;
    Object.getOwnPropertySymbols = (of: object) => all(of).filter(({ description }) => description !== 'kHandle');
  },
  'the end of a stream of HTTP/2': () => alter(Duplex.prototype, 'push', { ...ignored, in: ['onEndStream'] }),
  'buffers for what is decrypted': () => {
    const all = Object.getOwnPropertySymbols;
    Object.getOwnPropertySymbols = (of: object) => all(of).filter(({ description }) => description !== 'kBufferGen');
  },
  'handles that can be moved': () => alterHandles({ ...hidden, in: ['moveConnection'] }),
  'bytes on what was moved': () => {
    const get = (handle: unknown) => {
      setImmediate(() => (handle as { readStop(): void } | null)?.readStop());
      return handle;
    };
    alterHandles({ get, in: ['moveConnection'] });
  },
  'connections before their sockets': () =>
    alter(TcpServer.prototype, '_handle', { ...hidden, in: ['interceptAccepted'] }),
  'the address of what was accepted': () => {
    type Made = (error: number, accepted?: object) => void;
    const get = (handle: unknown) => ({
      get onconnection() {
        return (handle as { onconnection: Made }).onconnection;
      },
      set onconnection(made: Made) {
        (handle as { onconnection: Made }).onconnection = (error, accepted) =>
          made(error, Object.assign(accepted!, { getpeername: () => 0 }));
      },
    });
    alter(TcpServer.prototype, '_handle', { get, in: ['interceptAccepted'] });
  },
  _write: () => alter(Socket.prototype, '_write', hidden),
  'a _write that writes once': () => {
    const get = (write: unknown, socket: object) => (text: string, encoding: string, done: () => void) => {
      Reflect.apply(write as typeof Socket.prototype._write, socket, [text, encoding, () => {}]);
      Reflect.apply(write as typeof Socket.prototype._write, socket, [text, encoding, done]);
    };
    alter(Socket.prototype, '_write', { get });
  },
  'destroySoon that is called': () => {
    for (const { prototype } of [Socket, Duplex]) alter(prototype, 'destroySoon', ignored);
  },
  'destroy that a failed write calls': () =>
    alter(Socket.prototype, 'destroy', { ...ignored, in: ['outliveFailedWrites'] }),
  'destroy that ends a connection': () => alter(Socket.prototype, 'destroy', { ...ignored, in: ['interceptEnds'] }),
  'codes of the parser': () => {
    const { emit } = EventEmitter.prototype;
    Server.prototype.emit = function (this: Server, event: string, ...args: unknown[]) {
      const [error] = args as [NodeJS.ErrnoException];
      if (event === 'clientError' && error.code?.startsWith('HPE_INVALID_')) error.code = 'HPE_OTHER';
      return Reflect.apply(emit, this, [event, ...args]);
    } as typeof emit;
  },
};

for (const name of process.env.NODE_LACKS?.split(',') ?? []) LACKS[name]!();
