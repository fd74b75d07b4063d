import { readFile } from 'node:fs/promises';
import { createConnection, type Socket } from 'node:net';
import { connect } from 'node:tls';
import { describe, expect, test } from 'vitest';
import type { ClientRequest, ClientResponse } from '../../src/http1/client.ts';
import type { CertificateSource } from '../../src/listen/tls.ts';
import { busyFor } from '../support/busy-for.ts';
import { eventually } from '../support/conditions.ts';
import { newAuthority } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';
import { openListener, READING } from '../support/listener.ts';

const VICTIMS = 10;
/** Larger than what is processed as it arrives. */
const LARGE = 20_000;
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const POST = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${LARGE}\r\n\r\n${'x'.repeat(LARGE)}`;

const turn = () => new Promise(setImmediate);

/** A listener that is busy with uploads of its clients, and kept connections of the same address that have had one response. */
async function busyListener(isEncrypted: boolean, more: Parameters<typeof openListener>[0] = {}) {
  const authority = await newAuthority();
  const files = await authority.issue('localhost');
  const [cert, key] = await Promise.all([readFile(files.cert, 'utf8'), readFile(files.key, 'utf8')]);
  const certificates = { current: { cert, key, clientCa: null }, onChange: () => {} } as unknown as CertificateSource;
  const tls = {
    minVersion: 'TLSv1.2',
    clientCertificate: 'none',
    certificates,
    challengeCertificateFor: null,
  } as const;
  let pieces = 0;
  const { listener } = await openListener({
    tls: isEncrypted ? tls : null,
    maxConnections: 100,
    maxConnectionsPerAddress: 100,
    handler: {
      ...READING,
      mayUpgrade: () => false,
      read: (_, work) => {
        pieces++;
        // More than the large pieces of a turn may take.
        busyFor(1);
        work();
        return true;
      },
      handle: (request: ClientRequest, response: ClientResponse) => {
        if (request.url === '/flood') (request as unknown as Socket).resume();
        else {
          response.writeHead(200, ['Content-Length', '2']);
          response.end('{}');
        }
      },
    },
    ...more,
  });
  const open = () => {
    const client = isEncrypted
      ? connect({ port: listener.port, host: '127.0.0.1', ca: authority.pem, servername: 'localhost' })
      : createConnection(listener.port, '127.0.0.1');
    const own = { client, text: '' };
    client.on('error', () => {});
    client.on('data', (bytes: Buffer) => {
      own.text += bytes.toString('latin1');
    });
    atEnd(() => client.destroy());
    return own;
  };
  const answers = ({ text }: { readonly text: string }) => text.split('HTTP/1.1 200').length - 1;
  const victims = Array.from({ length: VICTIMS }, open);
  for (const { client } of victims) client.write(GET);
  await eventually(() => expect(victims.map(answers)).toEqual(victims.map(() => 1)));
  for (let i = 0; i < 20; i++) {
    const { client } = open();
    client.write('POST /flood HTTP/1.1\r\nHost: a\r\nContent-Length: 400000000\r\n\r\n');
    const flood = () => {
      while (client.writable && client.write(Buffer.alloc(256 * 1024)));
    };
    client.on('drain', flood);
    flood();
  }
  await eventually(() => expect(pieces).toBeGreaterThan(50));
  return { listener, victims, answers, open };
}

// Fault: the gateway had read the request of a kept connection, and it waited for its turn. The connection looked idle.
describe.each([
  ['plain', false],
  ['over TLS', true],
])('a connection whose request waits for its turn, %s', (_, isEncrypted) => {
  test('is served when the gateway drains (reliability 315)', async () => {
    const { listener, victims, answers } = await busyListener(isEncrypted);
    for (const { client } of victims) client.write(POST);
    // What they have sent is read, and most of it is not processed.
    for (let i = 0; i < 3; i++) await turn();
    expect(victims.map(answers)).toContain(1);
    listener.stopAccepting();
    await eventually(() => expect(victims.map(answers)).toEqual(victims.map(() => 2)));
    await listener.drained(0);
  });

  test('makes no room for another connection (reliability 315)', async () => {
    const evicted: string[] = [];
    const { listener, victims, answers, open } = await busyListener(isEncrypted, {
      maxConnections: VICTIMS + 20,
      onDrop: () => {},
      onEvict: (shortage) => evicted.push(shortage),
    });
    for (const { client } of victims) client.write(POST);
    for (let i = 0; i < 3; i++) await turn();
    for (let i = 0; i < VICTIMS; i++) open();
    await eventually(() => expect(victims.map(answers)).toEqual(victims.map(() => 2)));
    listener.stopAccepting();
    await listener.drained(0);
  });
});
