import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { configurationFrom } from '../../src/config/settings.ts';
import { runGateway } from '../../src/serve/gateway-process.ts';
import { atEnd } from './endings.ts';
import { type Exit, Output, type Running, runTollgate, startTollgate, temporaryFolder } from './processes.ts';
import { runCommand } from './run-command.ts';

export interface GatewaySetup {
  /** Origin of the one upstream; null for a gateway that has none. */
  readonly upstream: string | null;
  /** YAML of plans.yaml; PLANS by default. */
  readonly plans?: string;
  /** YAML laid into gateway.yaml: further lines of `listen:` and of the upstream, and the routes. */
  readonly listen?: Readonly<Record<string, string | number>>;
  /** Further members of `admin:`. */
  readonly admin?: Readonly<Record<string, string | number>>;
  readonly upstreamSettings?: Readonly<Record<string, string | number>>;
  readonly routes?: string;
  /** Further top-level lines. `redis` among them; else its timeout is 2 s. */
  readonly more?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The files that it may have open. */
  readonly openFiles?: number;
}

export interface TestGateway {
  readonly process: Running;
  readonly port: number;
  readonly adminPort: number;
  readonly origin: string;
  /** The environment that commands on the same store need. */
  readonly env: Readonly<Record<string, string>>;
  createKey(plan: string, ...options: string[]): Promise<{ readonly id: string; readonly key: string }>;
  command(...words: string[]): Promise<{ code: number | null; stdout: string; stderr: string }>;
  /** A request with a key; `fetch` without redirects. */
  get(path: string, key?: string, init?: RequestInit): Promise<Response>;
}

export const PLANS = `
plans:
  free: { limits: { minute: 60, day: 1000 } }
  small: { limits: { minute: 3, day: 1000 } }
  gentle: { limits: { minute: 3, day: 1000 }, bans: off }
  closed: { limits: { minute: 0 } }
  endless: { limits: { minute: unlimited, day: unlimited } }
  enterprise: { limits: { minute: custom, day: custom } }
bans: { after: 10, within: 1m, first: 1m, factor: 2, longest: 24h, forget: 24h }
failed-authentication: { minute: 30 }
`;

export const ROUTES = `
  - { path: /v1/pets, methods: [GET, POST], upstream: store }
  - { path: '/v1/pets/{petId}', methods: [GET], upstream: store, deprecated: { since: 2025-12-05, sunset: 2030-12-05, successor: /v1/pets } }
  - { path: /v1/gone, methods: [GET], upstream: store, deprecated: { since: 2020-01-01, sunset: 2021-01-01, successor: /v1/pets } }
  - { path: /v1/costly, methods: [GET], upstream: store, cost: 5 }
  - { path: /v1/search, methods: [GET], upstream: store, body: true }
`;

/** Starts a real gateway process (`tollgate serve`) on free ports, before an upstream of the test's. */
export async function startGateway(setup: GatewaySetup): Promise<TestGateway> {
  const env = await settingsOf(setup);
  const { openFiles } = setup;
  return attach(await startTollgate(['serve'], openFiles === undefined ? { env } : { env, openFiles }), env);
}

/**
 * The same gateway in the process of the test, which costs a tenth of a start. It follows no files, has no process id and
 * takes no signals; its log is the `stdout` of `process`.
 */
export async function openGateway(setup: Omit<GatewaySetup, 'openFiles'>): Promise<TestGateway> {
  return openReplica({ env: await settingsOf(setup) });
}

class InThisProcess extends Output implements Running {
  readonly #stopped = Promise.withResolvers<Exit>();
  readonly exit = this.#stopped.promise;
  #stop: (() => Promise<unknown>) | null = null;

  async open(env: NodeJS.ProcessEnv): Promise<void> {
    if (env.WORKERS !== undefined || env.NODE_OPTIONS !== undefined) return this.pid;
    const terminal = { write: (line: string) => this.add('stdout', line) };
    const gateway = await runGateway(await configurationFrom(env), env, { followsFiles: false, terminal });
    this.#stop = gateway.stop;
    atEnd(() => this.stop());
  }

  get pid(): never {
    throw new Error('This gateway has no process of its own: use startGateway.');
  }

  signal(): never {
    return this.pid;
  }

