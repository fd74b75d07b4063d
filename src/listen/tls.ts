import { constants, createHash, createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { Socket } from 'node:net';
import {
  createSecureContext,
  createServer,
  type SecureContext,
  type SecureContextOptions,
  type Server,
  type TLSSocket,
} from 'node:tls';
import { Failure } from '../failure.ts';
import { type ReplyDeadline, ReplyDeadlines } from '../io/deadlines.ts';
import { carriedBy } from '../io/node-internals.ts';
import { type HandshakePayer, NO_PAYER, rawOf, TlsCarrier } from '../io/tls-carrier.ts';
import { comesFrom, isFor } from './client-address.ts';
import { certificateBlocks } from './pem.ts';
import { ServerNames } from './server-names.ts';

/*
 * TLS on the listeners: the certificates, which may be replaced while the gateway runs, and the stage that decrypts.
 */

interface CertificateFiles {
  /** PEM: the certificate, followed by its intermediate certificates. */
  readonly cert: string;
  /** PEM, without a passphrase. */
  readonly key: string;
  /** PEM: the certificate authorities of client certificates; null if clients are not asked for one. */
  readonly clientCa: string | null;
}

/** A certificate with its key, both checked. */
export interface Certificate {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly clientCa: Buffer | null;
  /** Unix milliseconds. */
  readonly validFromMs: number;
  readonly expiresAtMs: number;
  /** SHA-256 of the contents of all files. Two versions have different digests. */
  readonly digest: string;
}

/** Where a listener gets its certificate from. */
export interface CertificateSource {
  /** Null while there is none yet: every handshake then fails with an alert. */
  readonly current: Certificate | null;
  /** @param use called with each new certificate from now on */
  onChange(use: (certificate: Certificate) => void): void;
}

interface CertificateEvents {
  /** A new certificate is in use. */
  readonly onLoaded: (certificate: Certificate) => void;
  /**
   * The files now hold something that cannot be used, so the current certificate stays in use. Called once for each
   * such version.
   */
  readonly onRefused: (why: string) => void;
}

/** `why` is a sentence for operators that quotes nothing from the contents. */
export interface Refused {
  readonly why: string;
  readonly digest: string;
}

const LOOK_EVERY_MS = 500;
const MAX_BYTES = 1024 * 1024;

/**
 * The certificate in use, reloaded when its files change. The files are checked by name every half second. That notices
 * an editor's rename and the swapped links of Kubernetes, which a watcher on a file or its folder misses on some
 * systems.
 */
export class Certificates implements CertificateSource {
  readonly #files: CertificateFiles;
  readonly #wallMs: () => number;
  #current: Certificate;
  #signature: string;
  #timer: NodeJS.Timeout | null = null;
  #doubted = '';
  #refused = '';
  #looking = false;
  readonly #users: ((certificate: Certificate) => void)[] = [];

  private constructor(files: CertificateFiles, current: Certificate, signature: string, wallMs: () => number) {
    this.#wallMs = wallMs;
    this.#files = files;
    this.#current = current;
    this.#signature = signature;
  }

  /**
   * @param wallMs Unix milliseconds
   * @param setting the setting that names the files, for the message
   * @throws Failure `bad_settings`, with a message that names the file and quotes nothing from it
   */
  static async open(files: CertificateFiles, wallMs: () => number, setting = 'listen.tls'): Promise<Certificates> {
    const signature = await signatureOf(files);
    const read = await readCertificate(files);
    if ('why' in read) throw new Failure('bad_settings', `${setting}: ${read.why}`);
    return new Certificates(files, read, signature, wallMs);
  }

  get current(): Certificate {
    return this.#current;
  }

  /** @param use called with each new certificate from now on */
  onChange(use: (certificate: Certificate) => void): void {
    this.#users.push(use);
  }

  /** Starts checking the files for new versions. */
  follow(events: CertificateEvents): void {
    this.#timer = setInterval(() => void this.#look(events), LOOK_EVERY_MS).unref();
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  async #look(events: CertificateEvents): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      const signature = await signatureOf(this.#files);
      if (signature !== this.#signature && this.#take(await readCertificate(this.#files), events)) {
        this.#signature = signature;
      }
    } finally {
      this.#looking = false;
    }
  }

  /**
   * A certificate that is not valid now does not replace one that is, because every client that verifies it would
   * disconnect.
   */
  #unlessDated(found: Certificate): Certificate | Refused {
    const nowMs = this.#wallMs();
    const { validFromMs, expiresAtMs, digest } = found;
    if (this.#current.expiresAtMs <= nowMs || (validFromMs <= nowMs && expiresAtMs > nowMs)) return found;
    return { why: `${this.#files.cert} ${expiresAtMs > nowMs ? 'is not valid yet' : 'has expired'}.`, digest };
  }

  /** @returns whether this version needs no further check */
  #take(found: Certificate | Refused, { onLoaded, onRefused }: CertificateEvents): boolean {
    const read = 'why' in found ? found : this.#unlessDated(found);
    const { digest } = read;
    if ('why' in read) {
      // Two files are never replaced at the same instant, so a version is refused only if the next check still finds it
      // unusable.
      const isSettled = this.#doubted === digest;
      this.#doubted = digest;
      if (isSettled && this.#refused !== digest) {
        this.#refused = digest;
        onRefused(read.why);
      }
      return isSettled;
    }
    this.#refused = '';
    this.#doubted = '';
    if (digest !== this.#current.digest) {
      this.#current = read;
      for (const use of this.#users) use(read);
      onLoaded(read);
    }
    return true;
  }
}

