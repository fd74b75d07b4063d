import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { endWithUs, type Release } from './end-with-us.ts';
import { freePort } from './free-port.ts';
import { type RedisBinary, redisEnvironment } from './redis-binary.ts';
import { productUserArgs } from './redis-user.ts';

const READY_WITHIN_MS = 15_000;
const MAX_LAUNCHES = 20;
const RELAUNCH_AFTER_MS = 250;
const EXIT_WITHIN_MS = 5_000;

export interface RedisOptions {
  /** Words for the server's command line, for example `['--maxmemory', '10mb']`. They win over the defaults. */
  readonly configArgs?: readonly string[];
  /** An ACL file with all users, in place of the product's user. */
  readonly withUsers?: string;
  /** Lines of a Sentinel's configuration, `sentinel monitor main 127.0.0.1 6379 1` and so on: starts a Sentinel. */
  readonly sentinel?: readonly string[];
}

/** One server process of this machine: 127.0.0.1, a free port, data in a folder of its own, nothing saved unless asked. */
export class RedisProcess {
  readonly port: number;
  readonly folder: string;
  readonly configArgs: readonly string[];
  readonly #binary: RedisBinary;
  readonly #sentinel: readonly string[] | null;
  readonly #users: string | null;
  #child: ChildProcess | null = null;
  #release: Release = () => {};

  private constructor(binary: RedisBinary, options: RedisOptions, port: number, folder: string) {
    this.#binary = binary;
    this.configArgs = options.configArgs ?? [];
    this.#sentinel = options.sentinel ?? null;
    this.#users = options.withUsers ?? null;
    this.port = port;
    this.folder = folder;
  }

  /** @throws Error with what the server printed when it does not come up */
  static async start(binary: RedisBinary, options: RedisOptions = {}): Promise<RedisProcess> {
    for (let attempt = 1; ; attempt += 1) {
      const folder = await mkdtemp(join(tmpdir(), 'tollgate-redis-'));
      const server = new RedisProcess(binary, options, await freePort(), folder);
      try {
        await server.#launch();
        return server;
      } catch (error) {
        await server.dispose();
        // Between finding a port free and binding it, somebody else may have bound it.
        if (attempt === 5 || !String(error).includes('Address already in use')) throw error;
      }
    }
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** The process ends as on SIGTERM; its folder stays for a restart. */
  async stop(): Promise<void> {
    this.resume();
    await this.#end('SIGTERM');
  }

  /** The process is gone at once, as in a crash. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** The process stops answering; its connections stay open. */
  pause(): void {
    this.#child?.kill('SIGSTOP');
  }

  resume(): void {
    this.#child?.kill('SIGCONT');
  }

  /** Starts again on the same port, with the data found in the folder unless `keepData` is false. */
  async launchAgain({ keepData }: { readonly keepData: boolean }): Promise<void> {
    if (!keepData) {
      for (const name of await readdir(this.folder)) await rm(join(this.folder, name), { recursive: true });
    }
    await this.#launch();
  }

  async dispose(): Promise<void> {
    await this.kill();
    // A child that was writing a file may still end.
    await rm(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }

  /** Starts the server. A port that was free a moment ago may be an outgoing connection's: it is tried again. */
  async #launch(attempt = 1): Promise<void> {
    await mkdir(this.folder, { recursive: true });
    const child = spawn(this.#binary.path, await this.#commandLine(), {
      cwd: this.folder,
      env: redisEnvironment(this.#binary.libraryPath),
      stdio: ['ignore', 'pipe', 'pipe'],
      // Not in the terminal's group: a Ctrl-C must reach the tests first, which then end it in order.
      detached: true,
    });
    this.#child = child;
    if (child.pid !== undefined) this.#release = endWithUs(child.pid, this.folder);
    try {
      await untilReady(child);
    } catch (error) {
      await this.kill();
      if (attempt === MAX_LAUNCHES || !String(error).includes('Address already in use')) throw error;
      await delay(RELAUNCH_AFTER_MS);
      await this.#launch(attempt + 1);
    }
  }

  async #commandLine(): Promise<string[]> {
    const place = ['--port', String(this.port), '--bind', '127.0.0.1', '--dir', this.folder];
    if (this.#sentinel !== null) {
      const file = join(this.folder, 'sentinel.conf');
      await writeFile(file, `${this.#sentinel.join('\n')}\n`);
      const user = productUserArgs(this.#binary.version, 'sentinel');
      return [file, '--sentinel', ...place, ...user, ...this.configArgs];
    }
    const user = this.#users === null ? productUserArgs(this.#binary.version) : ['--aclfile', this.#users];
    return [...place, '--save', '', '--appendonly', 'no', '--databases', '64', ...user, ...this.configArgs];
  }

  async #end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    this.#child = null;
    if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) {
      const exited = once(child, 'exit');
      child.kill(signal);
      const late = setTimeout(() => child.kill('SIGKILL'), EXIT_WITHIN_MS);
      await exited;
      clearTimeout(late);
    }
    this.#release();
  }
}

/** Resolves on the server's own word; its log goes to standard output. */
function untilReady(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let log = '';
    const settle = (error?: Error) => {
      clearTimeout(late);
      // Read on, or a full pipe would stop the server.
      child.stdout?.removeAllListeners('data').resume();
      child.stderr?.removeAllListeners('data').resume();
      if (error === undefined) resolve();
      else reject(error);
    };
    const failed = (why: string) =>
      settle(new Error(`The Redis server for the tests ${why}. It printed:\n${log.trim()}`));
    const late = setTimeout(() => failed(`was not ready after ${READY_WITHIN_MS} ms`), READY_WITHIN_MS);
    const hear = (chunk: Buffer) => {
      log += chunk;
      if (/Ready to accept connections|Sentinel ID is/.test(log)) settle();
    };
    child.stdout?.on('data', hear);
    child.stderr?.on('data', hear);
    child.once('error', (error) => failed(`could not be started (${error.message})`));
    child.once('exit', (code, signal) => failed(`ended with ${signal ?? code}`));
  });
}
