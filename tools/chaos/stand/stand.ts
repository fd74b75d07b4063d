import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { whenWeAreGone } from '../../../test/support/end-with-us.ts';
import { familyOf } from '../../../test/support/open-resources.ts';
import { Link } from '../../kit/link.ts';
import { Endings } from './endings.ts';
import { GatewayProcess } from './gateways.ts';
import { Keys, PLANS } from './keys.ts';
import type { Store } from './server.ts';
import { type StoreKind, startStore } from './store.ts';
import { type CountingUpstream, startCountingUpstream } from './upstream.ts';

export interface StandOptions {
  readonly store: StoreKind;
  readonly gateways: number;
  /** Processes of each gateway that decide: WORKERS. */
  readonly workers?: number;
  /** `redis.timeout`; 100 by default, as it comes. */
  readonly timeoutMs?: number;
  /** By how many hours the wall clock of each gateway is wrong. */
  readonly clockHours?: readonly number[];
}

/** What a scenario plays on: gateways, their Redis, the link between, the service behind. */
export interface Stand {
  readonly gateways: readonly GatewayProcess[];
  /** How many processes decide alone when they are cut off. */
  readonly deciders: number;
  readonly timeoutMs: number;
  readonly store: Store;
  /** Between the gateways and a single Redis; null where they find their servers by themselves. */
  readonly link: Link | null;
  readonly upstream: CountingUpstream;
  readonly keys: Keys;
  /** All gateways together; null where the system does not say. */
  holdings(): { readonly rssMib: number; readonly files: number } | null;
  close(): Promise<void>;
}

/** Brings everything up on 127.0.0.1. What had come up is ended when something does not. */
export async function openStand(options: StandOptions): Promise<Stand> {
  const endings = new Endings();
  try {
    return await bringUp(options, endings);
  } catch (error) {
    await endings.end();
    throw error;
  }
}

async function bringUp(options: StandOptions, endings: Endings): Promise<Stand> {
  const { gateways: size, workers = 1, timeoutMs = 100, clockHours = [] } = options;
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-chaos-'));
  const release = whenWeAreGone('rm -rf -- "$1"', [folder]);
  endings.add(() => rm(folder, { recursive: true, force: true }).then(release));
  const store = await startStore(options.store);
  endings.add(() => store.close());
  const link = store.port === null ? null : await Link.open(store.port);
  endings.add(() => link?.close());
  const upstream = await startCountingUpstream();
  endings.add(() => upstream.close());
  await writeFile(join(folder, 'gateway.yaml'), gatewayYaml(upstream.origin, timeoutMs));
  await writeFile(join(folder, 'plans.yaml'), PLANS);
  const direct = {
    TOLLGATE_CONFIG: join(folder, 'gateway.yaml'),
    TOLLGATE_PLANS: join(folder, 'plans.yaml'),
    TOLLGATE_DATA: join(folder, 'data'),
    KEY_PEPPER: randomUUID(),
    ADMIN_TOKEN: randomUUID(),
    REDIS_URL: store.url,
    ...(workers === 1 ? {} : { WORKERS: String(workers) }),
  };
  const env = link === null ? direct : { ...direct, REDIS_URL: `redis://127.0.0.1:${link.port}` };
  const starting = Array.from({ length: size }, (_, i) =>
    GatewayProcess.start(`gateway ${i + 1}`, { env, probes: folder, clockHours: clockHours[i] ?? 0 }),
  );
  endings.add(async () => {
    const started = await Promise.allSettled(starting);
    await Promise.all(started.map((it) => (it.status === 'fulfilled' ? it.value.stop() : null)));
  });
  const gateways = await Promise.all(starting);
  return {
    gateways,
    deciders: size * workers,
    timeoutMs,
    store,
    link,
    upstream,
    keys: new Keys(direct),
    holdings: () => {
      const all = gateways.map(({ pid }) => holdingsOf(pid)).filter((it) => it !== null);
      if (all.length === 0) return null;
      return {
        rssMib: all.reduce((sum, { rssMib }) => sum + rssMib, 0),
        files: all.reduce((sum, { files }) => sum + files, 0),
      };
    },
    close: () => endings.end(),
  };
}

function gatewayYaml(upstream: string, timeoutMs: number): string {
  return `
listen: { port: 0 }
admin: { port: 0 }
redis: { timeout: ${timeoutMs}ms }
log: { sample2xx: 0 }
upstreams: { store: { targets: ['${upstream}'] } }
routes:
  - { path: /v1/pets, methods: [GET], upstream: store }
`;
}

/** What a family of processes holds: resident memory in MiB, and open files. Null where the system does not say. */
function holdingsOf(pid: number): { readonly rssMib: number; readonly files: number } | null {
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
