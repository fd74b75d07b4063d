import { X509Certificate } from 'node:crypto';
import type { ServesHost } from '../http1/client.ts';
import { hostNameOf } from '../http1/fields.ts';

/*
 * A listener with several certificates: which of them a client gets, and which hosts its connection is for.
 */

/** Whether a certificate has a name in its subjectAltName, as it is or by a wildcard for one label (RFC 6125 section 6.4.3). */
interface Names {
  readonly exact: ReadonlySet<string>;
  /** `*.example.com`. */
  readonly wildcards: ReadonlySet<string>;
}

/** A source of a certificate, which may replace it; `current` is null until it has one. */
interface NamedSource {
  readonly current: { readonly cert: Buffer } | null;
}

/** The certificates of a listener. The first one is for clients that name no host, or one that none of them has. */
export class ServerNames {
  readonly #sources: readonly NamedSource[];
  /** Each certificate is read once. */
  readonly #read = new WeakMap<object, Names>();

  constructor(sources: readonly NamedSource[]) {
    this.#sources = sources;
  }

  /** The place of the certificate for a host: exact names come before wildcards, then the earlier certificate. Null if none has it. */
  placeOf(host: string): number | null {
    const name = hostNameOf(host);
    const exact = this.#sources.findIndex((_, i) => this.#at(i).exact.has(name));
    const place = exact === -1 ? this.#sources.findIndex((_, i) => this.#at(i).wildcards.has(wildcardOf(name))) : exact;
    return place === -1 ? null : place;
  }

  /**
   * Decides about the requests of one connection (RFC 9110 section 15.5.20, RFC 9113 section 9.1.2). A request for another host than the one
   * that the client named in its handshake is served if the certificate that the client got has that host too, or if no certificate has it: by
   * an address, or a name that is known elsewhere. What the client got does not change when that certificate is replaced.
   *
   * Attack: a client connects as one host and asks for another, to get past what stands in front of the gateway and decides by the
   * name in the handshake.
   * @param serverName what the client has named (SNI); null if it has named none
   * @returns null if every host is served, because the client has named no host of a certificate
   */
  servedTo(serverName: string | null): ServesHost | null {
    const place = serverName === null ? null : this.placeOf(serverName);
    if (place === null) return null;
    const got = this.#at(place);
    // Nearly all requests of a connection are for the host of the one before.
    let last: string | null = null;
    return (host) => {
      if (host === null || host === last) return true;
      if (!has(got, hostNameOf(host)) && this.placeOf(host) !== null) return false;
      last = host;
      return true;
    };
  }

  #at(place: number): Names {
    const certificate = this.#sources[place]!.current;
    if (certificate === null) return NO_NAMES;
    const names = this.#read.get(certificate) ?? namesOf(new X509Certificate(certificate.cert));
    this.#read.set(certificate, names);
    return names;
  }
}

const NO_NAMES: Names = { exact: new Set(), wildcards: new Set() };

function has({ exact, wildcards }: Names, name: string): boolean {
  return exact.has(name) || wildcards.has(wildcardOf(name));
}

function wildcardOf(name: string): string {
  return name.includes('.') ? `*${name.slice(name.indexOf('.'))}` : '';
}

/** A name with other characters, which Node.js quotes and which could look like several, is no name of a host: then none is read. */
function namesOf({ subjectAltName = '' }: X509Certificate): Names {
  const all = subjectAltName.includes('"') ? [] : subjectAltName.toLowerCase().split(', ');
  const names = all.flatMap((entry) => (entry.startsWith('dns:') ? [entry.slice('dns:'.length)] : []));
  return {
    exact: new Set(names.filter((name) => !name.startsWith('*.'))),
    wildcards: new Set(names.filter((name) => name.startsWith('*.'))),
  };
}
