import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newKey } from '../../src/operations/key-changes.ts';
import { withStore } from '../../src/serve/open-store.ts';
import { type ProbedGateway, probed, readMetrics } from '../../test/support/open-resources.ts';
import { startChild } from '../kit/child.ts';

const ROOT = join(import.meta.dirname, '..', '..');
/** A leak of any size ends the process long before the run is over. */
const HEAP_MIB = 96;

export interface Caller {
  readonly id: string;
  readonly key: string;
}

/** An access line, what of it is looked at here. */
export interface AccessLine {
  readonly level: number;
  readonly msg: string;
  readonly requestId?: string;
  readonly status?: number;
  readonly code?: string | null;
  readonly cause?: string | null;
  readonly path?: string | null;
  readonly upstream?: string;
}

/** A gateway process of its own, watched closely. Unlike test/support/gateway.ts it runs outside the test runner too. */
export interface WatchedGateway extends ProbedGateway {
  readonly port: number;
  readonly callers: readonly Caller[];
  /** Lines that tell of a defect: above `warn`, or an `internal_error`. */
  readonly defects: string[];
  /** Null while it runs, else how it ended. */
  ended(): string | null;
  onAccess(listener: (line: AccessLine) => void): void;
  metrics(): Promise<ReadonlyMap<string, number>>;
  rssMib(): number;
  stop(): Promise<void>;
}

export interface GatewayShape {
  /** Lines of `listen:`. */
  readonly listen?: Readonly<Record<string, string | number>>;
  /** YAML below `upstreams:` and `routes:`. */
  readonly upstreams: string;
  readonly routes: string;
  /** Further top-level lines. */
  readonly more?: string;
  /** How many keys with endless quotas to make. */
  readonly callers: number;
  /** Laid over the environment of the gateway: REDIS_URL and WORKERS, where it is to have several. */
  readonly env?: Readonly<Record<string, string>>;
}

const PLANS = `plans:
  endless: { limits: { minute: unlimited, day: unlimited } }
bans: { after: 10, within: 1m, first: 1m, factor: 2, longest: 24h, forget: 24h }
failed-authentication: { minute: 1000000000 }
`;

/** Starts a gateway on free ports with keys of its own. It ends with `stop`, and never outlives this process. */
export async function startWatchedGateway(shape: GatewayShape): Promise<WatchedGateway> {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-fuzz-'));
  const env = await writeSettings(folder, shape);
  const callers = await makeCallers(env, shape.callers);
  const log = watchLog();
  const child = startChild({
    args: [join(ROOT, 'bin', 'tollgate.js'), 'serve'],
    env: { ...env, ...probed(folder, `--max-old-space-size=${HEAP_MIB}`) },
    cwd: ROOT,
    folder,
    onLine: (line, stream) => stream === 'stdout' && log.read(line),
  });
  const { pid, gone, ended, printed } = child;
  const { port, admin } = await Promise.race([
    log.serving,
    gone.then(() => Promise.reject(new Error(`The gateway did not start: ${ended()}. It printed:\n${printed()}`))),
  ]);
  return {
    port,
    adminPort: admin,
    pid,
    probes: folder,
    callers,
    defects: log.defects,
    ended: () => (ended() === null ? null : `${ended()}: ${printed().slice(-4_000)}`),
    onAccess: log.onAccess,
    metrics: () => readMetrics(admin),
    rssMib: () => Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024,
    stop: async () => {
      await child.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function writeSettings(folder: string, { listen = {}, upstreams, routes, more = '', env = {} }: GatewayShape) {
  const lines = Object.entries({ port: 0, ...listen }).map(([name, value]) => `  ${name}: ${value}\n`);
  const text = `listen:\n${lines.join('')}admin: { port: 0 }\nupstreams:\n${upstreams}\nroutes:\n${routes}\n${more}\n`;
  await writeFile(join(folder, 'gateway.yaml'), text);
  await writeFile(join(folder, 'plans.yaml'), PLANS);
  return {
    TOLLGATE_CONFIG: join(folder, 'gateway.yaml'),
    TOLLGATE_PLANS: join(folder, 'plans.yaml'),
    TOLLGATE_DATA: join(folder, 'data'),
    ...env,
  };
}

/** As `tollgate keys create` does, without a process for each. */
function makeCallers(env: NodeJS.ProcessEnv, count: number): Promise<Caller[]> {
  return withStore(
    env,
    async ({ keys, plans, peppers }) => {
      const callers: Caller[] = [];
      for (let i = 0; i < count; i++) {
        const wishes = { plan: 'endless', name: null, owner: null, limits: {}, expiresAtMs: null };
        const given = { plans: plans.plans, pepper: peppers[0]!, random: randomBytes, nowMs: Date.now() };
        const { key, secret } = newKey(wishes, given);
        await keys.create(key);
        callers.push({ id: key.id, key: secret });
      }
      return callers;
    },
    { missingStore: 'make' },
  );
}

function watchLog() {
  const defects: string[] = [];
  const listeners: ((line: AccessLine) => void)[] = [];
  const serving = Promise.withResolvers<{ port: number; admin: number }>();
  const read = (text: string) => {
    const line = parsed(text);
    if (line === null || (line.level > 40 && !isOfHostileUpstream(line)) || line.code === 'internal_error')
      defects.push(text);
    else if (line.msg === 'serving') serving.resolve(line as unknown as { port: number; admin: number });
    else if (line.msg === 'request') for (const listener of listeners) listener(line);
  };
  const onAccess = (listener: (line: AccessLine) => void) => void listeners.push(listener);
  return { defects, serving: serving.promise, read, onAccess };
}

/** Of an upstream that answers as it is told, the gateway may complain. */
function isOfHostileUpstream({ msg, upstream }: AccessLine): boolean {
  return msg === 'connections are not reused for a minute' && upstream !== 'store';
}

function parsed(text: string): AccessLine | null {
  try {
    return JSON.parse(text) as AccessLine;
  } catch {
    return null;
  }
}