  write(): never {
    return this.pid;
  }

  async stop(): Promise<Exit> {
    const stop = this.#stop;
    this.#stop = null;
    if (stop !== null) {
      await stop();
      this.end();
      this.#stopped.resolve({ code: 0, signal: null });
    }
    return this.exit;
  }
}

/** Writes the settings of a gateway to a folder. */
export async function settingsOf(setup: GatewaySetup): Promise<Record<string, string>> {
  const folder = await temporaryFolder();
  const lines = (settings: GatewaySetup['listen']) =>
    Object.entries(settings ?? {}).map(([name, value]) => `${name}: ${value}`);
  // Also behind proxies a test's gateway stops at once, unless the test is about that.
  const listen = ['port: 0', ...lines({ drainDelay: '0s', ...setup.listen })].join('\n  ');
  const upstream = [`targets: [${setup.upstream}]`, ...lines(setup.upstreamSettings)].join('\n    ');
  const upstreams = setup.upstream === null ? '' : `upstreams:\n  store:\n    ${upstream}\n`;
  await writeFile(
    join(folder, 'gateway.yaml'),
    `listen:\n  ${listen}\nadmin: { ${['port: 0', ...lines(setup.admin)].join(', ')} }\n${upstreams}routes:${setup.routes ?? ROUTES}\n${withPatience(setup.more)}\n`,
  );
  await writeFile(join(folder, 'plans.yaml'), setup.plans ?? PLANS);
  return {
    TOLLGATE_CONFIG: join(folder, 'gateway.yaml'),
    TOLLGATE_PLANS: join(folder, 'plans.yaml'),
    TOLLGATE_DATA: join(folder, 'data'),
    ...setup.env,
  } as Record<string, string>;
}

/** A Redis that stands still for 100 ms on a machine that is busy with other tests has no outage, unless a test says so. */
function withPatience(more = ''): string {
  return /^redis:/m.test(more) ? more : `redis: { timeout: 2s }\n${more}`;
}

/** Starts one more gateway with the same files and store. */
export async function startReplica({ env }: Pick<TestGateway, 'env'>): Promise<TestGateway> {
  return attach(await startTollgate(['serve'], { env }), env);
}

/** Starts several gateways with the same files and store. */
export async function startGateways(size: number, setup: GatewaySetup): Promise<[TestGateway, ...TestGateway[]]> {
  const first = await startGateway(setup);
  return [first, ...(await Promise.all(Array.from({ length: size - 1 }, () => startReplica(first))))];
}

/** The same in the process of the test, as {@link openGateway} does it. */
export async function openGateways(size: number, setup: GatewaySetup): Promise<[TestGateway, ...TestGateway[]]> {
  const first = await openGateway(setup);
  return [first, ...(await Promise.all(Array.from({ length: size - 1 }, () => openReplica(first))))];
}

/** One more gateway with the same files and store, in the process of the test. */
export async function openReplica({ env }: Pick<TestGateway, 'env'>): Promise<TestGateway> {
  const running = new InThisProcess();
  await running.open(env);
  return attach(running, env);
}

async function attach(process: Running, env: Readonly<Record<string, string>>): Promise<TestGateway> {
  const [line] = await process.until(/^\{.*"msg":"serving"\}$/m);
  const { port, admin } = JSON.parse(line) as { port: number; admin: number };
  const origin = `http://127.0.0.1:${port}`;
  // Node.js itself reads this variable, when a process starts.
  const needsProcess = env.NODE_EXTRA_CA_CERTS !== undefined;
  const command = (...words: string[]) => (needsProcess ? runTollgate(words, { env }) : runCommand(env, ...words));
  return {
    process,
    port,
    adminPort: admin,
    origin,
    env,
    command,
    createKey: async (plan, ...options) => {
      const { code, stdout, stderr } = await command('keys', 'create', '--plan', plan, '--json', ...options);
      if (code !== 0) throw new Error(stderr);
      return JSON.parse(stdout) as { id: string; key: string };
    },
    get: (path, key, init = {}) => {
      const headers = new Headers(init.headers);
      if (key !== undefined) headers.set('Authorization', `Bearer ${key}`);
      return fetch(`${origin}${path}`, { redirect: 'manual', ...init, headers });
    },
  };
}
