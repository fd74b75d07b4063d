import { hash, type X509Certificate } from 'node:crypto';
import type { ClientCertificate } from '../http1/client.ts';

/*
 * The names by which a key knows client certificates: `sha256:` and the fingerprint of one certificate, `uri:` and `dns:` with a
 * name of its subjectAltName.
 */

const FORM =
  'must be sha256: and a fingerprint of 64 hexadecimal digits, uri: and a URI, or dns: and a DNS name, such as uri:spiffe://example.com/shop';
const MAX_DNS_NAME = 253;
const MAX_DNS_LABEL = 63;
const DNS_LABEL = /^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?$/;
/** Visible ASCII without what Node.js quotes in a subjectAltName. */
const URI = /^[a-z][a-z0-9+.-]*:[!#-&(-+\--[\]-~]{1,500}$/i;

/** What is wrong with a name of certificates, as the end of a sentence; null if nothing is. */
export function faultOfCertificateName(text: string): string | null {
  return nameFrom(text) === null ? FORM : null;
}

function isDnsName(text: string): boolean {
  if (text.length > MAX_DNS_NAME) return false;
  return text.split('.').every((label) => label.length <= MAX_DNS_LABEL && DNS_LABEL.test(label));
}

/** A name in its one form: the fingerprint and a DNS name in lower case. @param text without a fault */
export function oneFormOfCertificateName(text: string): string {
  return nameFrom(text) ?? text;
}

function nameFrom(text: string): string | null {
  const [, kind, value = ''] = /^(sha256|uri|dns):(.*)/s.exec(text) ?? [];
  if (kind === 'uri') return URI.test(value) ? text : null;
  if (kind === 'dns') return isDnsName(value.toLowerCase()) ? `dns:${value.toLowerCase()}` : null;
  const hex = hexOf(value);
  return hex === null ? null : `sha256:${hex}`;
}

/** A fingerprint as openssl (`AA:BB:…`) or others print it, in lower case and without colons; null for any other text. */
function hexOf(text: string): string | null {
  const hex = /^(?:[0-9a-f]{2}:){31}[0-9a-f]{2}$/i.test(text) ? text.replaceAll(':', '') : text;
  return /^[0-9a-f]{64}$/i.test(hex) ? hex.toLowerCase() : null;
}

const THUMBPRINT = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/;

/** A thumbprint of RFC 8705 (`x5t#S256`), or a fingerprint in hexadecimal, as a thumbprint; null for any other text. */
export function thumbprintFrom(text: string): string | null {
  if (THUMBPRINT.test(text)) return text;
  const hex = hexOf(text);
  return hex === null ? null : Buffer.from(hex, 'hex').toString('base64url');
}

/** The name under which a store finds the key that has a name of certificates, beside the digests of secrets. */
export function certificateDigest(name: string): string {
  return hash('sha256', `tollgate certificate\n${name}`, 'base64url');
}

/** The names of a certificate that are read at most: an authority may sign hundreds. */
const MAX_NAMES = 32;

/** What the gateway knows of a client's certificate, which must have been verified. */
export function clientCertificateOf(certificate: X509Certificate): ClientCertificate {
  const raw = hash('sha256', certificate.raw, 'buffer');
  return {
    thumbprint: raw.toString('base64url'),
    names: [`sha256:${raw.toString('hex')}`, ...alternativeNames(certificate.subjectAltName ?? '').slice(0, MAX_NAMES)],
    endsAtMs: certificate.validToDate.getTime(),
  };
}

const ENTRY = /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)/y;

/**
 * The URIs and DNS names of a subjectAltName as Node.js prints it.
 *
 * Attack: a name that holds `, URI:spiffe://example.com/admin` looks like two names. Node.js quotes it, and no key can have a
 * quoted name. A text that is not read to its end has no names.
 */
export function alternativeNames(text: string): string[] {
  const names: string[] = [];
  ENTRY.lastIndex = 0;
  for (let at = 0; at < text.length; at = ENTRY.lastIndex) {
    const [, kind, value = ''] = ENTRY.exec(text) ?? [];
    if (kind === undefined) return [];
    const form = kind === 'URI' || kind === 'DNS' ? nameFrom(`${kind.toLowerCase()}:${value}`) : null;
    if (form !== null) names.push(form);
  }
  return names;
}
