import { resolve } from 'node:path';
import type { GatewayFile } from './gateway-file.ts';
import { http2Schema } from './gateway-schema.ts';

/** How the public listener is encrypted, and what is spoken inside. */
export interface Encryption {
  /** Null: it is not. */
  readonly tls: Tls | null;
  /** Null: HTTP/1.1 alone. Never without TLS. */
  readonly http2: { readonly maxStreams: number; readonly maxResets: number } | null;
}

/** Absolute paths of PEM files, and what is asked of clients. */
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
