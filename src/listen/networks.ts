import ipaddr from 'ipaddr.js';

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

/** The one form of an address: IPv4-mapped IPv6 addresses become IPv4, brackets and zone go. Null for anything else. */
export function oneForm(text: string): string | null {
  const bare = text.startsWith('[') ? text.slice(1, text.indexOf(']')) : text;
  const unzoned = bare.split('%')[0]!;
  if (!ipaddr.isValid(unzoned)) return null;
  return ipaddr.process(unzoned).toString();
}
