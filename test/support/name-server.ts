import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIP } from 'node:net';
import { atEnd } from './endings.ts';

/** What a name server says of a name: addresses of both families, or nothing at all. */
export type NameAnswer =
  | { readonly addresses: readonly string[]; readonly ttl?: number }
  | 'silent'
  | 'absent'
  | 'failing'
  | 'refused'
  /** Answers for IPv4 alone. */
  | { readonly four: readonly string[] };

export interface NameServer {
  /** `127.0.0.1:PORT`. */
  readonly address: string;
  /** Questions for addresses of IPv4, by name. */
  readonly asked: Map<string, number>;
}

const RCODES = { absent: 3, failing: 2, refused: 5 };

/** A name server on 127.0.0.1 (RFC 1035), until the test ends. @param answerOf is given each name in lower case */
export async function startNameServer(answerOf: (name: string) => NameAnswer): Promise<NameServer> {
  const asked = new Map<string, number>();
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const labels: string[] = [];
    let at = 12;
    while (query[at] !== 0) {
      const length = query[at]!;
      labels.push(query.toString('latin1', at + 1, at + 1 + length));
      at += length + 1;
    }
    const name = labels.join('.').toLowerCase();
    const family = query.readUInt16BE(at + 1) === 1 ? 4 : 6;
    if (family === 4) asked.set(name, (asked.get(name) ?? 0) + 1);
    const answer = answerOf(name);
    if (answer === 'silent' || (typeof answer === 'object' && 'four' in answer && family === 6)) return;
    const all = typeof answer === 'string' ? [] : 'four' in answer ? answer.four : answer.addresses;
    const records = all.filter((it) => isIP(it) === family);
    const head = Buffer.from(query.subarray(0, 12));
    head.writeUInt16BE(0x8180 | (typeof answer === 'string' ? RCODES[answer] : 0), 2);
    head.writeUInt16BE(records.length, 6);
    head.writeUInt32BE(0, 8);
    const ttl = typeof answer === 'object' && 'ttl' in answer ? (answer.ttl ?? 60) : 60;
    const parts = records.map((it) => recordOf(it, family, ttl));
    socket.send(Buffer.concat([head, query.subarray(12, at + 5), ...parts]), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  atEnd(() => socket.close());
  return { address: `127.0.0.1:${socket.address().port}`, asked };
}

function recordOf(address: string, family: number, ttl: number): Buffer {
  const data = family === 4 ? Buffer.from(address.split('.').map(Number)) : bytesOfIpv6(address);
  const record = Buffer.alloc(12);
  // The name is that of the question.
  record.writeUInt16BE(0xc00c, 0);
  record.writeUInt16BE(family === 4 ? 1 : 28, 2);
  record.writeUInt16BE(1, 4);
  record.writeUInt32BE(ttl, 6);
  record.writeUInt16BE(data.length, 10);
  return Buffer.concat([record, data]);
}

function bytesOfIpv6(address: string): Buffer {
  const [left = '', right = ''] = address.split('::');
  const words = (text: string) => text.split(':').filter((word) => word !== '');
  const zeros = 8 - words(left).length - words(right).length;
  const all = [...words(left), ...Array<string>(zeros).fill('0'), ...words(right)];
  return Buffer.from(all.map((word) => word.padStart(4, '0')).join(''), 'hex');
}