/** A text that changes when any of the files changes or is replaced by another file. */
async function signatureOf({ cert, key, clientCa }: CertificateFiles): Promise<string> {
  const stampOf = async (file: string | null) => {
    if (file === null) return '';
    try {
      const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true });
      return [dev, ino, size, mtimeNs, ctimeNs].join();
    } catch (error) {
      return codeOf(error);
    }
  };
  return (await Promise.all([cert, key, clientCa].map(stampOf))).join(';');
}

async function readCertificate(files: CertificateFiles): Promise<Certificate | Refused> {
  const contents: (Buffer | null)[] = [];
  for (const file of [files.cert, files.key, files.clientCa]) {
    const content = file === null ? null : await contentOf(file);
    if (typeof content === 'string') return { why: content, digest: content };
    contents.push(content);
  }
  const [cert, key, clientCa] = contents as [Buffer, Buffer, Buffer | null];
  return checkedCertificate(files, { cert, key, clientCa });
}

/**
 * Reads PEM contents, and checks that they belong together and can be used for TLS.
 * @param names what the contents are called in a message: the files
 */
export function checkedCertificate(
  names: CertificateFiles,
  { cert, key, clientCa }: Pick<Certificate, 'cert' | 'key' | 'clientCa'>,
): Certificate | Refused {
  const hash = createHash('sha256');
  for (const content of [cert, key, clientCa]) hash.update(`${content?.length}:`).update(content ?? '');
  const digest = hash.digest('hex');
  const leaf = check(names, { cert, key, clientCa });
  return typeof leaf === 'string'
    ? { why: leaf, digest }
    : {
        cert,
        key,
        clientCa,
        digest,
        validFromMs: leaf.validFromDate.getTime(),
        expiresAtMs: leaf.validToDate.getTime(),
      };
}

/**
 * Reads the authorities of client certificates.
 * @returns a message about the fault as a string
 */
export async function readClientCa(file: string): Promise<Buffer | string> {
  const content = await contentOf(file);
  if (typeof content === 'string' || certificatesIn(content) !== null) return content;
  return `${file} has no certificate in PEM form, or a broken one.`;
}

async function contentOf(file: string): Promise<Buffer | string> {
  try {
    if ((await stat(file)).size > MAX_BYTES) return `${file} is larger than 1 MiB, so it is no certificate or key.`;
    return await readFile(file);
  } catch (error) {
    return `${file} cannot be read (${codeOf(error)}); name a file in PEM form that this user may read.`;
  }
}

/**
 * @returns the certificate that the server presents, or a message about the fault that quotes nothing from the files
 */
function check(files: CertificateFiles, { cert, key, clientCa }: Pick<Certificate, 'cert' | 'key' | 'clientCa'>) {
  const chain = certificatesIn(cert);
  if (chain === null) return `${files.cert} has no certificate in PEM form, or a broken one.`;
  if (clientCa !== null && certificatesIn(clientCa) === null) {
    return `${files.clientCa} has no certificate in PEM form, or a broken one.`;
  }
  const [leaf] = chain as [X509Certificate];
  const privateKey = attempt(() => createPrivateKey(key));
  if (privateKey === null) return `${files.key} has no private key in PEM form without a passphrase.`;
  if (!leaf.checkPrivateKey(privateKey)) {
    return `${files.key} is not the key of the certificate in ${files.cert}; both must belong together.`;
  }
  const context = attempt(() => createSecureContext({ cert, key, ...(clientCa === null ? {} : { ca: clientCa }) }));
  return context === null ? `${files.cert} and ${files.key} cannot be used for TLS: the key may be too short.` : leaf;
}

function certificatesIn(pem: Buffer): X509Certificate[] | null {
  const blocks = certificateBlocks(pem.toString('latin1'));
  return blocks.length === 0 ? null : attempt(() => blocks.map((block) => new X509Certificate(block)));
}

function attempt<T>(action: () => T): T | null {
  try {
    return action();
  } catch {
    return null;
  }
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown';
}

export interface TlsSettings {
  readonly minVersion: 'TLSv1.2' | 'TLSv1.3';
  /** `optional`: a client need not present a certificate, but one that it presents must be valid. */
  readonly clientCertificate: 'none' | 'optional' | 'required';
}

