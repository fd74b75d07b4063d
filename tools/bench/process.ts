import { type ChildProcess, spawn } from 'node:child_process';
import { openSync, readFileSync, truncateSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { endWithUs } from '../../test/support/end-with-us.ts';

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

export interface Started {
  readonly name: string;
  readonly pid: number;
  readonly hasEnded: () => boolean;
  /** All that it has printed. */
  readonly output: () => string;
  /** Drops what it has printed until now: the file would grow with every request. */
  readonly dropOutput: () => void;
  readonly end: Ending;
}

const READY_WITHIN_MS = 20_000;
const STOP_WITHIN_MS = 5_000;
const INHERITED = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'];

/** Starts a process that ends with this one, however this one ends. */
export function startProcess({ name, command, args, env = {}, folder }: Command): Started {
  const logFile = join(folder, `${name}.log`);
  const log = openSync(logFile, 'a');
  const inherited = Object.fromEntries(INHERITED.map((variable) => [variable, process.env[variable]]));
  const child = spawn(command, args, {
    cwd: folder,
    env: { ...inherited, ...env },
    stdio: ['ignore', log, log],
    // Not in the terminal's group: a Ctrl-C reaches the bench alone, which then ends them in order.
    detached: true,
  });
  const release = child.pid === undefined ? () => {} : endWithUs(child.pid);
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let failed = false;
  child.on('error', () => {
    failed = true;
  });
  return {
    name,
    pid: child.pid ?? 0,
    hasEnded: () => failed || child.exitCode !== null || child.signalCode !== null,
    output: () => readFileSync(logFile, 'utf8'),
    dropOutput: () => truncateSync(logFile, 0),
    end: async () => {
      await endGroup(child, ended);
      release();
    },
  };
}

/** The whole group: a program may have left workers of its own behind. */
async function endGroup(child: ChildProcess, ended: Promise<void>): Promise<void> {
  if (child.pid === undefined) return;
  child.kill('SIGTERM');
  const late = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
  await ended;
  clearTimeout(late);
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // Nobody is left of it.
  }
}

/**
 * Waits until something listens on a port of 127.0.0.1.
 * @throws Error with what the process printed, when it ends or takes too long
 */
export async function untilListening(started: Started, port: number): Promise<void> {
  const deadlineMs = performance.now() + READY_WITHIN_MS;
  while (!(await accepts(port))) {
    if (started.hasEnded() || performance.now() > deadlineMs) {
      throw new Error(`${started.name} did not come up. It printed: ${started.output().trim().slice(-1_000)}`);
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
