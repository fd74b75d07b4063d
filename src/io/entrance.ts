import { once } from 'node:events';
import { type AddressInfo, BoundSocket, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { cannotListen, type ListeningAt, listening } from './listening.ts';
import { type AcceptedHandle, descriptorOf, interceptAccepted, pausedSocketOf } from './node-internals.ts';
import { SharedBufferSocket } from './read-buffers.ts';
import { NAMES } from './resolver.ts';

/** A connection that was accepted, and from which nothing was read. */
export interface Arrival {
  /** The address of the peer. */
  readonly remoteAddress: string;
  readonly descriptor: number;
  /** Makes a socket of it, which stays half-open when the client ends its side. Without an `open` or a `drop` it stays open. */
  open(): Socket;
  drop(): void;
}

/** A port on which connections arrive. */
export interface Entrance {
  readonly address: string;
  readonly port: number;
  /**
   * Stops listening once every connection is accepted that the system holds ready. It resets those that are left when a listener
   * closes, although their clients have sent a request already.
   */
  close(): Promise<void>;
}

interface EntranceOptions extends ListeningAt {
  /** Whether nothing is to be read from the sockets, because another process will. */
  readonly paused: boolean;
  readonly onArrival: (arrival: Arrival) => void;
}

/**
 * Node accepts one connection of a listener each time it reads what has arrived. A turn of the event loop that serves a thousand
 * connections takes tens of milliseconds. So there are several listeners on the port, among which the system divides connections.
 */
const LISTENERS = 16;
/** Connections that may wait in all of them together. */
const BACKLOG = 8_192;
/** Other systems than Linux do not divide connections, so they have one listener. */
const CAN_SHARE = process.platform === 'linux';
/** The name of a socket that one gateway of this network has at a time, while it takes its port. It is freed with its process. */
const LOCK = '\0tollgate takes a port';
const LOCKED_MS = 2_000;
const LOCK_AGAIN_MS = 5;
/** How long clients that keep connecting may delay the end of the listeners. */
const TAKE_MS = 1_000;

/**
 * Listens on a port.
 * @throws Failure `cannot_listen`
 */
export async function openEntrance({ host, port, paused, onArrival }: EntranceOptions): Promise<Entrance> {
  let arrived = 0;
  const take = (arrival: Arrival) => {
    arrived++;
    onArrival(arrival);
  };
  const servers: Server[] = [];
  const listen = async (at: ListeningAt, isShared: boolean) => {
    const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: paused }, (socket) =>
      take(arrivalOf(socket, () => (paused ? socket : SharedBufferSocket.around(socket)))),
    );
    const sharing = isShared ? { backlog: BACKLOG / LISTENERS, reusePort: true } : {};
    await listening(server, { ...at, ...sharing }, 'PORT');
    interceptAccepted(server, (handle) => take(new AcceptedConnection(handle, paused)));
    servers.push(server);
    return server.address() as AddressInfo;
  };
  const listenFirst = async () => {
    if (!CAN_SHARE) return listen({ host, port }, false);
    const lock = await takeLock();
    try {
      await checkFree({ host, port });
      // Some kernels and sandboxes have no SO_REUSEPORT. If that is not what is wrong, the second attempt says what is.
      return await listen({ host, port }, true).catch(() => listen({ host, port }, false));
    } finally {
      lock.close();
    }
  };
  const address = await listenFirst();
  try {
    while (CAN_SHARE && servers.length < LISTENERS) await listen({ host: address.address, port: address.port }, true);
  } catch {
    // One listener suffices, if connections come slowly enough.
  }
  return {
    address: address.address,
    port: address.port,
    close: async () => {
      const untilMs = performance.now() + TAKE_MS;
      for (let before = -1; before !== arrived && performance.now() < untilMs; ) {
        before = arrived;
        // What has arrived is read between the first turn and the second.
        await turn();
        await turn();
      }
      for (const server of servers) server.close();
    },
  };
}

/**
 * Fault: sockets that share a port do not find out that they do: the system gives each a part of the connections, so a second gateway
 * that was started by mistake would get half of those of the first. A socket that does not share finds out. It does not listen, so that
 * it takes no connections, and gateways that start at the same time do this one after the other.
 * @throws Failure `cannot_listen` if the port is in use
 */
async function checkFree(at: ListeningAt): Promise<void> {
  // The system chooses no port that is in use.
  if (at.port === 0) return;
  try {
    const address = await promisify(NAMES.lookup)(at.host, {});
    new BoundSocket({ host: String(address), port: at.port }).close();
  } catch (error) {
    throw cannotListen(at, 'PORT', error as NodeJS.ErrnoException);
  }
}

/** Waits while another gateway takes its port, but no longer than that can take. */
async function takeLock(): Promise<Server> {
  for (const untilMs = performance.now() + LOCKED_MS; ; await delay(LOCK_AGAIN_MS)) {
    const lock = createServer().listen(LOCK);
    try {
      await once(lock, 'listening');
      return lock;
    } catch (error) {
      const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
      if (!isTaken || performance.now() >= untilMs) return lock;
    }
  }
}

/** @param open for a socket that Node has made */
export function arrivalOf(socket: Socket, open: () => Socket = () => socket): Arrival {
  const { remoteAddress = '' } = socket;
  return { remoteAddress, descriptor: descriptorOf(socket), open, drop: () => socket.destroy() };
}

class AcceptedConnection implements Arrival {
  readonly remoteAddress: string;
  readonly #handle: AcceptedHandle;
  readonly #paused: boolean;

  constructor(handle: AcceptedHandle, paused: boolean) {
    const peer: { address?: string } = {};
    handle.getpeername(peer);
    this.remoteAddress = peer.address ?? '';
    this.#handle = handle;
    this.#paused = paused;
  }

  get descriptor(): number {
    return this.#handle.fd ?? -1;
  }

  open(): Socket {
    const socket = this.#paused ? pausedSocketOf(this.#handle) : SharedBufferSocket.of(this.#handle);
    return socket.setNoDelay(true);
  }

  drop(): void {
    this.#handle.close();
  }
}
