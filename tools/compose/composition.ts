import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const ROOT = join(import.meta.dirname, '..', '..');
const run = promisify(execFile);
/** For slow machines: a service that is up is reported as soon as it is healthy. */
const HEALTHY_WITHIN_MS = 300_000;

export interface CompositionOptions {
  /** All that is made carries this name, and nothing else is touched. */
  readonly project: string;
  readonly env: Readonly<Record<string, string>>;
  /** Ends whatever command is running. */
  readonly signal: AbortSignal;
  /** Base images that are not those of the Dockerfile, by its arguments. */
  readonly buildArgs?: Readonly<Record<string, string>>;
  /** Compose files beside docker-compose.yml, from this folder. */
  readonly overrides?: readonly string[];
}

/** What `docker inspect` tells of a container, as far as it is looked at here. */
export interface Container {
  readonly Id: string;
  readonly State: {
    readonly Running: boolean;
    readonly ExitCode: number;
    readonly Health?: { readonly Status: string };
  };
  readonly Config: { readonly User: string; readonly Labels: Readonly<Record<string, string>> };
  readonly HostConfig: {
    readonly ReadonlyRootfs: boolean;
    readonly CapDrop: readonly string[] | null;
    readonly SecurityOpt: readonly string[] | null;
    readonly Memory: number;
    readonly NanoCpus: number;
    readonly PortBindings: Readonly<Record<string, readonly { readonly HostIp: string }[]>> | null;
  };
}

/** The setup of docker-compose.yml under a name of its own, run by whichever Compose there is. */
export class Composition {
  readonly #options: CompositionOptions;
  readonly #command: readonly string[];

  private constructor(options: CompositionOptions, command: readonly string[]) {
    this.#options = options;
    this.#command = command;
  }

  /** @throws Error when there is no engine or no Compose */
  static async find(options: CompositionOptions): Promise<Composition> {
    await run('docker', ['info'], { signal: options.signal });
    const hasPlugin = await run('docker', ['compose', 'version']).then(
      ({ stdout }) => /compose version/i.test(stdout),
      () => false,
    );
    return new Composition(options, hasPlugin ? ['docker', 'compose'] : ['docker-compose']);
  }

  /**
   * Runs one Compose command to its end.
   * @returns its standard output
   * @throws Error with its errors when it fails
   */
  async compose(...args: readonly string[]): Promise<string> {
    const { project, overrides = [], signal } = this.#options;
    const files = [join(ROOT, 'docker-compose.yml'), ...overrides.map((file) => join(import.meta.dirname, file))];
    const words = [...this.#command, '-p', project, ...files.flatMap((file) => ['-f', file]), ...args];
    return this.#run(words, signal);
  }

  build(service: string): Promise<string> {
    const args = Object.entries(this.#options.buildArgs ?? {}).flatMap(([name, value]) => [
      '--build-arg',
      `${name}=${value}`,
    ]);
    return this.compose('build', ...args, service);
  }

  /** Runs a command in a service's container. */
  exec(service: string, ...command: readonly string[]): Promise<string> {
    return this.compose('exec', '-T', service, ...command);
  }

  docker(...args: readonly string[]): Promise<string> {
    return this.#run(['docker', ...args], this.#options.signal);
  }

  /** The containers of the project by their service. */
  async containers(): Promise<ReadonlyMap<string, Container>> {
    const ids = (await this.compose('ps', '-a', '-q')).trim().split('\n').filter(Boolean);
    if (ids.length === 0) return new Map();
    const found = JSON.parse(await this.docker('inspect', ...ids)) as Container[];
    return new Map(found.map((it) => [it.Config.Labels['com.docker.compose.service'] ?? it.Id, it]));
  }

  /** @throws Error with the service's last lines when it is not healthy in time */
  async untilHealthy(service: string): Promise<void> {
    const deadlineMs = performance.now() + HEALTHY_WITHIN_MS;
    for (;;) {
      const state = (await this.containers()).get(service)?.State;
      if (state?.Health?.Status === 'healthy' && state.Running) return;
      if (performance.now() > deadlineMs) {
        const log = await this.compose('logs', '--tail', '10', service);
        throw new Error(`${service} is ${state?.Health?.Status ?? 'not there'} after ${HEALTHY_WITHIN_MS} ms:\n${log}`);
      }
      await delay(200, undefined, { signal: this.#options.signal });
    }
  }

  /** Removes containers, networks and volumes of the project. Works after `signal` as well. */
  async remove(): Promise<void> {
    await this.#run([
      ...this.#command,
      '-p',
      this.#options.project,
      '-f',
      join(ROOT, 'docker-compose.yml'),
      '--profile',
      'observe',
      '--profile',
      'load',
      'down',
      '-v',
      '--remove-orphans',
      '--timeout',
      '2',
    ]);
  }

  async #run([program, ...args]: readonly string[], signal?: AbortSignal): Promise<string> {
    const env = {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      DOCKER_HOST: process.env.DOCKER_HOST,
      ...this.#options.env,
    };
    try {
      const options = { cwd: ROOT, env, maxBuffer: 64 * 1024 * 1024, ...(signal === undefined ? {} : { signal }) };
      return (await run(program!, args, options)).stdout;
    } catch (error) {
      const { stderr = '', message } = error as { stderr?: string; message: string };
      const last = stderr.trim().split('\n').slice(-15).join('\n');
      throw new Error(`${[program, ...args].join(' ')}: ${last || message}`);
    }
  }
}
