import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import {
  BOUNDS_MS,
  type Cells,
  DIMENSIONS,
  type Dimension,
  encodeNames,
  encodeRecord,
  nameOf,
  newCells,
  STATUS_CLASSES,
} from '../../src/operations/traffic/traffic-record.ts';
import { KEPT_MS, PART_MS, type TrafficPart } from '../../src/operations/traffic/traffic-store.ts';
import { startPets } from '../../src/pets/server.ts';
import { recordAdmitted, recordRefused } from '../../src/stores/embedded/history-costs.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { eventually } from '../../test/support/conditions.ts';
import { localRedis } from '../../test/support/redis-binary.ts';
import { REDIS_CACHE } from '../../test/support/redis-finder.ts';
import { RedisProcess } from '../../test/support/redis-process.ts';
import { asProduct } from '../../test/support/redis-user.ts';
import { startChild } from '../kit/child.ts';

// Two gateways on one Redis, or one without, before the pet service, with callers in every state that the console shows.

const TOLLGATE = join(import.meta.dirname, '..', '..', 'bin', 'tollgate.js');
const READY_WITHIN_MS = 30_000;
const HOUR_MS = 3_600_000;

/** A key of the stand, by the part that it plays. */
export type Part = 'banned' | 'refused' | 'near' | 'fine' | 'hostile' | 'retiring' | 'shop' | 'app';

export interface Gateway {
  readonly origin: string;
  readonly admin: string;
  /** SIGSTOP makes it hang until SIGCONT. */
  readonly signal: (signal: NodeJS.Signals) => void;
}

/** What is the same whatever store the gateways have. */
interface AnyStand {
  /** The tokens of ADMIN_TOKENS_FILE, by role. */
  readonly tokens: Readonly<Record<'viewer' | 'operator' | 'admin', string>>;
  readonly keys: Readonly<Record<Part, { readonly id: string; readonly key: string }>>;
  /** The customer of the keys `shop` and `app`. */
  readonly customer: { readonly id: string; readonly name: string };
  /** The X-Request-Id of a refusal. */
  readonly refusedRequestId: () => string;
  /** Lets callers call, in bursts, until `stop`. */
  readonly drive: () => { stop(): Promise<void> };
  /** The folder of plans.yaml, gateway.yaml and tokens.yaml. */
  readonly folder: string;
  /** All that the gateways have printed. */
  readonly printed: () => string;
  close(): Promise<void>;
}

export interface Stand extends AnyStand {
  readonly gateways: readonly [Gateway, Gateway];
  readonly redis: RedisProcess;
}

/** One gateway without Redis. */
export interface EmbeddedStand extends AnyStand {
  readonly gateways: readonly [Gateway];
}

/** The names of the people who have the tokens of the stand. */
export const PEOPLE = { viewer: 'vera', operator: 'olga', admin: 'ada' } as const;

/** How long the first ban of a caller lasts. */
const FIRST_BAN = '5m';

const plansWith = (firstBan: string) => `# What each plan allows.
plans:
  free: { limits: { minute: 60, day: 1000 } }
  pro: { limits: { minute: { limit: 300, window: sliding }, day: 10000 }, bans: { after: 500 } }
  business: { limits: { minute: 1000, day: 100000, month: 2000000 } }
  enterprise: { limits: { minute: custom, day: custom } }
  team: { limits: { minute: 600, day: 20000 }, units: { bytes: { day: 2000000, month: 50000000 } }, each-key: { minute: 400, units: { bytes: { day: 1500000 } } }, in-flight: 20, groups: { pet: { routes: ['/v1/pets/{petId}'], limits: { minute: 60 } } } }
bans: { after: 10, within: 1m, first: ${firstBan}, factor: 2, longest: 24h, forget: 24h }
failed-authentication: { minute: 30 }
`;

const HOSTILE = `<img src=x onerror="document.title=1"> ${'long '.repeat(4)}מרפאה 🐈`;

/**
 * @param keepsData whether Redis, once killed, can be started again with its data
 * @param firstBan how long the first ban of a caller lasts: longer where a test takes minutes until it looks at the ban
 * @throws Error if something does not start; what had started by then is ended
 */
