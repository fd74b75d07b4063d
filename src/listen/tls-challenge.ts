import type { Socket } from 'node:net';
import { createSecureContext, createServer, type SecureContext, type Server } from 'node:tls';
import { destroyLate } from '../io/graceful-close.ts';
import { readClientHello } from './client-hello.ts';
import { takeFirstBytes } from './first-bytes.ts';

/** The certificate that proves a domain, and its key, in PEM form. */
export interface ChallengeCertificate {
  readonly cert: string;
  readonly key: string;
}

export interface TlsChallengeOptions {
  /**
   * @param domain in lower case
   * @returns null if no order for this domain is under way
   */
  readonly certificateFor: (domain: string) => Promise<ChallengeCertificate | null>;
  readonly handshakeTimeoutMs: number;
  /** Takes every connection that is not of a certificate authority, with all its bytes. */
  readonly pass: (socket: Socket) => void;
  readonly onFailure: () => void;
}

const PROTOCOL = 'acme-tls/1';
/** How long the authority may take to close its connection after the handshake. */
const CLOSE_WITHIN_MS = 1_000;

/**
 * Answers TLS-ALPN-01 (RFC 8737) on the public port. A connection is the authority's if its ClientHello offers `acme-tls/1` and
 * nothing else, for a domain with an order under way. It gets a TLS server of its own, is closed after the handshake, and reaches
 * no code of HTTP; every other connection never meets the challenge's certificate. Node.js asks for the certificate (SNICallback)
 * before it reports the protocols (ALPNCallback), and before the first certificate no handshake gets that far, so the ClientHello is
 * read before the handshake begins.
 * @returns takes each new connection
 */
export function answerTlsChallenges(options: TlsChallengeOptions): (socket: Socket) => void {
  const contexts = new WeakMap<ChallengeCertificate, SecureContext>();
  const contextOf = (certificate: ChallengeCertificate) => {
    const known = contexts.get(certificate) ?? createSecureContext({ ...certificate, minVersion: 'TLSv1.2' });
    contexts.set(certificate, known);
    return known;
  };
  const server = challengeServer(options, async (domain) => {
    const certificate = await options.certificateFor(domain);
    return certificate === null ? null : contextOf(certificate);
  });
  const take = async (socket: Socket, serverName: string | null) => {
    const certificate = serverName === null ? null : await options.certificateFor(serverName).catch(() => null);
    if (socket.destroyed) return;
    if (certificate === null) options.pass(socket);
    else server.emit('connection', socket);
  };
  return (socket) => {
    takeFirstBytes(socket, {
      timeoutMs: options.handshakeTimeoutMs,
      refused: options.onFailure,
      read: readChallenge,
      done: (serverName) => void take(socket, serverName),
    });
  };
}

/** A server that never listens. */
function challengeServer(
  { handshakeTimeoutMs, onFailure }: TlsChallengeOptions,
  contextFor: (domain: string) => Promise<SecureContext | null>,
): Server {
  const server = createServer({
    ALPNProtocols: [PROTOCOL],
    handshakeTimeout: handshakeTimeoutMs,
    minVersion: 'TLSv1.2',
    SNICallback: (domain, done) => {
      contextFor(domain.toLowerCase()).then(
        (context) => (context === null ? done(new Error('no order for this domain')) : done(null, context)),
        (error) => done(error),
      );
    },
  });
  server.on('tlsClientError', (_error, socket) => {
    onFailure();
    socket.destroy();
  });
  server.on('secureConnection', (socket) => {
    socket.on('error', () => socket.destroy());
    destroyLate(socket, CLOSE_WITHIN_MS);
    socket.resume().end();
  });
  return server;
}

/** The server name of a client that offers exactly `acme-tls/1`, else null. No byte is taken from the TLS that follows. */
function readChallenge(held: Buffer) {
  const opening = readClientHello(held);
  if (opening.kind === 'partial') return opening.kind;
  const isChallenge = opening.kind === 'hello' && opening.protocols.length === 1 && opening.protocols[0] === PROTOCOL;
  return { value: isChallenge ? opening.serverName : null, bytes: 0 };
}