interface TlsStageOptions extends TlsSettings {
  readonly certificates: CertificateSource;
  /** For other hosts, which clients name in the handshake (SNI). */
  readonly further?: readonly CertificateSource[];
  readonly handshakeTimeoutMs: number;
  /** Whether `h2` is offered. */
  readonly http2: boolean;
  /** The handshake is done. `raw` is the TCP connection under `socket`. */
  readonly onSecure: (socket: TLSSocket, raw: Socket) => void;
  readonly onFailure: () => void;
  /** A connection was closed because its records brought nothing. */
  readonly onWaste: (raw: Socket) => void;
  /** Writes the response to a client that has sent plain HTTP. The connection is closed after it. */
  readonly answerPlainHttp: (raw: Socket) => void;
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

/** Longer than any handshake may take. The deadline is the stage's own, because a stall of this thread counts in Node's. */
const NEVER_MS = 2 ** 30;

/**
 * Creates the stage that does the TLS handshake of connections that were accepted elsewhere. It is a server that never
 * listens: it gets connections through `emit('connection')` and passes them on through `onSecure`.
 *
 * Attack: with renegotiation a client could make the server pay for a handshake as often as it likes, so renegotiation
 * is off. A handshake that misses its deadline is cut off; until then it counts towards `maxConnections` like any other
 * connection.
 */
export function createTlsStage(options: TlsStageOptions): {
  /** @param payer who pays for the handshake; left out: its cost is not bounded */
  readonly take: (raw: Socket, payer?: HandshakePayer) => void;
  readonly use: (certificate: Certificate) => void;
} {
  const requestsCertificate = options.clientCertificate !== 'none';
  const names = namesOf(options);
  const server: Server = createServer({
    ...contextOptions(options.certificates.current, options),
    ...(names === null ? {} : { SNICallback: names.choose }),
    requestCert: requestsCertificate,
    rejectUnauthorized: options.clientCertificate === 'required',
    // curl and PHP offer `http/1.0` alone for a request of that version.
    ALPNProtocols: [...(options.http2 ? ['h2'] : []), 'http/1.1', 'http/1.0'],
    handshakeTimeout: NEVER_MS,
  });
  const deadlines = new ReplyDeadlines();
  const handshakes = new WeakMap<TlsCarrier, ReplyDeadline>();
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
    options.onFailure();
    const raw = rawOf(socket);
    // OpenSSL knows GET, HEAD, POST and PUT by their first bytes.
    if (error.code === 'ERR_SSL_HTTP_REQUEST' && raw !== socket && raw.writable) options.answerPlainHttp(raw);
    socket.destroy();
  });
  server.on('secureConnection', (socket) => {
    const carrier = carriedBy(socket);
    if (!(carrier instanceof TlsCarrier) || (requestsCertificate && !isAcceptable(socket))) {
      options.onFailure();
      socket.destroy();
      return;
    }
    carrier.secure(socket);
    handshakes.get(carrier)?.cancel();
    const { raw } = carrier;
    const { remoteAddress: address = '', remotePort: port = 0 } = raw;
    comesFrom(socket, { address, port });
    // Node.js has false where the client has named no host.
    if (names !== null) isFor(socket, names.servedTo(socket.servername || null));
    options.onSecure(socket, raw);
  });
  return {
    take: (raw, payer = NO_PAYER) => {
      const carrier = new TlsCarrier(raw, options.onWaste, payer);
      const late = deadlines.set(() => raw.destroy(), options.handshakeTimeoutMs);
      handshakes.set(carrier, late);
      raw.once('close', () => late.cancel());
      server.emit('connection', carrier);
    },
    use: (certificate) => server.setSecureContext(contextOptions(certificate, options)),
  };
}

/** Chooses among several certificates by the name in the handshake; null if there is one. */
function namesOf(options: TlsStageOptions) {
  const { certificates, further = [] } = options;
  if (further.length === 0) return null;
  const names = new ServerNames([certificates, ...further]);
  const contexts = further.map(({ current }) => createSecureContext(contextOptions(current, options)));
  for (const [i, source] of further.entries()) {
    source.onChange((certificate) => {
      contexts[i] = createSecureContext(contextOptions(certificate, options));
    });
  }
  return {
    /** Without a context, Node.js uses that of `certificates`. */
    choose: (name: string, done: (error: null, context?: SecureContext) => void) => {
      const place = names.placeOf(name) ?? 0;
      done(null, place === 0 ? undefined : contexts[place - 1]);
    },
    servedTo: (name: string | null) => names.servedTo(name),
  };
}

function contextOptions(certificate: Certificate | null, { minVersion }: TlsSettings): SecureContextOptions {
  const { cert, key, clientCa } = certificate ?? { clientCa: null };
  return {
    ...(certificate === null ? {} : { cert, key }),
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
