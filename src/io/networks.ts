import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = [Address, number];

/** `::192.0.2.1`, an IPv4-compatible address (RFC 4291 section 2.5.5.1). */
const IPV4_COMPATIBLE = /^::([0-9]+)\.([0-9]+)\.([0-9]+)\.([0-9]+)$/;

/**
 * An address as it is written, so that an IPv4-mapped one is IPv6.
 *
 * Attack: ipaddr.js reads the IPv4-compatible `::192.0.2.1`, which is another address, as the IPv4-mapped `::ffff:192.0.2.1`, and so as
 * 192.0.2.1.
 * @param text an address
 */
export function parseAddress(text: string): Address {
  const [, ...parts] = IPV4_COMPATIBLE.exec(text) ?? [];
  return parts.length === 0 ? ipaddr.parse(text) : ipaddr.fromByteArray([...Array(12).fill(0), ...parts.map(Number)]);
}

/** A set of addresses and networks, such as `trustedProxies`. */
export class Networks {
  readonly #networks: readonly Network[];

  /** @param texts addresses and networks (`10.0.0.0/8`, `::1`), already checked */
  constructor(texts: readonly string[]) {
    this.#networks = texts.map((text) => {
      const [address = '', bits] = text.split('/');
      const parsed = parseAddress(address);
      return [parsed, bits === undefined ? bitsOf(parsed) : Number(bits)];
    });
  }

  /** @param text an address in its one form (`oneForm`). An IPv6 network has no IPv4 address, whatever its prefix. */
  has(text: string): boolean {
    if (this.#networks.length === 0) return false;
    const address = parseAddress(text);
    return this.#networks.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));
  }
}

/** The network of a client that operators see where no single address is kept: a /24 of IPv4, a /48 of IPv6; `unknown` without an address. */
export function wideNetworkOf(text: string): string {
  if (isIP(text) === 0) return 'unknown';
  const parsed = parseAddress(text);
  const address = parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress() ? parsed.toIPv4Address() : parsed;
  const prefix = address.kind() === 'ipv4' ? 24 : 48;
  return `${networkOf(address, prefix)}/${prefix}`;
}

const FORM = 'must be an IP address or network, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32';

/**
 * What is wrong with an address or network of a list that lets callers in, as the end of a sentence; null if nothing is.
 *
 * Attack: a list that its author reads otherwise than the gateway lets strangers in, or everyone out. `010.0.0.1` is 8.0.0.1 to
 * some programs, `10.1.2.3/8` may mean one host or sixteen million, and no client ever has an IPv4-mapped address or a zone here.
 */
export function faultOfNetwork(text: string): string | null {
  const [address = '', bits, more] = text.split('/');
  const zone = address.indexOf('%');
  if (isIP(address) !== 0 && zone !== -1) return `must be without a zone id: ${address.slice(0, zone)}`;
  // Node.js accepts four decimal numbers without leading zeros. ipaddr.js alone also accepts 10, 0x7f.1 and 010.0.0.1.
  if (isIP(address) === 0 || more !== undefined) return FORM;
  const parsed = parseAddress(address);
  const most = bitsOf(parsed);
  if (bits !== undefined && (!/^(?:0|[1-9][0-9]{0,2})$/.test(bits) || Number(bits) > most)) return FORM;
  const prefix = bits === undefined ? most : Number(bits);
  if (parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress() && prefix >= 96) {
    const ipv4 = networkOf(parsed.toIPv4Address(), prefix - 96);
    return `must be written as IPv4, without ::ffff: ${prefix === 128 ? ipv4 : `${ipv4}/${prefix - 96}`}`;
  }
  const network = networkOf(parsed, prefix);
  return network === parsed.toString()
    ? null
    : `must be the network, without the address of a host: ${network}/${bits}`;
}

/** An address or network in its one form. @param text without a fault (`faultOfNetwork`) */
export function oneFormOfNetwork(text: string): string {
  const [address = '', bits] = text.split('/');
  const form = parseAddress(address).toString();
  return bits === undefined ? form : `${form}/${bits}`;
}

function bitsOf(address: Address): 32 | 128 {
  return address.kind() === 'ipv4' ? 32 : 128;
}

function networkOf(address: Address, prefix: number): string {
  const bytes = address.toByteArray().map((byte, i) => byte & (0xff00 >> Math.min(8, Math.max(0, prefix - 8 * i))));
  return ipaddr.fromByteArray(bytes).toString();
}
