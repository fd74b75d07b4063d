import { once } from 'node:events';
import type { AddressInfo, Server, Socket } from 'node:net';

export interface Connections {
  /** Accepted so far. */
  readonly accepted: number;
  /** Open now. */
  readonly open: number;
  /** Cuts all connections and stops listening. */
  close(): Promise<void>;
}

/** Counts the connections of a server, from 1. Call it before the server's own listeners see any. */
export function countConnections(server: Server, onConnection: (socket: Socket, number: number) => void): Connections {
  const sockets = new Set<Socket>();
  let accepted = 0;
  server.on('connection', (socket: Socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    // A peer that resets the connection is what many tests are about, and never an error of the upstream.
    socket.on('error', () => {});
    onConnection(socket, accepted);
  });
  return {
    get accepted() {
      return accepted;
    },
    get open() {
      return sockets.size;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      if (!server.listening) return;
      server.close();
      await once(server, 'close');
    },
  };
}

/** Listens on 127.0.0.1. Port 0: any free one. */
export async function listen(server: Server, port = 0): Promise<{ readonly origin: string; readonly port: number }> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const bound = (server.address() as AddressInfo).port;
  return { origin: `http://127.0.0.1:${bound}`, port: bound };
}
