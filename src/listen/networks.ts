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

/** `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1`, `[2001:db8::1]:443`; some proxies write the port. */
const FORMS =
  /^(?:([0-9.]+)(?::[0-9]{1,5})?|\[([0-9a-fA-F:.]+(?:%[^\]]*)?)\](?::[0-9]{1,5})?|([0-9a-fA-F:.]*:[0-9a-fA-F:.]*)(?:%.*)?)$/;
/** Four decimal numbers: ipaddr.js would also read `010.1.1.1` as octal, and `10` as an address. */
const IPV4 = /^(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})$/;

/** The one form of an address: IPv4-mapped IPv6 addresses become IPv4; brackets, port and zone go. Null for anything else. */
export function oneForm(text: string): string | null {
  const [, ipv4, bracketed, ipv6] = FORMS.exec(text) ?? [];
  const bare = (ipv4 ?? bracketed ?? ipv6)?.split('%')[0];
  if (bare === undefined || (ipv4 !== undefined && !IPV4.test(ipv4)) || !ipaddr.isValid(bare)) return null;
  return ipaddr.process(bare).toString();
}
