import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createConnection, createServer, Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { expect, test, vi } from 'vitest';
import { afterReading } from '../../src/io/after-reading.ts';
import { Buffers } from '../../src/io/buffers.ts';
import { outliveFailedWrites } from '../../src/io/node-internals.ts';
import { Intake, readInTurn, SharedBufferSocket } from '../../src/io/read-buffers.ts';
import { eventually } from '../support/conditions.ts';
import { countTurns } from '../support/count-turns.ts';
import { atEnd } from '../support/endings.ts';
import { listen } from '../support/listening.ts';

/** Accepts connections as the gateway does. */
async function accepting(take: (socket: SharedBufferSocket) => void): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, (accepted) => {
    const socket = SharedBufferSocket.around(accepted) as SharedBufferSocket;
    socket.on('error', () => {});
    atEnd(() => socket.destroy());
    take(socket);
  });
  return (await listen(server)).port;
}

function clients(port: number, count: number): Socket[] {
  return Array.from({ length: count }, () => {
    const socket = createConnection(port, '127.0.0.1');
    socket.on('error', () => {});
    atEnd(() => socket.destroy());
    return socket;
  });
}

function spin(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

// Attack: libuv reads each connection up to 32 times before any timer runs, so 100 uploads of one key made turns of hundreds of
// milliseconds.
test.each([
  ['read past the stream', true],
  ['read as a stream', false],
])(
  'connections that are %s and always readable have a few pieces in a turn, and another owner has its turn (reliability 309)',
  async (_, hasTaker) => {
    const counted = countTurns();
    let [before, waitedFor]: (number | null)[] = [null, null];
    const onPiece = (bytes: Buffer, isOther: boolean) => {
      counted.done();
      if (isOther) waitedFor ??= counted.all - before!;
      // As the least that a piece can cost, whatever this machine is.
      else spin(0.2);
      expect(bytes.length).toBeGreaterThan(0);
    };
    const sockets: SharedBufferSocket[] = [];
    const port = await accepting((socket) => {
      sockets.push(socket);
      const isOther = sockets.length === 33;
      socket.owner = isOther ? 'other' : 'attacker';
      const take = (bytes: Buffer) => onPiece(bytes, isOther);
      if (hasTaker) socket.taker = take;
      socket.on('data', take);
    });
    const many = clients(port, 32);
    await Promise.all(many.map((socket) => once(socket, 'connect')));
    await eventually(() => expect(sockets).toHaveLength(32));
    const block = Buffer.alloc(4 * 1024 * 1024);
    for (const socket of many) socket.write(block);
    await eventually(() => expect(counted.all).toBeGreaterThan(100));
    const [other] = clients(port, 1);
    await once(other!, 'connect');
    before = counted.all;
    other!.write(Buffer.alloc(64 * 1024));
    await eventually(() => expect(waitedFor).not.toBeNull());
    await eventually(() => expect(counted.all).toBeGreaterThan(1_000));
    // Half a millisecond, at 0.2 each: three as they arrive, and three in turn.
    expect(counted.most).toBeLessThanOrEqual(8);
    expect(waitedFor).toBeLessThan(100);
  },
);

test('whatever waits for its turn arrives whole and in order, also if its reader pauses meanwhile (reliability 309)', async () => {
  const hashes: string[] = [];
  const port = await accepting((socket) => {
    const hash = createHash('sha256');
    let pieces = 0;
    socket.on('data', (bytes) => {
      spin(0.1);
      hash.update(bytes);
      if (pieces++ % 5 === 0) {
        socket.pause();
        setImmediate(() => socket.resume());
        if (pieces % 3 === 0) process.nextTick(() => socket.resume());
      }
    });
    socket.on('end', () => {
      hashes.push(hash.digest('hex'));
      socket.end();
    });
  });
  const sent = clients(port, 8).map((socket, i) => {
    const bytes = Buffer.alloc(3_000_000 + i, `${i} abcdefghijklm`);
    for (let at = 0; at < bytes.length; at += 70_001) socket.write(bytes.subarray(at, at + 70_001));
    socket.end();
    return createHash('sha256').update(bytes).digest('hex');
  });
  await eventually(() => expect(hashes).toHaveLength(8));
  expect(hashes.toSorted()).toEqual(sent.toSorted());
});

test('what is held of many connections is continued for a quarter of a millisecond in each turn, and of each owner in turn (reliability 347)', async () => {
  const counted = countTurns();
  const order: string[] = [];
  const sockets: Socket[] = [];
  const port = await accepting((socket) => {
    socket.owner = sockets.length < 50 ? 'attacker' : 'other';
    sockets.push(socket);
  });
  clients(port, 51);
  await eventually(() => expect(sockets).toHaveLength(51));
  for (const [i, socket] of sockets.entries()) {
    readInTurn(socket, () => {
      order.push(i < 50 ? 'attacker' : 'other');
      counted.done();
      spin(0.2);
    });
  }
  expect(counted.all).toBe(0);
  await eventually(() => expect(counted.all).toBe(51));
  expect(counted.most).toBeLessThanOrEqual(3);
  expect(order.indexOf('other')).toBe(1);
});

// Fault: after a failed write, a stream drops what it gets until Node has reported that. The connection was not read on, so that nothing
// showed that its client had left.
test('a piece that waits is not lost if a write to its connection fails in the same turn (reliability 414)', async () => {
  let received = 0;
  const accepted = Promise.withResolvers<SharedBufferSocket>();
  const port = await accepting((socket) => {
    outliveFailedWrites(socket, () => true);
    socket.on('data', (bytes) => {
      received += bytes.length;
    });
    accepted.resolve(socket);
  });
  const client = createConnection({ port, host: '127.0.0.1' }).pause();
  const socket = await accepted.promise;
  // With this unread, the client's system resets the connection when the client closes it.
  await new Promise((written) => socket.write('unread', written));
  const leave = () => {
    if (!socket.hasWaiting) {
      afterReading(leave);
      return;
    }
    // What waits keeps its order, so the write is done right before the piece; and in the same turn, because little time passes.
    let nowMs = performance.now();
    vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 0.001));
    client.destroy();
  };
  afterReading(leave);
  atEnd(() => vi.restoreAllMocks());
  const other = new Socket();
  const fail = () => (client.destroyed ? socket.write('fails') : readInTurn(other, fail));
  readInTurn(other, fail);
  client.write(Buffer.alloc(8 * 1024));
  while (!client.destroyed || socket.hasWaiting) await new Promise(setImmediate);
  expect(received).toBe(8 * 1024);
});

