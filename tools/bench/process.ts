import { truncateSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Child, startChild } from '../kit/child.ts';

/** Ends something that was started. Called in the reverse order of starting. */
export type Ending = () => Promise<unknown>;

export interface Command {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Where its output goes, `NAME.log`; also its working directory. */
  readonly folder: string;
}

export interface Started extends Child {
  readonly name: string;
  /** Drops what it has printed until now: the file would grow with every request. */
  readonly dropOutput: () => void;
}

const READY_WITHIN_MS = 20_000;

export function startProcess({ name, command, args, env = {}, folder }: Command): Started {
  const logFile = join(folder, `${name}.log`);
  const child = startChild({ program: command, args, env, cwd: folder, logFile });
  return { ...child, name, dropOutput: () => truncateSync(logFile, 0) };
}

/**
 * Waits until something listens on a port of 127.0.0.1.
 * @throws Error with what the process printed, when it ends or takes too long
 */
export async function untilListening(started: Started, port: number): Promise<void> {
  const deadlineMs = performance.now() + READY_WITHIN_MS;
  while (!(await accepts(port))) {
    if (started.ended() !== null || performance.now() > deadlineMs) {
      throw new Error(`${started.name} did not come up. It printed: ${started.printed().trim().slice(-1_000)}`);
    }
    await delay(20);
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const settle = (does: boolean) => {
      socket.destroy();
      resolve(does);
    };
    socket.once('connect', () => settle(true));
    socket.once('error', () => settle(false));
  });
}
