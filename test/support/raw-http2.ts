import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';
import { atEnd } from './endings.ts';
import { PREFACE, settings, TYPE } from './http2-frames.ts';

export interface SeenFrame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** An HTTP/2 connection of which every byte is told: nothing is sent but what the test sends. */
export interface RawSession {
  readonly socket: TLSSocket;
  readonly frames: readonly SeenFrame[];
  readonly closed: boolean;
  send(...frames: Buffer[]): void;
  /** The error code of the first RST_STREAM of a stream; null while there is none. */
  resetOf(stream: number): number | null;
  /** The error code of the last GOAWAY; null while there is none. */
  goaway(): number | null;
  /** Whether a head of an answer has come on a stream. */
  isAnswered(stream: number): boolean;
}

export interface RawSessionOptions {
  readonly ca: string;
  /** Preface and empty SETTINGS are sent at once by default otherwise. */
  readonly first?: Buffer;
  /** False: what the gateway sends is left unread. */
  readonly reads?: boolean;
}

/** Opens one over TLS. It is cut at the end of the test. */
export async function openRawSession(
  port: number,
  { ca, first, reads = true }: RawSessionOptions,
): Promise<RawSession> {
  const socket = connect({ port, host: '127.0.0.1', ca, ALPNProtocols: ['h2'], servername: 'localhost' });
  const frames: SeenFrame[] = [];
  const state = { closed: false };
  let held: Buffer = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.once('close', () => {
    state.closed = true;
  });
  if (reads) {
    socket.on('data', (chunk: Buffer) => {
      held = takeFrames(Buffer.concat([held, chunk]), (frame) => frames.push(frame));
    });
  }
  atEnd(() => socket.destroy());
  await once(socket, 'secureConnect');
  socket.write(first ?? Buffer.concat([PREFACE, settings()]));
  return {
    socket,
    frames,
    get closed() {
      return state.closed;
    },
    send: (...all) => {
      if (!state.closed) socket.write(Buffer.concat(all));
    },
    resetOf: (stream) => {
      const found = frames.find((it) => it.type === TYPE.RST_STREAM && it.stream === stream);
      return found === undefined ? null : found.payload.readUInt32BE(0);
    },
    goaway: () => frames.findLast(({ type }) => type === TYPE.GOAWAY)?.payload.readUInt32BE(4) ?? null,
    isAnswered: (stream) => frames.some((it) => it.type === TYPE.HEADERS && it.stream === stream),
  };
}

/** Reads the frames that have arrived whole. @returns the rest */
export function takeFrames(bytes: Buffer, take: (frame: SeenFrame) => unknown): Buffer {
  let held = bytes;
  for (let length = lengthAt(held); length !== null; length = lengthAt(held)) {
    const stream = held.readUInt32BE(5) & 0x7fffffff;
    take({ type: held[3]!, flags: held[4]!, stream, payload: held.subarray(9, length) });
    held = held.subarray(length);
  }
  return held;
}

/** Of the first frame, its head included; null while it is incomplete. */
function lengthAt(bytes: Buffer): number | null {
  if (bytes.length < 9) return null;
  const length = 9 + bytes.readUIntBE(0, 3);
  return bytes.length < length ? null : length;
}
