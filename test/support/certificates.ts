import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generate } from 'selfsigned';

/** PEM files of a certificate and its key. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
  /** The certificate itself. */
  readonly pem: string;
}

/** Names of a certificate in place of localhost and 127.0.0.1. */
export interface AlternativeNames {
  readonly uris?: readonly string[];
  readonly dns?: readonly string[];
}

export interface CertificateAuthority extends CertificatePair {
  /** A certificate that this authority has signed, for localhost and 127.0.0.1; good for 30 days by default. */
  issue(name: string, days?: number, alternative?: AlternativeNames): Promise<CertificatePair>;
}

const DAY_MS = 86_400_000;
const KIND = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;

/**
 * Makes an authority and certificates. No private key is ever committed.
 * @param folder where the files go; it has to go away with the test
 */
export async function createAuthority(folder: string): Promise<CertificateAuthority> {
  let serial = 0;
  const write = async (name: string, pair: { readonly cert: string; readonly private: string }) => {
    const [cert, key] = [join(folder, `${name}.crt`), join(folder, `${name}.key`)];
    await Promise.all([writeFile(cert, pair.cert), writeFile(key, pair.private)]);
    return { cert, key, pem: pair.cert };
  };
  const root = await generate([{ name: 'commonName', value: 'Tollgate test authority' }], {
    ...KIND,
    ...validFor(60),
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  const issue = async (name: string, days = 30, alternative?: AlternativeNames) => {
    const pair = await generate([{ name: 'commonName', value: name }], {
      ...KIND,
      ...validFor(days),
      ca: { key: root.private, cert: root.cert },
      extensions: [
        { name: 'basicConstraints', cA: false },
        {
          name: 'subjectAltName',
          altNames:
            alternative === undefined
              ? [
                  { type: 2, value: 'localhost' },
                  { type: 7, ip: '127.0.0.1' },
                ]
              : [
                  ...(alternative.uris ?? []).map((value) => ({ type: 6 as const, value })),
                  ...(alternative.dns ?? []).map((value) => ({ type: 2 as const, value })),
                ],
        },
      ],
    });
    return write(`${name.replaceAll('/', '_')}-${++serial}`, pair);
  };
  return { ...(await write('ca', root)), issue };
}

/** From a day before now; of a certificate that has run out, from long before that. */
function validFor(days: number): { notBeforeDate: Date; notAfterDate: Date } {
  const now = Date.now();
  return {
    notBeforeDate: new Date(now - (days < 0 ? 1 - days : 1) * DAY_MS),
    notAfterDate: new Date(now + days * DAY_MS),
  };
}
