import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from 'vitest';
import { TextWriter } from '../../src/io/writes.ts';
import { eventually } from '../support/conditions.ts';

// Texts go past the books that a stream keeps of its writes: nothing may be lost, doubled or overtaken by that.

const open: Socket[] = [];
afterEach(() => {
  for (const socket of open.splice(0)) socket.destroy();
});

/** Both ends of a connection of the system's. */
async function connection(): Promise<{ ours: Socket; theirs: Socket }> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  const theirs = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', allowHalfOpen: true });
  const [ours] = (await accepted) as [Socket];
  server.close();
  open.push(ours, theirs);
  return { ours, theirs };
}

/** Writes numbered texts until the system takes no more at once. @returns all of them */
function fill(writer: TextWriter): string {
  let written = '';
  for (let n = 0; writer.hasTakenAll; n++) {
    const piece = `${n}:${'x'.repeat(32 * 1024)};`;
    writer.write(piece);
    written += piece;
    if (n > 10_000) throw new Error('the system takes everything');
  }
  return written;
}

describe('a text that the system takes', () => {
  test('has been taken when the call returns, a character for each byte', async () => {
    const { ours, theirs } = await connection();
    const writer = new TextWriter(ours);
    writer.write('a\0\xff\r\n');
    expect(writer.hasTakenAll).toBe(true);
    ours.end();
    const chunks = await theirs.toArray();
    expect(Buffer.concat(chunks).toString('latin1')).toBe('a\0\xff\r\n');
  });
});

describe('a text that the system does not take at once', () => {
  test('is known as untaken until the other side has read, and then as taken', async () => {
    const { ours, theirs } = await connection();
    const writer = new TextWriter(ours);
    const written = fill(writer);
    expect(writer.hasTakenAll).toBe(false);
    const read = text(theirs);
    await eventually(() => expect(writer.hasTakenAll).toBe(true));
    ours.end();
    expect((await read) === written).toBe(true);
  });

  test('is followed in order by texts, by what is written to the stream and by its end', async () => {
    const { ours, theirs } = await connection();
    const writer = new TextWriter(ours);
    const before = fill(writer);
    writer.write('one,');
    ours.write('two,');
    writer.write('three,');
    const taken = new Promise((resolve) => ours.write(Buffer.alloc(0), resolve));
    ours.write(Buffer.from('four'));
    ours.end();
    expect(writer.hasTakenAll).toBe(false);
    const read = text(theirs);
    await taken;
    const all = await read;
    expect(all.length).toBe(before.length + 'one,two,three,four'.length);
    expect(all === `${before}one,two,three,four`).toBe(true);
  });

  test('leaves whole where the connection is ended behind it and destroyed when that is done', async () => {
    const { ours, theirs } = await connection();
    const writer = new TextWriter(ours);
    const written = fill(writer);
    ours.destroySoon();
    expect((await text(theirs)) === written).toBe(true);
  });

  test('is given up where the connection is destroyed, without an error that nobody handles', async () => {
    const { ours } = await connection();
    const writer = new TextWriter(ours);
    fill(writer);
    const closed = once(ours, 'close');
    ours.destroy();
    await closed;
    expect(writer.hasTakenAll).toBe(true);
  });
});

describe('a connection that is not there any more', () => {
  test('fails with the error of the write, once, and takes no further text', async () => {
    const { ours, theirs } = await connection();
    const writer = new TextWriter(ours);
    const errors: Error[] = [];
    ours.on('error', (error) => errors.push(error));
    theirs.resetAndDestroy();
    const closed = once(ours, 'close').catch(() => {});
    await eventually(() => {
      writer.write('x'.repeat(1024));
      expect(ours.destroyed).toBe(true);
    });
    await closed;
    writer.write('more');
    expect(errors.map((error) => (error as NodeJS.ErrnoException).code)).toEqual([
      expect.stringMatching(/^(EPIPE|ECONNRESET)$/),
    ]);
  });
});
