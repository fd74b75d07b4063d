import ipaddr from 'ipaddr.js';
import type { ClientAddress, ClientRequest } from '../../http1/client.ts';
import { valuesOf } from '../../http1/field-values.ts';

/**
 * Finds the client's address: the address of the peer or, if the peer is a trusted proxy, the rightmost address in
 * X-Forwarded-For that does not belong to a trusted proxy. IPv4-mapped IPv6 addresses become IPv4, so that each address
 * has one form. With the PROXY protocol, the peer is the client that the PROXY header names, not the proxy that sent
 * the header.
 *
 * Attack: a client sends its own X-Forwarded-For to get a new failed-authentication budget with each request, or to
 * have another client's address logged. So the field is read only if the peer itself is trusted, and only from right to
 * left.
 */
export class ClientAddresses {
  readonly #trusted: Networks;
  /** By connection. The peer of a connection does not change, so its address is read once. */
  readonly #peers = new WeakMap<object, ClientAddress>();

  /** @param trusted addresses and networks (`10.0.0.0/8`, `::1`), already checked */
  constructor(trusted: readonly string[]) {
    this.#trusted = new Networks(trusted);
  }

  of(request: ClientRequest): ClientAddress {
    const peer = this.#peerOf(request);
    return peer.trustedPeer ? { ...peer, address: this.#addressBehind(peer.address, request.rawHeaders) } : peer;
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

  #addressBehind(peer: string, rawHeaders: readonly string[]): string {
    const hops = valuesOf(rawHeaders, 'x-forwarded-for').flatMap((value) => value.split(','));
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

type Network = [ipaddr.IPv4 | ipaddr.IPv6, number];

/** A set of addresses and networks, such as `trustedProxies`. */
export class Networks {
  readonly #networks: readonly Network[];

  /** @param texts addresses and networks (`10.0.0.0/8`, `::1`), already checked */
  constructor(texts: readonly string[]) {
    this.#networks = texts.map((text) =>
      text.includes('/')
        ? ipaddr.parseCIDR(text)
        : [ipaddr.parse(text), ipaddr.parse(text).kind() === 'ipv4' ? 32 : 128],
    );
  }

  /** @param text an address in its one form */
  has(text: string): boolean {
    if (this.#networks.length === 0) return false;
    const address = ipaddr.process(text);
    return this.#networks.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
  }
}

/** `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]:443`; some proxies write the port. */
const FORMS =
  /^(?:([0-9.]+)(?::[0-9]{1,5})?|\[([0-9a-fA-F:.]+(?:%[^\]]*)?)\](?::[0-9]{1,5})?|([0-9a-fA-F:.]*:[0-9a-fA-F:.]*)(?:%.*)?)$/;
/** Four decimal numbers: ipaddr.js would also read `010.1.1.1` as octal, and `10` as an address. */
const IPV4 = /^(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})$/;

/**
 * The one form of an address: IPv4-mapped IPv6 becomes IPv4; brackets, port and zone are removed. Null if not an
 * address.
 */
export function oneForm(text: string): string | null {
  const [, ipv4, bracketed, ipv6] = FORMS.exec(text) ?? [];
  const bare = (ipv4 ?? bracketed ?? ipv6)?.split('%')[0];
  if (bare === undefined || (ipv4 !== undefined && !IPV4.test(ipv4)) || !ipaddr.isValid(bare)) return null;
  return ipaddr.process(bare).toString();
}
