import { hash } from 'node:crypto';
import { isIPv4 } from 'node:net';
import { isSameDigest } from '../identify/api-key.ts';

/** 256 bits, in base64url. */
const CODE_BYTES = 32;

/** Header fields that proxies add to the requests that they forward. */
const OF_PROXIES =
  /^(?:forwarded|via|x-forwarded(?:-.*)?|x-real-ip|x-client-ip|x-cluster-client-ip|true-client-ip|cf-connecting-ip)$/i;

/** What is known of a request that brings a code. */
export interface LinkRequest {
  /** Of the connection, whatever the request says. */
  readonly address: string;
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
}

/**
 * The link that `npm start` prints while the admin port is on loopback. It signs in any number of times, until the process ends.
 * Only this process knows it: it is in no file and not in the store, and a restart makes another one.
 *
 * Attack: an attacker on another machine has read the code on a screen or in a copied output, and reaches the admin port through a proxy on
 * this machine. So the gateway accepts the code only over loopback, and only without the header fields that proxies add. A proxy or a
 * forwarded port that adds none of them looks like a client on this machine.
 */
export class StartLink {
  /** The name under which it signs in, for the record of changes. */
  readonly operator: string;
  /** Null until the link is made: then no code is right. */
  #digest: string | null = null;

  constructor(operator: string) {
    this.operator = operator;
  }

  /** Makes the link. @returns its code, which is not kept */
  make(random: (bytes: number) => Buffer): string {
    const code = random(CODE_BYTES).toString('base64url');
    this.#digest = digestOf(code);
    return code;
  }

  /** Whether a code is that of the link, and whether the request may use it. */
  judge(code: string, { address, rawHeaders }: LinkRequest): 'wrong' | 'elsewhere' | 'right' {
    if (this.#digest === null || !isSameDigest(digestOf(code), this.#digest)) return 'wrong';
    const isForwarded = rawHeaders.some((name, i) => i % 2 === 0 && OF_PROXIES.test(name));
    return isLoopback(address) && !isForwarded ? 'right' : 'elsewhere';
  }
}

/** Whether an address, of a listener or of a client, is of this machine alone. */
export function isLoopback(address: string): boolean {
  return address === '::1' || (isIPv4(address) && address.startsWith('127.'));
}

function digestOf(code: string): string {
  return hash('sha256', `tollgate start link ${code}`, 'base64url');
}
