import { readFile } from 'node:fs/promises';
import { createServer, Socket } from 'node:net';
import { connect } from 'node:tls';
import { expect, test } from 'vitest';
import { type HandshakePayer, NO_PAYER } from '../../src/io/tls-carrier.ts';
import { HANDSHAKES_PER_SECOND, HandshakeTurns } from '../../src/listen/handshake-turns.ts';
import { type CertificateSource, createTlsStage } from '../../src/listen/tls.ts';
import { eventually } from '../support/conditions.ts';
import { newAuthority } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';
import { listen } from '../support/listening.ts';

function turns() {
  const clock = { ms: 1_000 };
  const begun: Socket[] = [];
  const payers: HandshakePayer[] = [];
  let failed = 0;
  const made = new HandshakeTurns({
    timeoutMs: 5_000,
    begin: (socket, payer = NO_PAYER) => {
      begun.push(socket);
      payers.push(payer);
    },
    onFailure: () => {
      failed++;
    },
    nowMs: () => clock.ms,
  });
  const arrive = (count: number, address: string | null) =>
    Array.from({ length: count }, () => {
      const socket = new Socket();
      made.take(socket, address);
      return socket;
    });
  const pass = (ms: number) => {
    clock.ms += ms;
    made.look();
  };
  return { begun, payers, arrive, pass, failed: () => failed };
}

test('one address begins a number of handshakes a second, the oldest first, and another one does not wait (reliability 224)', () => {
  const { begun, arrive, pass } = turns();
  const flood = arrive(250, '192.0.2.1');
  expect(begun).toEqual(flood.slice(0, HANDSHAKES_PER_SECOND));
  const [other] = arrive(1, '192.0.2.2');
  expect(begun.at(-1)).toBe(other);
  pass(1_000);
  expect(begun.length).toBe(2 * HANDSHAKES_PER_SECOND + 1);
  pass(1_000);
  expect(begun.filter((socket) => socket !== other)).toEqual(flood);
});

test('a connection that waits too long is closed and counted, and one that is closed no longer waits', async () => {
  const { begun, arrive, pass, failed } = turns();
  const flood = arrive(HANDSHAKES_PER_SECOND + 800, '192.0.2.1');
  flood[HANDSHAKES_PER_SECOND]!.destroy();
  await new Promise(setImmediate);
  pass(5_000);
  expect(begun.length).toBe(HANDSHAKES_PER_SECOND);
  expect(failed()).toBe(799);
  expect(flood.at(-1)!.destroyed).toBe(true);
});

test('a trusted proxy, which connects for many clients, has no bound', () => {
  const { begun, arrive } = turns();
  arrive(500, null);
  expect(begun.length).toBe(500);
});

// Attack: a chain of client certificates with long exponents costs up to 25 ms, and an address had 100 handshakes a second.
test('a handshake that takes long counts as several, and beyond a second of them those under way end (reliability 415)', () => {
  const { begun, payers, arrive, pass } = turns();
  arrive(HANDSHAKES_PER_SECOND / 2, '192.0.2.1');
  arrive(1, '192.0.2.2');
  const [payer, other] = [payers[0]!, payers.at(-1)!];
  // As most are.
  for (let i = 0; i < 1_000; i++) payer.pay(1.5);
  for (let i = 0; i < 5; i++) payer.pay(42);
  expect(payer.isBroke).toBe(false);
  arrive(10, '192.0.2.1');
  pass(490);
  expect(begun).toHaveLength(HANDSHAKES_PER_SECOND / 2 + 1);
  pass(20);
  expect(begun).toHaveLength(HANDSHAKES_PER_SECOND / 2 + 2);
  for (let i = 0; i < 6; i++) payer.pay(42);
  expect([payer.isBroke, other.isBroke]).toEqual([true, false]);
  pass(200);
  expect(payer.isBroke).toBe(false);
});

test('each handshake is charged for its time, and ends if its payer has none left (reliability 415)', async () => {
  const authority = await newAuthority();
  const files = await authority.issue('localhost');
  const [cert, key] = await Promise.all([readFile(files.cert, 'utf8'), readFile(files.key, 'utf8')]);
  let secured = 0;
  let paidMs = 0;
  let isBroke = false;
  const stage = createTlsStage({
    ...{ minVersion: 'TLSv1.2', clientCertificate: 'none', handshakeTimeoutMs: 60_000, http2: false },
    certificates: { current: { cert, key, clientCa: null }, onChange: () => {} } as unknown as CertificateSource,
    ...{ onFailure: () => {}, onWaste: () => {}, answerPlainHttp: () => {} },
    onSecure: (socket) => {
      secured++;
      socket.on('error', () => {}).resume();
      atEnd(() => socket.destroy());
    },
  });
  const payer: HandshakePayer = {
    get isBroke() {
      return isBroke;
    },
    pay: (ms) => {
      paidMs += ms;
    },
  };
  const { port } = await listen(
    createServer((raw) =>
      stage.take(
        raw.on('error', () => {}),
        payer,
      ),
    ),
  );
  const open = () => {
    const client = connect({ port, host: '127.0.0.1', ca: authority.pem, servername: 'localhost' }).on(
      'error',
      () => {},
    );
    atEnd(() => client.destroy());
    return client;
  };
  // Some systems count the time of the processor in steps of milliseconds.
  while (paidMs === 0) {
    const before = secured;
    open();
    await eventually(() => expect(secured).toBe(before + 1));
  }
  isBroke = true;
  const [before, refused] = [secured, open()];
  await eventually(() => expect(refused.closed).toBe(true));
  expect(secured).toBe(before);
});
