import { constants } from 'node:crypto';
import type { Socket } from 'node:net';
import { createServer, type SecureContextOptions, type Server, type TLSSocket } from 'node:tls';
import type { Certificate, Certificates } from './certificates.ts';

export interface TlsSettings {
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
  /** `optional`: who shows a certificate must show a good one, and nobody has to. */
  readonly clientCertificate: 'none' | 'optional' | 'required';
}

export interface TlsStageOptions extends TlsSettings {
  readonly certificates: Certificates;
  readonly handshakeTimeoutMs: number;
  /** Whether `h2` is offered. */
  readonly http2: boolean;
  /** The connection is encrypted, and `raw` is what carries it. */
  readonly onSecure: (socket: TLSSocket, raw: Socket) => void;
  readonly onFailure: () => void;
}

/** Forward secrecy and authenticated encryption, in every version that is spoken. */
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
 * Encrypts connections that somebody else has accepted. It is a server that never listens: what it is given by
 * `emit('connection')` it hands on by `onSecure`.
 *
 * Attack: renegotiation makes the server pay for a handshake as often as the client likes, so there is none. A handshake
 * that is not done by its deadline is cut; until then it counts to `maxConnections` like any other connection.
 */
export function createTlsStage(options: TlsStageOptions): {
  readonly take: (raw: Socket) => void;
  readonly use: (certificate: Certificate) => void;
} {
  const asks = options.clientCertificate !== 'none';
  const server: Server = createServer({
    ...contextOptions(options.certificates.current, options),
    ALPNProtocols: options.http2 ? ['h2', 'http/1.1'] : ['http/1.1'],
    handshakeTimeout: options.handshakeTimeoutMs,
    requestCert: asks,
    rejectUnauthorized: options.clientCertificate === 'required',
  });
  server.on('tlsClientError', (_error, socket) => {
    options.onFailure();
    socket.destroy();
  });
  server.on('secureConnection', (socket) => {
    const raw = carrierOf(socket);
    if (raw === null || (asks && !isWelcome(socket))) {
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

/** Attack: where a certificate is optional, Node also lets pass one that nobody has signed. */
function isWelcome(socket: TLSSocket): boolean {
  return socket.authorized || socket.getPeerX509Certificate() === undefined;
}

/** Node keeps it, without telling in its documentation. */
function carrierOf(socket: TLSSocket): Socket | null {
  return (socket as TLSSocket & { _parent?: Socket })._parent ?? null;
}

/**
 * Node resets only what it holds the TCP handle of, and throws for anything else.
 *
 * Attack: Node 26.10 crashes (SIGSEGV) where both are destroyed in one turn within the handshake's callback. So the
 * encrypted side follows one turn later.
 */
function resetThrough(socket: TLSSocket, raw: Socket): void {
  socket.resetAndDestroy = () => {
    if (!raw.destroyed) raw.resetAndDestroy();
    setImmediate(() => socket.destroy());
    return socket;
  };
}
