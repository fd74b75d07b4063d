import { resolve } from 'node:path';
import type { GatewayFile } from './gateway-file.ts';
import { http2Schema } from './gateway-schema.ts';

/** TLS and HTTP/2 on the public listener. */
export interface Encryption {
  /** Null: plain text. */
  readonly tls: Tls | null;
  /** Null: HTTP/1.1 alone. Always null without TLS. */
  readonly http2: { readonly maxStreams: number; readonly maxResets: number } | null;
}

/** `cert`, `key` and `clientCa` are absolute paths of PEM files. */
export interface Tls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | null;
  readonly clientCertificate: 'none' | 'optional' | 'required';
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
}

export function encryptionOf({ tls, http2 = true }: GatewayFile['listen']): Encryption {
  if (tls === undefined) return { tls: null, http2: null };
  const { cert, key, clientCa, clientCertificate = 'required', minVersion } = tls;
  return {
    tls: {
      cert: resolve(cert),
      key: resolve(key),
      clientCa: clientCa === undefined ? null : resolve(clientCa),
      clientCertificate: clientCa === undefined ? 'none' : clientCertificate,
      minVersion,
    },
    http2: http2 === true ? http2Schema.parse({}) : http2 || null,
  };
}
