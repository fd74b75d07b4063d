import { createConnection } from 'node:net';
import { ROOM } from '../../support/room.ts';
import { LARGE, type Stage } from './stage.ts';

/** The four attacks of slowhttptest, by its letters: slow headers, slow body, slow read, ranges. */
export type Attack = 'H' | 'B' | 'X' | 'R';

/** How the gateway ended one hostile connection. */
export interface Ending {
  /** Of its answer; null where there was none. */
  readonly status: number | null;
  /** From the connection to its end, or to the end of the answer. */
  readonly afterMs: number;
}

const EVERY_MS = 100;
const PATIENCE_MS = 10_000 * ROOM;

/** Opens `connections` hostile connections at once and waits until the gateway has ended each. */
export function attack(which: Exclude<Attack, 'X'>, stage: Stage, connections: number): Promise<Ending[]> {
  const [first, drop] = BYTES[which](stage.key);
  return Promise.all(Array.from({ length: connections }, () => hostile(stage.gateway.port, first, drop)));
}

/**
 * Opens connections that ask for much and never read. Their end cannot be seen from their side, whose window is shut;
 * `leave` lets them go.
 */
export function neverRead({ gateway, key }: Stage, connections: number): { leave(): void } {
  const sockets = Array.from({ length: connections }, () => {
    const socket = createConnection({ port: gateway.port, host: '127.0.0.1' });
    socket.on('error', () => {});
    socket.pause();
    socket.write(`GET ${LARGE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    return socket;
  });
  return {
    leave: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** What is sent at once, and what then drips. */
const BYTES: Readonly<Record<Exclude<Attack, 'X'>, (key: string) => readonly [first: string, drop: string]>> = {
  H: () => ['GET /slow HTTP/1.1\r\nHost: x\r\n', 'X-a: b\r\n'],
  B: (key) => [`POST /slow HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Length: 4096\r\n\r\n`, 'b'],
  R: (key) => [
    `HEAD /slow HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nRange: bytes=0-${ranges()}\r\nConnection: close\r\n\r\n`,
    '',
  ],
};

function ranges(): string {
  return Array.from({ length: 1_300 }, (_, i) => `,5-${i}`).join('');
}

function hostile(port: number, first: string, drop: string): Promise<Ending> {
  return new Promise((resolve) => {
    const startedAtMs = performance.now();
    const socket = createConnection({ port, host: '127.0.0.1', noDelay: true });
    let answer = '';
    let dripping: NodeJS.Timeout | undefined;
    const late = setTimeout(() => socket.destroy(), PATIENCE_MS);
    socket.on('connect', () => {
      socket.write(first);
      if (drop !== '') dripping = setInterval(() => socket.write(drop), EVERY_MS);
    });
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1');
    });
    socket.on('close', () => {
      clearInterval(dripping);
      clearTimeout(late);
      const status = /^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1];
      resolve({ status: status === undefined ? null : Number(status), afterMs: performance.now() - startedAtMs });
    });
  });
}
