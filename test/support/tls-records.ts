import { createCipheriv, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect } from 'node:tls';
import { atEnd } from './endings.ts';

const APPLICATION_DATA = 23;
const HANDSHAKE = 22;
/** KeyUpdate (RFC 8446 section 4.6.3) that asks for none in return. */
const KEY_UPDATE = Buffer.from([24, 0, 0, 1, 0]);

/** Writes records of TLS 1.3 that no TLS library writes: of one byte each, or KeyUpdates without end. */
export class RecordWriter {
  readonly socket: Socket;
  #secret: Buffer;
  #key!: Buffer;
  #iv!: Buffer;
  #sequence = 0;

  private constructor(socket: Socket, secret: Buffer) {
    this.socket = socket;
    this.#secret = secret;
    this.#derive();
  }

  /** Connects and does the handshake. */
  static async open(port: number, ca: string): Promise<RecordWriter> {
    const socket = connectTcp(port, '127.0.0.1');
    socket.on('error', () => {});
    atEnd(() => socket.destroy());
    const secure = connect({
      socket,
      ca,
      servername: 'localhost',
      minVersion: 'TLSv1.3',
      ciphers: 'TLS_AES_128_GCM_SHA256',
      ALPNProtocols: ['http/1.1'],
    });
    secure.on('error', () => {});
    let secret = '';
    secure.on('keylog', (line: Buffer) => {
      secret = /^CLIENT_TRAFFIC_SECRET_0 \S+ (\S+)/m.exec(line.toString())?.[1] ?? secret;
    });
    await once(secure, 'secureConnect');
    // The client's Finished is written once this event has passed.
    await new Promise(setImmediate);
    secure.resume();
    return new RecordWriter(socket, Buffer.from(secret, 'hex'));
  }

  /** A record with the text. */
  data(text: string): Buffer {
    return this.#record(Buffer.from(text), APPLICATION_DATA);
  }

  keyUpdate(): Buffer {
    const record = this.#record(KEY_UPDATE, HANDSHAKE);
    this.#secret = this.#expand('traffic upd', 32);
    this.#derive();
    return record;
  }

  #derive(): void {
    this.#key = this.#expand('key', 16);
    this.#iv = this.#expand('iv', 12);
    this.#sequence = 0;
  }

  /** HKDF-Expand-Label (RFC 8446 section 7.1): the one block of HKDF that follows from the secret. */
  #expand(label: string, length: number): Buffer {
    const name = `tls13 ${label}`;
    const info = Buffer.concat([Buffer.from([0, length, name.length]), Buffer.from(name), Buffer.from([0])]);
    return createHmac('sha256', this.#secret)
      .update(info)
      .update(Buffer.from([1]))
      .digest()
      .subarray(0, length);
  }

  #record(content: Buffer, type: number): Buffer {
    const nonce = Buffer.from(this.#iv);
    nonce.writeUInt32BE((nonce.readUInt32BE(8) ^ this.#sequence++) >>> 0, 8);
    const length = content.length + 1 + 16;
    const head = Buffer.from([APPLICATION_DATA, 3, 3, length >> 8, length & 255]);
    const cipher = createCipheriv('aes-128-gcm', this.#key, nonce).setAAD(head);
    const sealed = cipher.update(Buffer.concat([content, Buffer.from([type])]));
    return Buffer.concat([head, sealed, cipher.final(), cipher.getAuthTag()]);
  }
}
