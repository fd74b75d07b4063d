import type { ClientRequest } from '../forward/client.ts';
import { Networks, oneForm } from './networks.ts';

/** Where a request comes from. */
export interface ClientAddress {
  readonly address: string;
  /** The address at the other end of the connection, or that its PROXY header names. */
  readonly peer: string;
  readonly trustedPeer: boolean;
  readonly scheme: 'http' | 'https';
  /** What the client speaks, where that is not what is read here: `2.0` on a stream of HTTP/2. */
  readonly httpVersion: string | null;
}

/**
 * Finds the client's address: the peer's, or behind trusted proxies the first from the right of X-Forwarded-For that
 * no trusted proxy has. IPv4-mapped IPv6 addresses become IPv4, so that each address has one form. With the PROXY
 * protocol the peer is who its header names; the proxy that wrote it is out of the picture.
 *
 * Attack: a client writes an X-Forwarded-For of its own to get a budget of failed authentications for each request, or
 * somebody else's into the log. So the field is read only when the peer itself is trusted, and only right to left.
 */
export class ClientAddresses {
  readonly #trusted: Networks;
  /** A connection's peer does not change: its address is read once. */
  readonly #peers = new WeakMap<object, ClientAddress>();

  /** @param trusted addresses and networks (`10.0.0.0/8`, `::1`), already checked */
  constructor(trusted: readonly string[]) {
    this.#trusted = new Networks(trusted);
  }

  of(request: ClientRequest): ClientAddress {
    const peer = this.#peerOf(request);
    return peer.trustedPeer ? { ...peer, address: this.#behind(peer.address, request.rawHeaders) } : peer;
  }

  #peerOf({ socket }: ClientRequest): ClientAddress {
    const known = this.#peers.get(socket);
    if (known !== undefined) return known;
    const address = oneForm(socket.remoteAddress ?? '') ?? '0.0.0.0';
    const { encrypted, httpVersion = null } = socket as { encrypted?: boolean; httpVersion?: string };
    const scheme = encrypted === true ? 'https' : 'http';
    const peer: ClientAddress = {
      address,
      peer: address,
      trustedPeer: this.#trusted.has(address),
      scheme,
      httpVersion,
    };
    this.#peers.set(socket, peer);
    return peer;
  }

  #behind(peer: string, rawHeaders: readonly string[]): string {
    const hops: string[] = [];
    for (let i = 0; i < rawHeaders.length; i += 2) {
      if (rawHeaders[i]!.toLowerCase() === 'x-forwarded-for') hops.push(...rawHeaders[i + 1]!.split(','));
    }
    let client = peer;
    for (const hop of hops.reverse()) {
      const address = oneForm(hop.trim());
      if (address === null) break;
      client = address;
      if (!this.#trusted.has(address)) break;
    }
    return client;
  }
}
