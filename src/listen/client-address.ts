import type { IncomingMessage } from 'node:http';
import ipaddr from 'ipaddr.js';

type Network = [ipaddr.IPv4 | ipaddr.IPv6, number];

/**
 * Finds the client's address: the peer's, or behind trusted proxies the first from the right of X-Forwarded-For that
 * no trusted proxy has. IPv4-mapped IPv6 addresses become IPv4, so that each address has one form.
 *
 * Attack: a client writes an X-Forwarded-For of its own to get a budget of failed authentications for each request, or
 * somebody else's into the log. So the field is read only when the peer itself is trusted, and only right to left.
 */
export class ClientAddresses {
  readonly #trusted: readonly Network[];
  /** A connection's peer does not change: its address is read once. */
  readonly #peers = new WeakMap<object, { readonly address: string; readonly trustedPeer: boolean }>();

  /** @param trusted addresses and networks (`10.0.0.0/8`, `::1`), already checked */
  constructor(trusted: readonly string[]) {
    this.#trusted = trusted.map((text) =>
      text.includes('/')
        ? ipaddr.parseCIDR(text)
        : [ipaddr.parse(text), ipaddr.parse(text).kind() === 'ipv4' ? 32 : 128],
    );
  }

  of(request: IncomingMessage): { readonly address: string; readonly trustedPeer: boolean } {
    const peer = this.#peerOf(request);
    return peer.trustedPeer ? { address: this.#behind(peer.address, request.rawHeaders), trustedPeer: true } : peer;
  }

  #peerOf({ socket }: IncomingMessage) {
    const known = this.#peers.get(socket);
    if (known !== undefined) return known;
    const address = normalized(socket.remoteAddress ?? '') ?? '0.0.0.0';
    const peer = { address, trustedPeer: this.#isTrusted(address) };
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
      const address = normalized(hop.trim());
      if (address === null) break;
      client = address;
      if (!this.#isTrusted(address)) break;
    }
    return client;
  }

  #isTrusted(text: string): boolean {
    if (this.#trusted.length === 0) return false;
    const address = ipaddr.process(text);
    return this.#trusted.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
  }
}

function normalized(text: string): string | null {
  const bare = text.startsWith('[') ? text.slice(1, text.indexOf(']')) : text;
  const unzoned = bare.split('%')[0]!;
  if (!ipaddr.isValid(unzoned)) return null;
  return ipaddr.process(unzoned).toString();
}