test('the end of a connection is not lost if a write to it fails at the same moment (reliability 438)', async () => {
  const fault = Object.assign(new Error('write EPIPE'), { syscall: 'write' });
  const socket = new Duplex({ read: () => {}, write: (_bytes, _encoding, done) => done(fault) });
  outliveFailedWrites(socket as Socket, () => true);
  socket.resume();
  await new Promise(setImmediate);
  socket.push(null);
  socket.write('fails');
  await once(socket, 'end');
});

test('a connection is read 8 KiB at first, and all of the buffer while it has more (reliability 348)', async () => {
  const pieces: number[] = [];
  const port = await accepting((socket) => {
    socket.taker = (bytes) => pieces.push(bytes.length);
  });
  const [client] = clients(port, 1);
  // All of it has arrived before the connection is read.
  client!.write(Buffer.alloc(300_000));
  await eventually(() => expect(pieces.reduce((sum, bytes) => sum + bytes, 0)).toBe(300_000));
  expect(pieces[0]).toBeLessThanOrEqual(8 * 1024);
  expect(Math.max(...pieces)).toBeGreaterThan(8 * 1024);
  client!.write('small');
  await eventually(() => expect(pieces.at(-1)).toBe(5));
  const before = pieces.length;
  client!.write(Buffer.alloc(100_000));
  await eventually(() => expect(pieces.slice(before).reduce((sum, bytes) => sum + bytes, 0)).toBe(100_000));
  expect(pieces[before]).toBeLessThanOrEqual(8 * 1024);
});

// Attack: clients withhold the last byte of a request head or of a ClientHello, and send all of these bytes at the same moment.
test.each([
  ['parts of handshakes', Number.POSITIVE_INFINITY, 3],
  ['ends of requests', 1, 128 + 50],
])(
  '%s that arrive together on 300 connections are processed in several turns (reliability 372)',
  async (_, weight, bound) => {
    const counted = countTurns();
    const sockets: Socket[] = [];
    const port = await accepting((socket) => {
      sockets.push(socket);
      socket.weight = weight;
      socket.taker = () => {
        spin(weight === 1 ? 0.01 : 0.3);
        counted.done();
      };
    });
    const many = clients(port, 300);
    await eventually(() => expect(sockets).toHaveLength(300));
    for (const socket of many) socket.write('x');
    await eventually(() => expect(counted.all).toBe(300));
    expect(counted.most).toBeLessThanOrEqual(bound);
  },
);

// Attack: a client resets 1,400 uploads at the same moment, or closes them, which took a turn of 80 ms.
test.each([
  ['closes', 'end', 1, 8],
  ['resets', 'close', 1, 8],
  ['closes and that are encrypted', 'end', 8, 1],
  ['resets during their handshakes', 'close', Number.POSITIVE_INFINITY, 1],
] as const)(
  'connections that a client %s at the same moment are ended in turns, and each of them (reliability 385)',
  async (_, event, weight, bound) => {
    const counted = countTurns();
    const sockets: SharedBufferSocket[] = [];
    const order: string[] = [];
    const port = await accepting((socket) => {
      const owner = sockets.length < 100 ? 'attacker' : 'other';
      sockets.push(socket);
      socket.owner = owner;
      socket.weight = weight;
      socket.resume();
      socket.once(event, () => {
        counted.done();
        order.push(owner);
      });
    });
    const many = clients(port, 101);
    await eventually(() => expect(sockets).toHaveLength(101));
    for (const socket of many) {
      if (event === 'end') socket.end();
      else socket.resetAndDestroy();
    }
    await eventually(() => expect(counted.all).toBe(101));
    expect(counted.most).toBeLessThanOrEqual(bound);
    expect(order.indexOf('other')).toBeLessThanOrEqual(20);
  },
);

