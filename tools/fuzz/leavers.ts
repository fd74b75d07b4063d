import { createConnection, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Chance } from '../kit/chance.ts';

/** When a client leaves. */
export type Moment =
  | 'connected'
  | 'in the head'
  | 'after the head'
  | 'in the body'
  | 'in a chunk'
  | 'waiting'
  | 'reading';

const MOMENTS: readonly Moment[] = [
  'connected',
  'in the head',
  'after the head',
  'in the body',
  'in a chunk',
  'waiting',
  'reading',
];

export interface Leaver {
  readonly id: string;
  readonly moment: Moment;
  readonly how: 'FIN' | 'RST';
  /** Milliseconds that it hesitates before it leaves. */
  readonly hesitatesMs: number;
}

/** What a leaver needs to know of the world. */
export interface LeavingFrom {
  readonly port: number;
  readonly key: string;
  /** Functions by id of a leaver, to be called when its request has reached the upstream. */
  readonly onArrival: Map<string, () => void>;
}

/** One client from its connection to its end. */
export async function leave(leaver: Leaver, { port, key, onArrival }: LeavingFrom): Promise<void> {
  const socket = createConnection({ port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => {});
  await happened(socket, 'connect');
  const arrived = new Promise<void>((resolve) => onArrival.set(leaver.id, resolve));
  const bytes = bytesOf(leaver, key);
  if (bytes.length > 0) await new Promise<void>((resolve) => socket.write(bytes, () => resolve()));
  if (leaver.moment === 'waiting') await Promise.race([arrived, delay(5_000)]);
  if (leaver.moment === 'reading') await Promise.race([happened(socket, 'data'), delay(5_000)]);
  if (leaver.hesitatesMs > 0) await delay(leaver.hesitatesMs);
  const closed = happened(socket, 'close');
  if (leaver.how === 'RST') socket.resetAndDestroy();
  else socket.destroy();
  await closed;
  onArrival.delete(leaver.id);
}

function happened(socket: Socket, event: string): Promise<void> {
  return new Promise((resolve) => socket.once(event, () => resolve()));
}

function bytesOf({ id, moment }: Leaver, key: string): string {
  const isPost = moment === 'in the body' || moment === 'in a chunk';
  const target = moment === 'reading' ? '/long' : '/held';
  const head = `${isPost ? 'POST' : 'GET'} ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nX-Request-Id: ${id}\r\n`;
  if (moment === 'connected') return '';
  if (moment === 'in the head') return head;
  if (moment === 'in the body') return `${head}Content-Length: 1000\r\n\r\nbeginning`;
  if (moment === 'in a chunk') return `${head}Transfer-Encoding: chunked\r\n\r\n100\r\nbeginning`;
  return `${head}\r\n`;
}

/** The same leavers for the same seed. */
export function leavers(count: number, seed: number): Leaver[] {
  const chance = new Chance(seed);
  return Array.from({ length: count }, (_, i) => ({
    id: `leaver-${i}`,
    moment: chance.of(MOMENTS),
    how: chance.share() < 0.5 ? 'FIN' : 'RST',
    hesitatesMs: chance.share() < 0.5 ? 0 : chance.below(20),
  }));
}
