import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { endWithUs } from './end-with-us.ts';
import { atEnd } from './endings.ts';
import { ROOM } from './room.ts';
import { temporaryFolder } from './temporary-folder.ts';

export { temporaryFolder } from './temporary-folder.ts';

/** The folder of this checkout. */
export const ROOT = join(import.meta.dirname, '..', '..');

const SOURCES = join(ROOT, 'bin', 'tollgate.js');

const STOP_WITHIN_MS = 10_000 * ROOM;
/**
 * Many processes start at once on few cores: the usual four helper threads of V8 in each cost a fifth of a start more. Young
 * objects may take as much as in production (`bin/tollgate`), and have it at once: to grow it step by step costs a tenth.
 */
const V8_FLAGS = ['--v8-pool-size=1', '--min-semi-space-size=8', '--max-semi-space-size=8'];
/**
 * The words that start `tollgate` from the bundle of the tests, for a shell or another program that starts it: a command takes half as
 * much of the processor as from the sources.
 */
export const TOLLGATE: readonly string[] = [process.execPath, ...V8_FLAGS, process.env.TEST_PROGRAM ?? SOURCES];
/** The same as text of a shell. */
export const TOLLGATE_IN_SHELL = TOLLGATE.map((word) => `'${word}'`).join(' ');
const INHERITED = 'PATH HOME USER LANG LC_ALL TZ TMPDIR NODE_EXTRA_CA_CERTS NODE_COMPILE_CACHE'.split(' ');

export interface ProcessOptions {
  /** Laid over a clean environment: nothing of the parent's but PATH, HOME and the like. `undefined` removes. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** This checkout by default. */
  readonly cwd?: string;
  /** The files that the process may have open; needs `prlimit`. As many as the tests may by default. */
  readonly openFiles?: number;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** What a finished command left. `code` is null when a signal ended it. */
export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A process of ours that runs. Its output is collected from the first byte. */
export interface Running {
  readonly pid: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly exit: Promise<Exit>;
  /**
   * Waits until the output (standard output, then standard error) has what is looked for; output from before the call
   * counts too.
   * @returns the match of a regular expression, or the true value of a predicate
   * @throws Error with all output, when the process ends first or after `withinMs` (10000 unless given) times {@link ROOM}
   */
  until(found: RegExp, options?: { readonly withinMs?: number }): Promise<RegExpExecArray>;
  until<T>(found: (output: string) => T, options?: { readonly withinMs?: number }): Promise<T>;
  signal(signal: NodeJS.Signals): void;
  write(text: string): void;
  /** SIGTERM, and SIGKILL to it and all that it started when it still runs after `withinMs`, 10000 times {@link ROOM} unless given. */
  stop(withinMs?: number): Promise<Exit>;
}

/**
 * Starts `tollgate ARGS` as a process of its own, by the same Node.js as the tests. It is stopped at the end of the
 * test (from `beforeAll`: of the file), and never outlives the tests. Its data goes to a temporary folder unless `env`
 * names another (or removes TOLLGATE_DATA).
 */
export async function startTollgate(args: readonly string[], options: ProcessOptions = {}): Promise<Running> {
  const TOLLGATE_DATA = await temporaryFolder();
  const env = { TOLLGATE_DATA, ...options.env };
  const { openFiles } = options;
  // What NODE_OPTIONS loads before may replace modules of the sources, which the bundle does not have.
  const tollgate = options.env?.NODE_OPTIONS === undefined ? TOLLGATE : [process.execPath, ...V8_FLAGS, SOURCES];
  const command = [...tollgate, ...args];
  const [program, ...words] = openFiles === undefined ? command : ['prlimit', `--nofile=${openFiles}`, ...command];
  return startProcess(program!, words, { ...options, env });
}

/** Runs `tollgate ARGS` to its end, as {@link startTollgate} starts it. */
export async function runTollgate(args: readonly string[], options: ProcessOptions = {}): Promise<Finished> {
  const running = await startTollgate(args, options);
  const { code } = await running.exit;
  return { code, stdout: running.stdout, stderr: running.stderr };
}

/** Starts any program under the same rules as {@link startTollgate}. */
export function startProcess(program: string, args: readonly string[], options: ProcessOptions = {}): Running {
  const child = spawn(program, args, {
    cwd: options.cwd ?? ROOT,
    env: cleanEnvironment(options.env ?? {}),
    stdio: ['pipe', 'pipe', 'pipe'],
    // A process group of its own, so that what it starts can be ended with it.
    detached: true,
  });
  const running = new Started(child);
  atEnd(() => running.stop());
  return running;
}

/** The environment of {@link startProcess}: settings of the person who runs the tests must not reach what is tested. */
export function cleanEnvironment(env: Readonly<Record<string, string | undefined>>): NodeJS.ProcessEnv {
  const inherited = INHERITED.filter((name) => process.env[name] !== undefined);
  return { ...Object.fromEntries(inherited.map((name) => [name, process.env[name]])), ...env };
}

/** The output of something that runs, and those who wait for a part of it. */
export class Output {
  stdout = '';
  stderr = '';
  readonly #looks = new Set<() => void>();
  #hasEnded = false;

