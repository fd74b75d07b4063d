import { join } from 'node:path';
import { eventually } from '../../../test/support/conditions.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { familyOf, type ProbedGateway, probed } from '../../../test/support/open-resources.ts';
import { type Child, startChild } from '../../kit/child.ts';

const ROOT = join(import.meta.dirname, '..', '..', '..');
const TOLLGATE = join(ROOT, 'bin', 'tollgate.js');
const MOVED_CLOCK = join(ROOT, 'test', 'system', 'exhaustion', 'moved-clock.ts');
const READY_WITHIN_MS = 20_000;

/** What `/readyz` says of one gateway; null where nobody answers. */
export interface Health {
  readonly ready: boolean;
  readonly store: string;
}

export interface GatewayProcessOptions {
  readonly env: Readonly<Record<string, string>>;
  /** A folder for the sockets of the probes in it and in its workers. */
  readonly probes: string;
  /** By how much its wall clock is wrong. */
  readonly clockHours?: number;
}

/** A gateway as a process of its own, on ports that stay the same when it is started again. */
export class GatewayProcess implements ProbedGateway {
  readonly origin: string;
  readonly adminOrigin: string;
  readonly name: string;
  /** Lines that tell of a defect of the gateway's own, of all its lives. */
  readonly defects: string[] = [];
  readonly probes: string;
  readonly #ports: { readonly public: number; readonly admin: number };
  readonly #env: Readonly<Record<string, string>>;
  #child: Child | null = null;

  private constructor(
    name: string,
    ports: { readonly public: number; readonly admin: number },
    { env, probes, clockHours = 0 }: GatewayProcessOptions,
  ) {
    this.name = name;
    this.probes = probes;
    this.#ports = ports;
    const moved = clockHours === 0 ? {} : { MOVE: String(clockHours) };
    this.#env = { ...env, ...moved, ...probed(probes, clockHours === 0 ? '' : `--import ${MOVED_CLOCK}`) };
    this.origin = `http://127.0.0.1:${ports.public}`;
    this.adminOrigin = `http://127.0.0.1:${ports.admin}`;
  }

  /** @throws Error with what it printed when it does not become ready */
  static async start(name: string, options: GatewayProcessOptions): Promise<GatewayProcess> {
    const gateway = new GatewayProcess(name, { public: await freePort(), admin: await freePort() }, options);
    await gateway.start();
    if ((options.clockHours ?? 0) !== 0) {
      gateway.signal('SIGUSR2');
      await eventually(() => gateway.#child!.printed().includes('the clock was moved'), { withinMs: 5_000 });
    }
    return gateway;
  }

  get adminPort(): number {
    return this.#ports.admin;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** The processes that it has for its work, without the one that was started, where there is more than that one. */
  get workers(): number[] {
    return familyOf(this.pid).slice(1);
  }

  async start(): Promise<void> {
    const { public: port, admin } = this.#ports;
    const env = { LOG_LEVEL: 'error', ...this.#env, PORT: String(port), ADMIN_PORT: String(admin) };
    this.#child = startChild({ args: [TOLLGATE, 'serve'], env, onLine: (line) => this.#read(line) });
    const child = this.#child;
    await eventually(
      async () => {
        if (child.ended() !== null) return true;
        return (await this.health())?.ready === true;
      },
      { withinMs: READY_WITHIN_MS, everyMs: 25 },
    ).catch((error) => {
      throw new Error(`${this.name} did not become ready. It printed:\n${child.printed()}`, { cause: error });
    });
    if (child.ended() !== null)
      throw new Error(`${this.name} ended: ${child.ended()}. It printed:\n${child.printed()}`);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.signal(signal);
  }

  /** As when its machine loses power. */
  async kill(): Promise<void> {
    await this.#child?.kill();
  }

  async stop(): Promise<void> {
    await this.#child?.stop();
  }

  /** How it ended although nobody ended it, or null. */
  ended(): string | null {
    return this.#child?.ended() ?? null;
  }

  /** How it is, and what it last said, for whoever has to find out why. */
  async describe(): Promise<string> {
    const health = await this.health();
    const state = health === null ? 'does not answer' : `says that its store is ${health.store}`;
    return `${this.name} ${state}. It last logged: ${lastWords(this.#child?.printed() ?? '')}`;
  }

  async health(): Promise<Health | null> {
    try {
      const answer = await fetch(`${this.adminOrigin}/readyz`, {
        headers: { Connection: 'close' },
        signal: AbortSignal.timeout(2_000),
      });
      const { store } = (await answer.json()) as { store?: unknown };
      return { ready: answer.status === 200, store: String(store) };
    } catch {
      return null;
    }
  }

  #read(line: string): void {
    if (/"msg":"a defect|"level":60|internal_error|^\s+at /.test(line))
      this.defects.push(`${this.name}: ${line.slice(0, 400)}`);
  }
}

/** The message of the last line, and of the error in it. */
function lastWords(printed: string): string {
  const line = printed.trim().split('\n').at(-1) ?? '';
  try {
    const { msg, err } = JSON.parse(line) as { readonly msg: string; readonly err?: { readonly message?: string } };
    return err?.message === undefined ? msg : `${msg}: ${err.message}`;
  } catch {
    return line.slice(0, 400) || 'nothing';
  }
}
