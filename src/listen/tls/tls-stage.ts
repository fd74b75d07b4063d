import { constants } from 'node:crypto';
import type { Socket } from 'node:net';
import { createServer, type SecureContextOptions, type Server, type TLSSocket } from 'node:tls';
import { carrierOf } from '../../io/node-internals.ts';
import type { Certificate, Certificates } from './certificates.ts';

export interface TlsSettings {
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
  /** `optional`: a client need not present a certificate, but one that it presents must be valid. */
  readonly clientCertificate: 'none' | 'optional' | 'required';
}

export interface TlsStageOptions extends TlsSettings {
  readonly certificates: Certificates;
  readonly handshakeTimeoutMs: number;
  /** Whether `h2` is offered. */
  readonly http2: boolean;
  /** The handshake is done. `raw` is the TCP connection under `socket`. */
  readonly onSecure: (socket: TLSSocket, raw: Socket) => void;
  readonly onFailure: () => void;
}

/** Only suites with forward secrecy and authenticated encryption, for TLS 1.2 and 1.3. */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':');
const CURVES = 'X25519MLKEM768:X25519:P-256:P-384';

/**
 * Creates the stage that does the TLS handshake of connections that were accepted elsewhere. It is a server that never
 * listens: it gets connections through `emit('connection')` and passes them on through `onSecure`.
 *
 * Attack: with renegotiation a client could make the server pay for a handshake as often as it likes, so renegotiation
 * is off. A handshake that misses its deadline is cut off; until then it counts towards `maxConnections` like any other
 * connection.
 */
export function createTlsStage(options: TlsStageOptions): {
  readonly take: (raw: Socket) => void;
  readonly use: (certificate: Certificate) => void;
} {
  const requestsCertificate = options.clientCertificate !== 'none';
  const server: Server = createServer({
    ...contextOptions(options.certificates.current, options),
    ALPNProtocols: options.http2 ? ['h2', 'http/1.1'] : ['http/1.1'],
    handshakeTimeout: options.handshakeTimeoutMs,
    requestCert: requestsCertificate,
    rejectUnauthorized: options.clientCertificate === 'required',
  });
  server.on('tlsClientError', (_error, socket) => {
    options.onFailure();
    socket.destroy();
  });
  server.on('secureConnection', (socket) => {
    const raw = carrierOf(socket);
    if (raw === null || (requestsCertificate && !isAcceptable(socket))) {
      options.onFailure();
      socket.destroy();
      return;
    }
    resetThrough(socket, raw);
    options.onSecure(socket, raw);
  });
  return {
    take: (raw) => {
      server.emit('connection', raw);
    },
    use: (certificate) => server.setSecureContext(contextOptions(certificate, options)),
  };
}

function contextOptions({ cert, key, clientCa }: Certificate, { minVersion }: TlsSettings): SecureContextOptions {
  return {
    cert,
    key,
    ...(clientCa === null ? {} : { ca: clientCa }),
    minVersion,
    ciphers: CIPHERS,
    ecdhCurve: CURVES,
    honorCipherOrder: true,
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_COMPRESSION,
  };
}

/** Attack: if certificates are optional, Node also accepts one that none of the authorities has signed. */
function isAcceptable(socket: TLSSocket): boolean {
  return socket.authorized || socket.getPeerX509Certificate() === undefined;
}

/**
 * Makes `resetAndDestroy` work on the encrypted side: Node throws for a socket without a TCP handle of its own.
 *
 * Attack: Node 26.10 crashes (SIGSEGV) if both sockets are destroyed in the same turn within the handshake's callback.
 * So the encrypted side is destroyed one turn later.
 */
function resetThrough(socket: TLSSocket, raw: Socket): void {
  socket.resetAndDestroy = () => {
    if (!raw.destroyed) raw.resetAndDestroy();
    setImmediate(() => socket.destroy());
    return socket;
  };
}
