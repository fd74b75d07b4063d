import { spawn } from 'node:child_process';
import { openSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { endWithUs } from '../../test/support/end-with-us.ts';

/** The end of what a process printed is kept, up to this many characters. */
const KEPT = 20_000;
const STOP_WITHIN_MS = 10_000;
const INHERITED = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'];

export interface ChildOptions {
  /** Node.js unless given. */
  readonly program?: string;
  readonly args: readonly string[];
  /** Beside PATH, HOME and the like of this process. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Removed if this process is killed. */
  readonly folder?: string;
  /** A file that gets all that it prints. */
  readonly logFile?: string;
  /** Called for each line that it prints, unless there is a file. */
  readonly onLine?: (line: string, stream: 'stdout' | 'stderr') => void;
}

/** A process that was started, in a group of its own that never outlives this process. */
export interface Child {
  readonly pid: number;
  /** Null while it runs, else how it ended. */
  ended(): string | null;
  /** Resolves when it is gone. */
  readonly gone: Promise<void>;
  /** What it printed: all that is in its file, or the last of it. */
  printed(): string;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL to it and all that it started; resolves when it is gone. */
  kill(): Promise<void>;
  /** SIGTERM, and after 10 s SIGKILL; resolves when it and all that it started are gone. */
  stop(): Promise<void>;
}

export function startChild({ program, args, env, cwd, folder, logFile, onLine }: ChildOptions): Child {
  const inherited = Object.fromEntries(INHERITED.map((name) => [name, process.env[name]]));
  const output = logFile === undefined ? 'pipe' : openSync(logFile, 'a');
  const child = spawn(program ?? process.execPath, args, {
    cwd,
    env: { ...inherited, ...env },
    stdio: ['ignore', output, output],
    // Not in the terminal's group: a Ctrl-C reaches this process alone, which then ends the others in order.
    detached: true,
  });
  const pid = child.pid ?? 0;
  const release = pid === 0 ? () => {} : endWithUs(pid, folder);
  let ended: string | null = null;
  let printed = '';
  const hear = (source: Readable | null, stream: 'stdout' | 'stderr') => {
    let rest = '';
    source?.setEncoding('utf8').on('data', (text: string) => {
      printed = (printed + text).slice(-KEPT);
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) onLine?.(line, stream);
    });
  };
  hear(child.stdout, 'stdout');
  hear(child.stderr, 'stderr');
  const gone = new Promise<void>((resolve) => {
    child.once('error', (error) => {
      ended ??= error.message;
      resolve();
    });
    child.once('close', (code, signal) => {
      ended ??= signal ?? `exit code ${code}`;
      release();
      resolve();
    });
  });
  const killGroup = () => {
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // No process is left in it.
    }
  };
  return {
    pid,
    ended: () => ended,
    gone,
    printed: () => (logFile === undefined ? printed : readFileSync(logFile, 'utf8')),
    signal: (signal) => void child.kill(signal),
    kill: async () => {
      if (pid !== 0) killGroup();
      await gone;
    },
    stop: async () => {
      if (pid === 0) return;
      child.kill('SIGCONT');
      child.kill('SIGTERM');
      const late = setTimeout(killGroup, STOP_WITHIN_MS);
      await gone;
      clearTimeout(late);
      // A worker may have been left behind.
      killGroup();
    },
  };
}