test('a connection whose end waits for its turn is not read, and one that is destroyed meanwhile emits no end (reliability 385)', async () => {
  const sockets: SharedBufferSocket[] = [];
  const events: string[] = [];
  const port = await accepting((socket) => {
    sockets.push(socket);
    socket.weight = Number.POSITIVE_INFINITY;
    socket.on('end', () => events.push('end'));
    socket.once('close', () => events.push('close'));
    socket.resume();
  });
  const many = clients(port, 50);
  await eventually(() => expect(sockets).toHaveLength(50));
  for (const socket of many) socket.end();
  await once(sockets[0]!, 'end');
  for (const socket of sockets.slice(1)) socket.pause().resume();
  sockets.at(-1)!.destroy();
  await eventually(() => expect(events.filter((event) => event === 'end')).toHaveLength(49));
  expect(events.filter((event) => event === 'close')).toHaveLength(1);
});

// Attack: a client has large responses sent on many connections, pauses, and then reads all of them; or they come in chunks of one byte.
// All that a turn processes is 2 MiB or 10 ms as they come, as much again of what costs little, a quarter of that of what waits, and a
// piece more of each.
test.each([
  { costs: 'little', msOfRead: 0.05, bytesOfEach: 4 << 20, mostKiB: 2 * 2_048 + 512 + 2 * 64 },
  { costs: 'much', msOfRead: 6, bytesOfEach: 256 << 10, mostKiB: (12.5 / 6) * 64 + 2 * 4 },
])(
  'what many connections to services bring, which costs $costs, waits for its turn beyond 2 MiB or 10 ms (reliability 382) (reliability 424)',
  async ({ msOfRead, bytesOfEach, mostKiB }) => {
    const counted = countTurns();
    const content = randomBytes(bytesOfEach);
    const { port } = await listen(createServer((socket) => void socket.on('error', () => {}).end(content)));
    let [before, waitedFor]: (number | null)[] = [null, null];
    const open = (owner: string) => {
      const intake = new Intake(new Buffers());
      const socket = createConnection({ port, host: '127.0.0.1', onread: intake.onread });
      socket.on('error', () => {});
      atEnd(() => socket.destroy());
      const hash = createHash('sha256');
      const arrived = { bytes: 0, hash: '' };
      socket.once('end', () => {
        arrived.hash = hash.digest('hex');
      });
      const onBytes = (chunk: Buffer) => {
        if (owner === 'other') waitedFor ??= counted.all - before!;
        arrived.bytes += chunk.length;
        hash.update(chunk);
        spin((msOfRead * chunk.length) / (64 * 1024));
        for (let kib = 0; kib < chunk.length / 1_024; kib++) counted.done();
        return true;
      };
      intake.into({ isAmidBody: true, owner, onBytes }, socket);
      return { socket, arrived };
    };
    const many = Array.from({ length: 40 }, () => open('attacker'));
    await eventually(() => many.every(({ arrived }) => arrived.bytes > 0), { everyMs: 1 });
    const other = open('other');
    await once(other.socket, 'connect');
    before = counted.all;
    const whole = createHash('sha256').update(content).digest('hex');
    await eventually(() => {
      expect([...many, other].map(({ arrived }) => arrived.hash)).toEqual(new Array(41).fill(whole));
    });
    expect(counted.most).toBeLessThanOrEqual(mostKiB);
    // What had come before, and a turn in which the other one may come after another piece.
    expect(waitedFor).toBeLessThanOrEqual(3 * mostKiB);
  },
);

// Attack: a bad frame, or a wider window for 99 responses that wait, on each of 20 sessions of HTTP/2: 10 bytes that cost 4 ms each.
test('small pieces of encrypted connections that take long are processed in several turns (reliability 417)', async () => {
  const counted = countTurns();
  const sockets: SharedBufferSocket[] = [];
  const port = await accepting((socket) => {
    sockets.push(socket);
    socket.weight = 8;
    socket.taker = () => {
      // Part of what a piece costs comes later, in what it has scheduled.
      spin(1);
      process.nextTick(spin, 1);
      counted.done();
    };
    socket.on('data', socket.taker);
  });
  const many = clients(port, 40);
  await Promise.all(many.map((socket) => once(socket, 'connect')));
  await eventually(() => expect(sockets).toHaveLength(40));
  for (const socket of many) socket.write('bad frame');
  await eventually(() => expect(counted.all).toBe(40));
  expect(counted.most).toBeLessThanOrEqual(4);
});
