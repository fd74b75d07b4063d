import type { Socket } from 'node:net';
import { ReplyDeadlines } from '../io/deadlines.ts';

/** A stall of this thread counts as 25 ms at most. */
const DEADLINES = new ReplyDeadlines();

interface FirstBytesOptions<T> {
  readonly timeoutMs: number;
  /** Called before a connection is closed because it has ended, sent something else, or sent too little in time. */
  readonly refused: () => void;
  /**
   * @param held all bytes so far
   * @returns their meaning, and how many of them belong to it; or whether more bytes are needed, or would not help
   */
  readonly read: (held: Buffer) => { readonly value: T; readonly bytes: number } | 'partial' | 'fault';
  /** Called one turn later, unless the connection is closed by then. The next byte read is the one after those of `value`. */
  readonly done: (value: T) => void;
}

/** Reads what a connection begins with, and puts back the bytes that do not belong to it. */
export function takeFirstBytes<T>(socket: Socket, { timeoutMs, refused, read, done }: FirstBytesOptions<T>): void {
  let held: Buffer = Buffer.alloc(0);
  const refuse = () => {
    refused();
    socket.destroy();
  };
  const late = DEADLINES.set(refuse, timeoutMs);
  const leave = () => {
    late.cancel();
    socket.removeListener('readable', look);
    socket.removeListener('end', refuse);
    socket.removeListener('close', leave);
  };
  const look = () => {
    const chunk = socket.read() as Buffer | null;
    if (chunk === null) return;
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    const found = read(held);
    if (found === 'partial') return;
    leave();
    if (found === 'fault') return refuse();
    if (found.bytes < held.length) socket.unshift(held.subarray(found.bytes));
    // Node has to notice first that the last `readable` listener was removed.
    process.nextTick(() => {
      if (!socket.destroyed) done(found.value);
    });
  };
  socket.on('readable', look);
  socket.once('end', refuse);
  socket.once('close', leave);
}
