// The public port has to know what a TLS connection asks for before the TLS stack takes it: whether it is a certificate
// authority that proves a domain (tls-challenge.ts), which offers `acme-tls/1` and nothing else.

/** What the start of a TLS connection says (RFC 8446 section 4.1.2), as far as the bytes go. */
type Opening =
  /** More bytes are needed. */
  | { readonly kind: 'partial' }
  /** No ClientHello, or one of an unusual form: the TLS stack decides about it. */
  | { readonly kind: 'other' }
  | {
      readonly kind: 'hello';
      /** The server name (RFC 6066), in lower case; null if the client sends none. */
      readonly serverName: string | null;
      /** What the client offers by ALPN (RFC 7301), in its order. */
      readonly protocols: readonly string[];
    };

const PARTIAL: Opening = { kind: 'partial' };
const OTHER: Opening = { kind: 'other' };

const RECORD_HEADER_BYTES = 5;
const HANDSHAKE = 22;
const CLIENT_HELLO = 1;
/** A longer ClientHello is left to the TLS stack. Those with post-quantum key shares have 2 KiB. */
const MAX_BYTES = 16 * 1024;
/** One of more records is left to the TLS stack. Clients send one, or two where it is longer than a record. */
const MAX_RECORDS = 16;
const SERVER_NAME = 0;
const ALPN = 16;

/**
 * Reads the server name and the protocols of a ClientHello without consuming it.
 *
 * Attack: lengths that point beyond their parent, or endless records. Every length is checked against its parent, and 16 KiB is
 * the most that is looked at.
 *
 * Attack: records of one byte, each in a packet of its own. The bytes are read again with each packet, and joining thousands of
 * records took a quarter of a second each time. So 16 records are the most, and they are joined once.
 */
export function readClientHello(bytes: Buffer): Opening {
  const message = handshakeIn(bytes);
  if (!Buffer.isBuffer(message)) return message;
  const reader = new Cursor(message);
  // The version and the random, then the session id, the cipher suites and the compression methods.
  reader.skip(2 + 32);
  reader.vector(1);
  reader.vector(2);
  reader.vector(1);
  const extensions = reader.isAtEnd ? new Cursor(Buffer.alloc(0)) : reader.vector(2);
  let serverName: string | null = null;
  let protocols: string[] = [];
  while (!extensions.isAtEnd && !extensions.isBroken) {
    const type = extensions.number(2);
    const content = extensions.vector(2);
    if (type === SERVER_NAME) serverName = serverNameIn(content);
    else if (type === ALPN) protocols = protocolsIn(content);
    if (content.isBroken) return OTHER;
  }
  return reader.isBroken || extensions.isBroken ? OTHER : { kind: 'hello', serverName, protocols };
}

/** The body of the ClientHello, joined from its records. */
function handshakeIn(bytes: Buffer): Buffer | Opening {
  const pieces: Buffer[] = [];
  let held = 0;
  for (let at = 0; ; ) {
    if (at > MAX_BYTES || pieces.length === MAX_RECORDS) return OTHER;
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return OTHER;
    if (bytes.length < at + RECORD_HEADER_BYTES) return PARTIAL;
    const length = bytes.readUInt16BE(at + 3);
    if (bytes[at + 1] !== 3 || length === 0 || length > MAX_BYTES) return OTHER;
    const piece = bytes.subarray(at + RECORD_HEADER_BYTES, at + RECORD_HEADER_BYTES + length);
    if (pieces.length === 0 && piece.length > 0 && piece[0] !== CLIENT_HELLO) return OTHER;
    pieces.push(piece);
    held += piece.length;
    const needed = held >= 4 ? 4 + Buffer.concat(pieces, 4).readUIntBE(1, 3) : Number.POSITIVE_INFINITY;
    if (held >= 4 && needed > MAX_BYTES) return OTHER;
    if (held >= needed) return Buffer.concat(pieces, needed).subarray(4);
    if (piece.length < length) return PARTIAL;
    at += RECORD_HEADER_BYTES + length;
  }
}

function serverNameIn(content: Cursor): string | null {
  const names = content.vector(2);
  while (!names.isAtEnd && !names.isBroken) {
    const type = names.number(1);
    const name = names.vector(2);
    if (type === 0) return name.rest().toString('latin1').toLowerCase();
  }
  return null;
}

function protocolsIn(content: Cursor): string[] {
  const list = content.vector(2);
  const protocols: string[] = [];
  while (!list.isAtEnd && !list.isBroken) protocols.push(list.vector(1).rest().toString('latin1'));
  return protocols;
}

/** Reads numbers and vectors in their order. Beyond the end everything is 0 and empty, and the cursor is broken. */
class Cursor {
  readonly #bytes: Buffer;
  #at = 0;
  isBroken = false;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#bytes.length;
  }

  skip(bytes: number): void {
    this.#take(bytes);
  }

  number(bytes: 1 | 2): number {
    const taken = this.#take(bytes);
    return taken.length === bytes ? taken.readUIntBE(0, bytes) : 0;
  }

  /** A vector, preceded by its length in this number of bytes. */
  vector(lengthBytes: 1 | 2): Cursor {
    return new Cursor(this.#take(this.number(lengthBytes)));
  }

  rest(): Buffer {
    return this.#bytes.subarray(this.#at);
  }

  #take(bytes: number): Buffer {
    if (this.#at + bytes > this.#bytes.length) {
      this.isBroken = true;
      this.#at = this.#bytes.length;
      return Buffer.alloc(0);
    }
    this.#at += bytes;
    return this.#bytes.subarray(this.#at - bytes, this.#at);
  }
}