export function startStand({ keepsData = true, firstBan = FIRST_BAN } = {}): Promise<Stand> {
  return closable(async (endings) => {
    const binary = await localRedis(REDIS_CACHE);
    // Each write is with the system before the response, so that a kill loses nothing.
    const redis = await RedisProcess.start(binary, keepsData ? { configArgs: ['--appendonly', 'yes'] } : {});
    endings.push(() => redis.dispose());
    const redisUrl = asProduct(`redis://127.0.0.1:${redis.port}`, binary.version);
    const { gateway, finish } = await prepare(endings, { REDIS_URL: redisUrl }, firstBan);
    const gateways = [await gateway('a'), await gateway('b')] as const;
    const rest = await finish(gateways);
    await writePast(redisUrl, rest.keys, rest.customer.id);
    return { ...rest, gateways, redis };
  });
}

/** @throws Error if something does not start; what had started by then is ended */
export function startEmbeddedStand(): Promise<EmbeddedStand> {
  return closable(async (endings) => {
    const { gateway, finish } = await prepare(endings, {});
    const gateways = [await gateway('a')] as const;
    return { ...(await finish(gateways)), gateways };
  });
}

type Endings = (() => Promise<unknown>)[];

async function closable<T>(start: (endings: Endings) => Promise<T>): Promise<T & Pick<AnyStand, 'close'>> {
  const endings: Endings = [];
  const close = async () => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  try {
    return { ...(await start(endings)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Writes the files and starts the pet service. @param storeEnv the variables that name the store */
async function prepare(endings: Endings, storeEnv: Readonly<Record<string, string>>, firstBan = FIRST_BAN) {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-console-'));
  endings.push(() => rm(folder, { recursive: true, force: true }));
  let printed = '';
  const serving = async (env: Readonly<Record<string, string>>) => {
    let line: { readonly port: number; readonly admin: number } | null = null;
    const child = startChild({
      args: [TOLLGATE, 'serve'],
      env,
      onLine: (text) => {
        printed += `${text}\n`;
        if (text.endsWith('"msg":"serving"}')) line = JSON.parse(text);
      },
    });
    endings.push(() => child.stop());
    await eventually(
      () => {
        if (line === null) throw new Error(`A gateway does not serve. ${child.printed()}`);
      },
      { withinMs: READY_WITHIN_MS },
    );
    return { ...line!, signal: child.signal };
  };
  const tokens = { viewer: newToken(), operator: newToken(), admin: newToken() };
  const tokensFile = join(folder, 'tokens.yaml');
  const listed = (['viewer', 'operator', 'admin'] as const).map(
    (role) => `- { name: ${PEOPLE[role]}, role: ${role}, token: ${tokens[role]} }\n`,
  );
  await writeFile(tokensFile, listed.join(''), { mode: 0o600 });
  await writeFile(join(folder, 'plans.yaml'), plansWith(firstBan));
  const pets = await startPets({
    host: '127.0.0.1',
    port: 0,
    databaseFile: join(folder, 'pets.db'),
    report: (error) => console.error(error),
  });
  endings.push(() => pets.close());
  await writeFile(join(folder, 'gateway.yaml'), gatewayYaml(pets.port));
  const env = {
    TOLLGATE_CONFIG: join(folder, 'gateway.yaml'),
    TOLLGATE_PLANS: join(folder, 'plans.yaml'),
    KEY_PEPPER: 'the pepper of the stand',
    ADMIN_TOKENS_FILE: tokensFile,
    ...storeEnv,
  };
  const gateway = async (name: string): Promise<Gateway> => {
    const data = join(folder, name);
    await mkdir(data);
    const { port, admin, signal } = await serving({ ...env, TOLLGATE_DATA: data });
    return { origin: `http://127.0.0.1:${port}`, admin: `http://127.0.0.1:${admin}`, signal };
  };
  /** Creates the keys and the customer once the gateways serve. */
  const finish = async (gateways: readonly [Gateway, ...Gateway[]]) => {
    const { keys, customer } = await createRecords(gateways[0].admin, tokens.admin);
    let refused = '';
    const drive = () =>
      driveCallers(gateways, keys, (id) => {
        refused = id;
      });
    return { tokens, keys, customer, refusedRequestId: () => refused, drive, folder, printed: () => printed };
  };
  return { gateway, finish };
}

function newToken(): string {
  return randomBytes(24).toString('base64url');
}

function gatewayYaml(petsPort: number): string {
  return `listen: { port: 0 }
admin: { port: 0, editPlans: true }
redis: { timeout: 2s }
upstreams:
  store: { targets: [http://127.0.0.1:${petsPort}] }
routes:
  - { path: /v1/pets, methods: [GET, POST], upstream: store, cache: true }
  - { path: '/v1/pets/{petId}', methods: [GET], upstream: store, cost: { bytes: { reserve: 300, from: bytes } }, deprecated: { since: 2025-12-05, sunset: 2030-12-05, successor: /v1/pets } }
`;
}

const ATTRIBUTES: Readonly<Record<Part, object>> = {
  banned: { plan: 'free', name: "Jo's pet shop", owner: 'jo@petshop.example', notes: 'Imports the catalogue at noon.' },
  refused: { plan: 'pro', name: 'Vet clinic Berlin', owner: 'it@vet.example', limits: { minute: 30 } },
  near: { plan: 'business', name: 'Paws & Claws', owner: 'ops@paws.example', limits: { minute: 120 } },
  fine: {
    plan: 'enterprise',
    name: 'Zoo of the North',
    owner: 'api@zoo.example',
    limits: { minute: 6000, day: 900_000 },
  },
  hostile: { plan: 'free', name: HOSTILE, owner: '"><script>document.title="broken"</script>' },
  retiring: { plan: 'pro', name: 'Old mobile app', owner: 'mobile@shop.example', expiresAt: '20d' },
  shop: { name: 'Web shop', owner: 'web@acme.example' },
  app: { name: 'Acme app', owner: 'app@acme.example', limits: { minute: 100 } },
};

/** The keys that belong to the customer, which has their plan. */
const OF_CUSTOMER: readonly string[] = ['shop', 'app'] satisfies readonly Part[];

async function createRecords(admin: string, token: string): Promise<Pick<AnyStand, 'keys' | 'customer'>> {
  const create = async (attributes: object, what = 'keys') => {
    const response = await fetch(`${admin}/admin/${what}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(attributes),
    });
    if (response.status !== 201) throw new Error(`This was not created: ${await response.text()}`);
    return (await response.json()) as { id: string; key: string };
  };
  const name = 'Acme Ltd';
  const { id } = await create(
    { plan: 'team', name, owner: 'sales@acme.example', limits: { minute: 900 } },
    'customers',
  );
  const made = new Map<Part, { id: string; key: string }>();
  for (const [part, attributes] of Object.entries(ATTRIBUTES)) {
    const whose = OF_CUSTOMER.includes(part) ? { customer: id } : {};
    made.set(part as Part, await create({ ...attributes, ...whose }));
  }
  for (let i = 1; i <= 30; i++) {
    await create({ plan: ['free', 'pro', 'business'][i % 3], name: `Shop ${i}`, owner: `shop${i}@example.com` });
  }
  const keys = Object.fromEntries(made) as Record<Part, { id: string; key: string }>;
  return { keys, customer: { id, name } };
}

/** Writes the past of two keys into the store, as if they had called for 92 days: the charts show more than a minute. */
async function writePast(redisUrl: string, keys: AnyStand['keys'], customerId: string): Promise<void> {
  const redis = new Redis(redisUrl);
  const present = Math.floor(Date.now() / HOUR_MS);
  for (const { id } of [keys.banned, keys.near, keys.fine]) {
    let history: Uint8Array | null = null;
    for (let hour = present - 24 * 91; hour < present; hour++) {
      const ofDay = hour % 24;
      const isDay = ofDay >= 7 && ofDay <= 20;
      const cost = Math.round((isDay ? 260 : 40) * (1 + 0.5 * Math.sin(hour / 17)) + (hour % 5) * 7);
      history = recordAdmitted(history, hour * HOUR_MS, cost);
      if (id === keys.banned.id && ofDay === 12) history = recordRefused(history, hour * HOUR_MS, 45, 120);
    }
    await redis.set(keyspace.history(id), Buffer.from(history!), 'EX', 92 * 86_400);
  }
  await writeTraffic(redis, customerId);
  redis.disconnect();
}

/** Of each dimension the values, with their part of the requests. */
const TRAFFIC: Readonly<Record<Dimension, readonly (readonly [value: string | null, part: number])[]>> = {
  route: [
    ['/v1/pets', 0.7],
    ['/v1/pets/{petId}', 0.3],
  ],
  plan: [
    ['free', 0.4],
    ['pro', 0.35],
    ['team', 0.25],
  ],
  customer: [
    [null, 0.75],
    ['', 0.25],
  ],
  upstream: [['store', 1]],
};

/** Which past hour no gateway has reported, and which past minutes. In others the service failed. */
export const UNKNOWN = { hour: 30, minutes: [20, 21, 22] } as const;
const FAILED = { hour: 5, minutes: [40, 41, 42, 43, 44] } as const;

/** Writes the traffic of 61 days by hour, and of two hours by minute. The customer is the one of the stand. */
async function writeTraffic(redis: Redis, customerId: string): Promise<void> {
  const names = DIMENSIONS.flatMap((dimension) =>
    TRAFFIC[dimension].map(([value]) => nameOf(dimension, value === '' ? customerId : value)),
  );
  const parts = DIMENSIONS.flatMap((dimension) => TRAFFIC[dimension].map(([, part]) => part));
  const recordOf = (requests: number, errors: number, marks: readonly number[]) => {
    const series = parts.map((part, i) => [DIMENSIONS.length + i, cellsOf(requests * part, errors * part)] as const);
    return encodeRecord(
      { reports: marks.length, lost: 0, marks: new Set(marks), series: new Map(series) },
      names,
      Infinity,
    );
  };
  const set = (part: TrafficPart, at: number, bytes: Uint8Array) =>
    redis.set(keyspace.traffic(part, at), Buffer.from(bytes), 'PX', KEPT_MS[part]);
  const [hour, minute] = [Math.floor(Date.now() / HOUR_MS), Math.floor(Date.now() / PART_MS.minute)];
  const busy = (at: number) => 1 + 0.5 * Math.sin(at / 4) + (at % 24 >= 7 && at % 24 <= 20 ? 1.5 : 0);
  for (let day = Math.floor(hour / 24) - 61; day <= Math.floor(hour / 24); day++)
    await set('names', day, encodeNames(names));
  for (let ago = 1; ago < 24 * 61; ago++) {
    const requests = Math.round(9_000 * busy(hour - ago));
    const marks = Array.from({ length: 60 }, (_, i) => i);
    if (ago !== UNKNOWN.hour)
      await set('hour', hour - ago, recordOf(requests, ago === FAILED.hour ? requests / 4 : 20, marks));
  }
  for (let ago = 1; ago < 120; ago++) {
    const requests = Math.round(150 * busy((minute - ago) / 10));
    const errors = (FAILED.minutes as readonly number[]).includes(ago) ? requests / 3 : 0;
    if (!(UNKNOWN.minutes as readonly number[]).includes(ago))
      await set('minute', minute - ago, recordOf(requests, errors, [1]));
  }
}

function cellsOf(requests: number, errors: number): Cells {
  const cells = newCells();
  const add = (at: number, count: number) => {
    cells[at]! += Math.round(count);
  };
  add(STATUS_CLASSES.indexOf('2xx'), requests - errors);
  add(STATUS_CLASSES.indexOf('5xx'), errors);
  let rest = cells.reduce((sum, count) => sum + count, 0);
  for (const [ms, part] of [
    [250, 0.03],
    [50, 0.12],
    [10, 0.35],
    [5, 1],
  ] as const) {
    const count = Math.min(rest, Math.round(requests * part));
    rest -= count;
    add(STATUS_CLASSES.length + BOUNDS_MS.indexOf(ms), count);
  }
  return cells;
}

/** Callers that call both gateways in turn: one is banned, one refused, one near its limit, one fine, one on the old route. */
function driveCallers(
  gateways: readonly Gateway[],
  keys: AnyStand['keys'],
  onRefused: (requestId: string) => void,
): { stop(): Promise<void> } {
  let turn = 0;
  let isStopped = false;
  const call = async (part: Part | null, path = '/v1/pets?limit=2') => {
    const { origin } = gateways[turn++ % gateways.length]!;
    const headers = part === null ? {} : { Authorization: `Bearer ${keys[part].key}` };
    const response = await fetch(`${origin}${path}`, { headers });
    await response.arrayBuffer();
    if (response.status === 429 && part === 'refused') onRefused(response.headers.get('x-request-id') ?? '');
  };
  const run = async () => {
    for (let i = 0; i < 110; i++) await call('near');
    for (let i = 0; i < 32; i++) await call('refused');
    for (let i = 0; i < 72; i++) await call('banned');
    for (let i = 0; i < 160; i++) await call(i % 2 === 0 ? 'shop' : 'app', i % 5 === 0 ? '/v1/pets/1' : undefined);
    for (let i = 0; i < 5; i++) await call('retiring', `/v1/pets/${i + 1}`);
    for (let round = 0; !isStopped; round++) {
      for (let i = 0; i < 12 + 6 * Math.sin(round / 8); i++) await call('fine');
      if (round % 3 === 0) await call('banned');
      if (round % 7 === 0) await call('refused');
      if (round % 9 === 0) await call(null);
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  };
  const running = run();
  return {
    stop: async () => {
      isStopped = true;
      await running;
    },
  };
}
