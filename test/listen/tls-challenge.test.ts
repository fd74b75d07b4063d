import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createConnection, createServer, type Socket } from 'node:net';
import { type ConnectionOptions, connect } from 'node:tls';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { readClientHello } from '../../src/listen/client-hello.ts';
import { answerTlsChallenges, type ChallengeCertificate } from '../../src/listen/tls-challenge.ts';
import { newAuthority } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';
import { listen } from '../support/listening.ts';

const DOMAIN = 'api.example.com';
let proof: ChallengeCertificate;

beforeAll(async () => {
  const { cert, key } = await (await newAuthority()).issue('proof');
  proof = { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') };
});

/** A port with the stage alone. What the stage passes on is kept, with the bytes that it still has, and is answered with `passed`. */
async function startStage(handshakeTimeoutMs = 5_000) {
  const passed: Buffer[] = [];
  const failures = { count: 0 };
  const take = answerTlsChallenges({
    certificateFor: async (domain) => (domain === DOMAIN ? proof : null),
    handshakeTimeoutMs,
    pass: (socket) => {
      socket.once('data', (bytes: Buffer) => {
        passed.push(bytes);
        socket.end('passed');
      });
    },
    onFailure: () => {
      failures.count++;
    },
  });
  const server = createServer((socket: Socket) => {
    socket.on('error', () => socket.destroy());
    take(socket);
  });
  const { port } = await listen(server);
  return { port, passed, failures };
}

/** @returns the common name and the protocol of a completed handshake; null if it failed */
async function shake(port: number, options: ConnectionOptions): Promise<string | null> {
  const socket = connect({ host: '127.0.0.1', port, servername: DOMAIN, rejectUnauthorized: false, ...options });
  atEnd(() => socket.destroy());
  return new Promise((resolve) => {
    socket.on('error', () => resolve(null));
    socket.once('secureConnect', async () => {
      const { subject } = socket.getPeerCertificate();
      socket.resume();
      // The gateway ends the connection by itself.
      await once(socket, 'close');
      resolve(`${subject.CN} ${socket.alpnProtocol}`);
    });
  });
}

test.each(['TLSv1.2', 'TLSv1.3'] as const)(
  '%s: an authority gets the certificate of the challenge, and the connection is closed (reliability 187)',
  async (version) => {
    const { port, passed } = await startStage();
    const versions = { minVersion: version, maxVersion: version };
    expect(await shake(port, { ALPNProtocols: ['acme-tls/1'], ...versions })).toBe('proof acme-tls/1');
    expect(await shake(port, { ALPNProtocols: ['acme-tls/1'], servername: 'API.Example.com', ...versions })).not.toBe(
      null,
    );
    expect(passed).toEqual([]);
  },
);

test.each<[string, ConnectionOptions]>([
  ['offers HTTP', { ALPNProtocols: ['h2', 'http/1.1'] }],
  ['offers nothing', {}],
  ['offers acme-tls/1 and more', { ALPNProtocols: ['acme-tls/1', 'http/1.1'] }],
  ['asks for a domain without an order', { ALPNProtocols: ['acme-tls/1'], servername: 'www.example.com' }],
  ['sends no server name', { ALPNProtocols: ['acme-tls/1'], servername: '' }],
])(
  'a client that %s never sees that certificate, and all its bytes are passed on (reliability 187)',
  async (_, options) => {
    const { port, passed } = await startStage();
    expect(await shake(port, options)).toBe(null);
    expect(passed).toHaveLength(1);
    expect(readClientHello(passed[0]!).kind).toBe('hello');
  },
);

test('a client that sends a ClientHello byte by byte, or none in time, is served or cut off (reliability 187)', async () => {
  const { port, passed, failures } = await startStage(300);
  const silent = createConnection({ host: '127.0.0.1', port });
  atEnd(() => silent.destroy());
  silent.resume();
  await once(silent, 'close');
  expect(failures.count).toBe(1);
  const slow = createConnection({ host: '127.0.0.1', port, noDelay: true });
  atEnd(() => slow.destroy());
  const bytes = hello();
  for (const byte of bytes) slow.write(Buffer.from([byte]));
  await once(slow, 'data');
  expect(passed).toEqual([bytes]);
});

/** A small ClientHello for the domain, which offers `h2`. */
function hello(): Buffer {
  const vector = (lengthBytes: number, ...parts: Buffer[]) => {
    const content = Buffer.concat(parts);
    const length = Buffer.alloc(lengthBytes);
    length.writeUIntBE(content.length, 0, lengthBytes);
    return Buffer.concat([length, content]);
  };
  const extension = (type: number, content: Buffer) => Buffer.concat([Buffer.from([0, type]), vector(2, content)]);
  const name = extension(0, vector(2, Buffer.from([0]), vector(2, Buffer.from(DOMAIN))));
  const alpn = extension(16, vector(2, vector(1, Buffer.from('h2'))));
  const suites = vector(2, Buffer.from([0x13, 0x01]));
  const body = Buffer.concat([
    Buffer.from([3, 3]),
    Buffer.alloc(32),
    vector(1),
    suites,
    vector(1, Buffer.from([0])),
    vector(2, name, alpn),
  ]);
  return Buffer.concat([Buffer.from([22, 3, 1]), vector(2, Buffer.from([1]), vector(3, body))]);
}

test('a ClientHello is read whole, in pieces, and over several records', () => {
  const whole = hello();
  const expected = { kind: 'hello', serverName: DOMAIN, protocols: ['h2'] };
  expect(readClientHello(whole)).toEqual(expected);
  for (let end = 0; end < whole.length; end++) expect(readClientHello(whole.subarray(0, end)).kind).toBe('partial');
  const content = whole.subarray(5);
  const record = (bytes: Buffer) =>
    Buffer.concat([Buffer.from([22, 3, 1, bytes.length >> 8, bytes.length & 255]), bytes]);
  for (let at = 1; at < content.length; at++) {
    expect(readClientHello(Buffer.concat([record(content.subarray(0, at)), record(content.subarray(at))]))).toEqual(
      expected,
    );
  }
});

test('a ClientHello in more than 16 records is not joined, but left to the TLS stack (reliability 197)', () => {
  const content = hello().subarray(5);
  const inRecords = (records: number) => {
    const size = Math.ceil(content.length / records);
    const pieces = Array.from({ length: records }, (_, i) => content.subarray(i * size, (i + 1) * size));
    const record = (piece: Buffer) => Buffer.concat([Buffer.from([22, 3, 1, 0, piece.length]), piece]);
    return Buffer.concat(pieces.filter(({ length }) => length > 0).map(record));
  };
  expect(readClientHello(inRecords(15)).kind).toBe('hello');
  const single = inRecords(content.length);
  expect(readClientHello(single).kind).toBe('other');
  // Decided as soon as 16 records are there, so the rest is not read again with each packet.
  expect(readClientHello(single.subarray(0, 16 * 6 - 1)).kind).toBe('partial');
  expect(readClientHello(single.subarray(0, 16 * 6)).kind).toBe('other');
});

test('whatever bytes come, reading ends without an exception, and within 16 KiB (reliability 187)', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(hello().length - 1), fc.nat(255), (noise, at, value) => {
      expect(['partial', 'other', 'hello']).toContain(readClientHello(Buffer.from(noise)).kind);
      const altered = hello();
      altered[at] = value;
      expect(['partial', 'other', 'hello']).toContain(readClientHello(Buffer.concat([altered, noise])).kind);
    }),
  );
  const endless = Buffer.alloc(20_000, Buffer.from([22, 3, 1, 0, 1, 1]));
  expect(readClientHello(endless).kind).toBe('other');
  expect(readClientHello(Buffer.from('GET / HTTP/1.1\r\n\r\n')).kind).toBe('other');
});
