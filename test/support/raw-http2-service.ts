import { createServer, type Socket } from 'node:net';
import { atEnd } from './endings.ts';
import { FLAG, frame, PREFACE, settings, TYPE } from './http2-frames.ts';
import { countConnections, listen } from './listening.ts';
import { type SeenFrame, takeFrames } from './raw-http2.ts';

/** A connection of the gateway to a service of which the test writes every byte. */
export interface ServiceConnection {
  readonly socket: Socket;
  /** Connections count from 1. */
  readonly number: number;
  readonly frames: readonly SeenFrame[];
  send(...frames: Buffer[]): void;
}

export interface RawHttp2Service {
  readonly origin: string;
  readonly connections: readonly ServiceConnection[];
  /** Connections open now. */
  readonly open: number;
}

/**
 * A service of HTTP/2 without TLS. It sends empty SETTINGS, or `first`, and then what the handler writes when a frame has arrived.
 * @param options `first` null: it acknowledges no SETTINGS either
 */
export async function startRawHttp2Service(
  handler: (frame: SeenFrame, connection: ServiceConnection) => unknown,
  { first = settings() }: { readonly first?: Buffer | null } = {},
): Promise<RawHttp2Service> {
  const all: ServiceConnection[] = [];
  const server = createServer({ noDelay: true });
  const connections = countConnections(server, (socket, number) => {
    const frames: SeenFrame[] = [];
    const connection: ServiceConnection = {
      ...{ socket, number, frames },
      send: (...bytes) => socket.writable && socket.write(Buffer.concat(bytes)),
    };
    all.push(connection);
    let held: Buffer = Buffer.alloc(0);
    let hasPreface = false;
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      held = Buffer.concat([held, chunk]);
      if (!hasPreface && held.length < PREFACE.length) return;
      if (!hasPreface) held = held.subarray(PREFACE.length);
      hasPreface = true;
      held = takeFrames(held, (seen) => {
        frames.push(seen);
        if (first !== null && seen.type === TYPE.SETTINGS && seen.flags === 0)
          socket.write(frame(TYPE.SETTINGS, FLAG.ACK, 0));
        handler(seen, connection);
      });
    });
    if (first !== null) socket.write(first);
  });
  const { origin } = await listen(server);
  atEnd(connections.close);
  return {
    ...{ origin, connections: all },
    get open() {
      return connections.open;
    },
  };
}
