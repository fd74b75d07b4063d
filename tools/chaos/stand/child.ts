import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { endWithUs } from '../../../test/support/end-with-us.ts';
import { familyOf } from '../../../test/support/open-resources.ts';

/** The end of what a process printed is kept, up to this many characters. */
const KEPT = 20_000;
const STOP_WITHIN_MS = 10_000;

/** A process of the run, in a group of its own that never outlives this process. */
export interface Child {
  readonly pid: number;
  /** Null while it runs, else how it ended. */
  ended(): string | null;
  /** The last of what it printed. */
  printed(): string;
  signal(signal: NodeJS.Signals): void;
  /** SIGKILL to it and all that it started; resolves when it is gone. */
  kill(): Promise<void>;
  /** SIGTERM, and after 10 s SIGKILL; resolves when it is gone. */
  stop(): Promise<void>;
}

/** @param onLine called for each line that it prints */
export function startChild(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  onLine: (line: string) => void,
): Child {
  const { PATH, HOME, TMPDIR, LANG, TZ } = process.env;
  const child = spawn(process.execPath, args, {
    env: { ...defined({ PATH, HOME, TMPDIR, LANG, TZ }), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const pid = child.pid ?? 0;
  const release = endWithUs(pid);
  let ended: string | null = null;
  let printed = '';
  let rest = '';
  const hear = (text: string) => {
    printed = (printed + text).slice(-KEPT);
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) onLine(line);
  };
  child.stdout.setEncoding('utf8').on('data', hear);
  child.stderr.setEncoding('utf8').on('data', hear);
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
      // Nobody is left in it.
    }
  };
  return {
    pid,
    ended: () => ended,
    printed: () => printed,
    signal: (signal) => void child.kill(signal),
    kill: async () => {
      killGroup();
      await gone;
    },
    stop: async () => {
      child.kill('SIGCONT');
      child.kill('SIGTERM');
      const late = new AbortController();
      const tooLate = delay(STOP_WITHIN_MS, undefined, { signal: late.signal }).then(killGroup, () => {});
      await gone;
      late.abort();
      await tooLate;
      // A worker may have been left behind.
      killGroup();
    },
  };
}

function defined(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined));
}

/** What a family of processes holds: resident memory in MiB, and open files. Null where the system does not say. */
export function holdingsOf(pid: number): { readonly rssMib: number; readonly files: number } | null {
  let rssMib = 0;
  let files = 0;
  const family = familyOf(pid);
  for (const member of family) {
    try {
      const status = readFileSync(`/proc/${member}/status`, 'utf8');
      rssMib += Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1024;
      files += readdirSync(`/proc/${member}/fd`).length;
    } catch {
      // It ended between the two looks.
    }
  }
  return family.length === 0 ? null : { rssMib, files };
}