  add(to: 'stdout' | 'stderr', text: string): void {
    this[to] += text;
    this.#look();
  }

  /** Nothing is added any more. */
  end(): void {
    this.#hasEnded = true;
    this.#look();
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** See {@link Running}. */
  until(found: RegExp | ((output: string) => unknown), { withinMs = 10_000 } = {}): Promise<never> {
    return new Promise((resolve, reject) => {
      const settle = (how: () => void) => {
        clearTimeout(late);
        this.#looks.delete(look);
        how();
      };
      const all = () => this.stdout + this.stderr;
      const fail = (why: string) => settle(() => reject(new Error(`${why}. It printed:\n${all()}`)));
      const look = () => {
        const result = found instanceof RegExp ? matchOf(found, all()) : found(all());
        if (result) settle(() => resolve(result as never));
        else if (this.#hasEnded) fail(`The process ended before ${found} was printed`);
      };
      const patienceMs = ROOM * withinMs;
      const late = setTimeout(() => fail(`${found} was not printed within ${patienceMs} ms`), patienceMs);
      this.#looks.add(look);
      look();
    });
  }

  #look(): void {
    for (const look of this.#looks) look();
  }
}

class Started extends Output implements Running {
  readonly exit: Promise<Exit>;
  readonly #child: ChildProcess;

  constructor(child: ChildProcess) {
    super();
    this.#child = child;
    const release = child.pid === undefined ? () => {} : endWithUs(child.pid);
    child.stdout?.setEncoding('utf8').on('data', (text: string) => this.add('stdout', text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => this.add('stderr', text));
    child.stdin?.on('error', () => {});
    this.exit = new Promise((resolve, reject) => {
      child.once('error', reject);
      // 'close', not 'exit': the output is complete then.
      child.once('close', (code, signal) => {
        release();
        this.end();
        resolve({ code, signal });
      });
    });
    this.exit.catch(() => {});
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  write(text: string): void {
    this.#child.stdin?.write(text);
  }

  async stop(withinMs = STOP_WITHIN_MS): Promise<Exit> {
    if (!this.hasEnded && this.#child.pid !== undefined) {
      this.#child.kill('SIGCONT');
      this.#child.kill('SIGTERM');
      // Gone already, yet something that it started keeps its output open.
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) this.#killGroup();
      const late = setTimeout(() => this.#killGroup(), withinMs);
      await this.exit.finally(() => clearTimeout(late));
    }
    return this.exit;
  }

  #killGroup(): void {
    try {
      process.kill(-this.pid, 'SIGKILL');
    } catch {
      // The group ended meanwhile.
    }
  }
}

/** From the start of the text each time, also for a pattern with the flag `g`, which would remember where it was. */
function matchOf(pattern: RegExp, text: string): RegExpExecArray | null {
  return new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, '')).exec(text);
}
