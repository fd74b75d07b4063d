import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { digestOf, newCustomerId, newKeyId } from '../../../src/identify/api-key.ts';
import type { StoredCustomer, StoredKey } from '../../../src/model/record.ts';
import { keyspace } from '../../../src/stores/redis/keyspace.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { Link } from '../../kit/link.ts';
import { FEATURES, type Settings } from '../features.ts';
import { type KeyLimits, LIMITS } from '../limits.ts';
import { type Started, startProcess, untilListening } from '../process.ts';
import { fillRedis } from '../redis.ts';
import { type KeySet, pooledRandom, type World } from '../world.ts';
import type { Contestant, Running } from './contestant.ts';

/** This checkout. */
export const TOLLGATE = join(import.meta.dirname, '..', '..', '..');
const PEPPER = 'a pepper for the bench alone';
const MUST_NOT_GROW = ['tollgate_log_lines_dropped_total', 'tollgate_store_failures_total'];

/**
 * The gateway of this checkout as it runs in production: on Redis, with a line in a file for each request, usage history, an
 * admin token, so that it keeps what the console shows, and metrics that are scraped every second. With `--bare` it has
 * neither the token nor the scraper.
 */
export const tollgate = contestant('tollgate', 'Tollgate', { workers: 1, checkout: TOLLGATE });
export const tollgateWith2Workers = contestant('tollgate-2-workers', 'Tollgate, 2 workers', {
  workers: 2,
  checkout: TOLLGATE,
});

/** The same without the token and the scraper; and with the screen Now open. */
export const tollgateBare = contestant('tollgate-bare', 'Tollgate, bare', {
  workers: 1,
  checkout: TOLLGATE,
  isBare: true,
});
export const tollgateWatched = contestant('tollgate-watched', 'Tollgate, watched', {
  workers: 1,
  checkout: TOLLGATE,
  isWatched: true,
});

/** One gateway for each feature, and one for each load without any. */
export const tollgateWithFeatures: readonly Contestant[] = FEATURES.map(({ name, title, settings, load, proof }) => ({
  ...contestant(name, title, { workers: 1, checkout: TOLLGATE, settings }),
  load,
  ...(proof === null ? {} : { proof }),
}));

/** The gateway of another checkout, whose dependencies are installed. */
export function tollgateBefore(folder: string): Contestant {
  return contestant('tollgate-before', 'Tollgate before', { workers: 1, checkout: folder });
}

/** A gateway whose allocations can be asked for. */
export interface GatewayToGuard {
  readonly port: number;
  readonly pid: number;
  readonly redisPort: number;
  /** Where it writes them at SIGUSR2, see guard/allocated-bytes.ts. */
  readonly bytesFile: string;
}

/** The gateway of a checkout as in production, for `--guard`. */
export async function startForGuard(world: World): Promise<GatewayToGuard> {
  const bytesFile = join(world.folder, 'allocated-bytes');
  const preload = join(import.meta.dirname, '..', 'guard', 'allocated-bytes.ts');
  const { port, pid, redis } = await start(world, 'tollgate-guarded', {
    workers: 1,
    checkout: TOLLGATE,
    counting: { preload, bytesFile },
  });
  return { port, pid, redisPort: redis!.port, bytesFile };
}

interface Which {
  readonly workers: number;
  /** Its folder. */
  readonly checkout: string;
  /** Without an admin token, and its metrics are not scraped. */
  readonly isBare?: true;
  /** Somebody has the screen Now open. */
  readonly isWatched?: true;
  readonly settings?: Settings;
  /** A module that is loaded before the gateway and counts what that allocates, and the file for the figure. Nobody scrapes it. */
  readonly counting?: { readonly preload: string; readonly bytesFile: string };
}

function contestant(name: Contestant['name'], title: string, which: Which): Contestant {
  const claims = { checksKeys: true, limits: true, proxies: true };
  return { name, title, claims, start: (world) => start(world, name, which) };
}

async function start(world: World, name: string, which: Which): Promise<Running> {
  const { workers, checkout, settings, counting } = which;
  const program = shippedProgram(checkout);
  const isBare = which.isBare === true || world.isBare;
  const redis = await world.redis();
  const owner = {
    keyId: newKeyId(pooledRandom),
    customerId: settings?.ofCustomer ? newCustomerId(pooledRandom) : null,
  };
  await fillRedis(redis.port, commandsOf(world.keys, owner));
  const [port, adminPort] = [await freePort(), await freePort()];
  // A folder of its own: a gateway reads its settings again when they change.
  const folder = join(world.folder, name);
  await mkdir(folder);
  const { upstreamPort } = world;
  const redisPort =
    settings?.redisDelayMs === undefined ? redis.port : await farAway(world, redis, settings.redisDelayMs);
  const place = {
    ...{ upstreamPort, port, adminPort, redisUrl: `redis://127.0.0.1:${redisPort}`, workers, isBare },
    isGuarded: counting !== undefined,
    listen: listenOf(world),
  };
  const env = await writeSettings(folder, place, settings);
  const gateway = startProcess({
    name,
    command: process.execPath,
    args: [
      ...(await flagsOf(program)),
      ...(counting === undefined ? [] : ['--import', counting.preload]),
      program,
      'serve',
    ],
    env: counting === undefined ? env : { ...env, ALLOCATED_BYTES_FILE: counting.bytesFile },
    folder,
  });
  world.atEnd(gateway.stop);
  await untilListening(gateway, port);
  if (!isBare && counting === undefined) world.atEnd(scrape(adminPort));
  if (which.isWatched) world.atEnd(await watch(adminPort));
  if (workers > 1 && !(await says(gateway, `"workers":${workers},`))) {
    throw new Error(`the gateway does not say that it runs ${workers} workers`);
  }
  return {
    port,
    pid: gateway.pid,
    version: `${checkout === TOLLGATE ? 'of this checkout' : `of ${checkout}`}, Node.js ${process.versions.node}`,
    redis,
    accounts: `tg:a:{${owner.customerId ?? owner.keyId}}*`,
    tidy: gateway.dropOutput,
    mishaps: () => mishapsAt(adminPort),
  };
}

/** @returns the port of a proxy to a Redis, on the way to which commands and replies take a while */
async function farAway(world: World, { port }: { readonly port: number }, delayMs: number): Promise<number> {
  const link = await Link.open(port);
  world.atEnd(() => link.close());
  link.become('pass', delayMs);
  return link.port;
}

/** The programs that `shippedProgram` has built, by checkout. */
const SHIPPED = new Map<string, string>();

/**
 * The bin/tollgate.js that the package and the image of a checkout have. It is built of the sources of the checkout; earlier checkouts ship
 * the sources themselves.
 */
export function shippedProgram(checkout: string): string {
  const present = SHIPPED.get(checkout);
  if (present !== undefined) return present;
  const builder = join(checkout, 'tools', 'package', 'program-main.ts');
  const isBundled = existsSync(builder);
  const folder = isBundled ? join(checkout, 'dist', 'bench') : checkout;
  if (isBundled) execFileSync(process.execPath, [builder, folder], { stdio: ['ignore', 'ignore', 'inherit'] });
  const program = join(folder, 'bin', 'tollgate.js');
  SHIPPED.set(checkout, program);
  return program;
}

/** The options of Node.js with which a checkout runs its gateway: those of its command, or of `npm start` in earlier ones. */
async function flagsOf(program: string): Promise<string[]> {
  const folder = join(program, '..');
  const [file, pattern] = existsSync(join(folder, 'tollgate'))
    ? [join(folder, 'tollgate'), /^ *exec "\$node" (.*) "\$here\/tollgate\.js"/m]
    : [join(folder, '..', 'package.json'), /"exec node (.*?) ?bin\/tollgate\.js/];
  const [, flags] = pattern.exec(await readFile(file, 'utf8')) ?? [];
  if (flags === undefined) throw new Error(`${file} does not say how the gateway is started`);
  return flags.split(' ').filter((flag) => flag !== '');
}

const SCRAPE_EVERY_MS = 1_000;
const ADMIN_TOKEN = 'an-admin-token-for-the-bench';

/** Reads the metrics as a Prometheus does, more often than most. @returns a function that stops it */
function scrape(adminPort: number): () => Promise<void> {
  const read = () => fetch(metricsOf(adminPort)).then((response) => response.arrayBuffer());
  const timer = setInterval(() => void read().catch(() => {}), SCRAPE_EVERY_MS);
  return async () => clearInterval(timer);
}

/** Follows what the screen Now shows. @returns a function that stops it */
async function watch(adminPort: number): Promise<() => Promise<void>> {
  const stop = new AbortController();
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}` };
  const { status, body } = await fetch(`http://127.0.0.1:${adminPort}/admin/events/now`, {
    headers,
    signal: stop.signal,
  });
  if (status !== 200) throw new Error(`the stream of the console has status ${status}`);
  const following = body!.pipeTo(new WritableStream()).catch(() => {});
  return async () => {
    stop.abort();
    await following;
  };
}

/** Its log is written behind its back, so what it says at the start may come a little later. */
async function says({ printed }: Started, words: string): Promise<boolean> {
  for (let i = 0; i < 50 && !printed().includes('"msg":"serving"'); i++) await delay(20);
  return printed().includes(words);
}

export interface Place {
  readonly upstreamPort: number;
  readonly port: number;
  readonly adminPort: number;
  readonly redisUrl: string;
  readonly workers: number;
  /** Without an admin token. */
  readonly isBare: boolean;
  /**
   * Whether unknown keys get 429 from the first on, and Redis may take long. With attempts for each minute, on a slow machine a minute
   * ends while the guard counts, and the next requests get 401; with the usual timeout some get 503.
   */
  readonly isGuarded?: boolean;
  /** Settings of the public listener. */
  readonly listen?:
    | { readonly tls?: { readonly cert: string; readonly key: string }; readonly maxBodyBytes?: string }
    | undefined;
}

/** Writes the two settings files. @returns the environment that goes with them */
export async function writeSettings(
  folder: string,
  place: Place,
  settings?: Settings,
): Promise<Record<string, string>> {
  const { upstreamPort, port, adminPort, redisUrl, workers, isBare, isGuarded, listen } = place;
  const gatewayFile = join(folder, 'gateway.yaml');
  const plansFile = join(folder, 'plans.yaml');
  await writeFile(
    gatewayFile,
    gatewayYaml(upstreamPort, settings, listen, isGuarded === true ? { redis: { timeout: '5s' } } : {}),
  );
  await writeFile(plansFile, plansYaml(settings ?? {}, isGuarded === true ? { minute: 0 } : {}));
  return {
    TOLLGATE_CONFIG: gatewayFile,
    TOLLGATE_PLANS: plansFile,
    PORT: String(port),
    ADMIN_PORT: String(adminPort),
    REDIS_URL: redisUrl,
    KEY_PEPPER: PEPPER,
    WORKERS: String(workers),
    ...(isBare ? {} : { ADMIN_TOKEN }),
    // The service takes the spans as well: it answers whatever comes.
    ...(settings?.traces ? { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${upstreamPort}` } : {}),
  };
}

function listenOf({ certificate, scenario }: World): Place['listen'] {
  if (scenario.family !== 'bodies') return undefined;
  const tls = certificate === null ? {} : { tls: { cert: certificate.cert, key: certificate.key } };
  return { ...tls, maxBodyBytes: '8MiB' };
}

/** The route whose requests cost 2. */
export const COSTLY = '/v1/costly';
/** What the loads and proofs of features ask for besides. */
const OF_FEATURES = [
  '/v1/pets/{petId}',
  '/v1/list',
  '/v1/fresh',
  '/v1/chat',
  '/v1/stream',
  '/v1/silent',
  '/v1/needs/{field}',
];

/**
 * Every setting that the upstream does not need is left at what it is when nobody sets it, but for the queue: one key on
 * 512 connections has to fit into the share of one consumer, which is a quarter of it.
 */
function gatewayYaml(
  upstreamPort: number,
  settings: Settings | undefined,
  listen: Place['listen'],
  others: Readonly<Record<string, unknown>>,
): string {
  const { gateway, upstream, route, pathPrefix = '' } = settings ?? {};
  const routeOf = (path: string, methods: readonly string[]) => ({
    path: `${pathPrefix}${path}`,
    methods,
    upstream: 'store',
    ...route,
  });
  const upstreams = { store: { targets: [`http://127.0.0.1:${upstreamPort}`], maxQueue: 2048, ...upstream } };
  const deprecated = { since: '2026-01-01', sunset: '2099-01-01', successor: '/v1/pets' };
  const routes = [
    routeOf('/v1/pets', ['GET', 'POST']),
    routeOf('/v1/large', ['GET']),
    { path: '/v0/pets', methods: ['GET'], upstream: 'store', deprecated },
    { path: COSTLY, methods: ['GET'], upstream: 'store', cost: 2 },
  ];
  if (settings !== undefined) routes.push(...OF_FEATURES.map((path) => routeOf(path, ['GET'])));
  // JSON is YAML.
  if (listen?.maxBodyBytes !== undefined) routes.push(routeOf('/v1/bytes/{count}', ['GET', 'POST']));
  return JSON.stringify({ ...(listen === undefined ? {} : { listen }), ...others, ...gateway, upstreams, routes });
}

/** The day of a banned key is spent first, and then the tenth refusal bans it for longer than the bench takes. */
function plansYaml({ windows, plan }: Settings, failedAuthentication: { readonly minute?: number }): string {
  const limitsOf = ({ minute, day }: KeyLimits) => {
    if (windows === undefined) return { minute, day };
    // A minute has no calendar.
    const isCalendar = windows.align !== undefined;
    return { minute: isCalendar ? minute : { limit: minute, ...windows }, day: { limit: day, ...windows } };
  };
  const plans = {
    good: { limits: limitsOf(LIMITS.good), ...plan },
    tiny: { limits: limitsOf(LIMITS.tiny), bans: 'off' },
    spent: { limits: limitsOf(LIMITS.spent), bans: 'off' },
    banned: { limits: limitsOf(LIMITS.banned), bans: { first: '24h' } },
  };
  return JSON.stringify({ plans, 'failed-authentication': failedAuthentication });
}

/** The records that `tollgate keys create` makes, without a process for each. */
function* commandsOf({ good, tiny, spent, banned }: KeySet, owner: Owner): Generator<readonly string[]> {
  const [first, ...others] = good;
  if (owner.customerId === null) yield* keyOf(first!, 'good', owner.keyId);
  else {
    yield* customerOf(owner.customerId, 'good');
    yield* keyOf(first!, 'good', owner.keyId, owner.customerId);
  }
  for (const secret of others) yield* keyOf(secret, 'good');
  yield* keyOf(tiny, 'tiny');
  yield* keyOf(spent, 'spent');
  yield* keyOf(banned, 'banned');
}

/** Of the first key of a load. */
interface Owner {
  readonly keyId: string;
  /** Null for a key without a customer. */
  readonly customerId: string | null;
}

function* customerOf(id: string, plan: string): Generator<readonly string[]> {
  const createdAtMs = Date.now();
  const customer: StoredCustomer = { id, plan, limits: {}, name: 'bench', owner: null, createdAtMs, expiresAtMs: null };
  yield ['ZADD', keyspace.customers, String(createdAtMs), id];
  yield ['SET', keyspace.customer(id), JSON.stringify(customer)];
}

function* keyOf(
  secret: string,
  plan: string,
  id = newKeyId(pooledRandom),
  customerId: string | null = null,
): Generator<readonly string[]> {
  const createdAtMs = Date.now();
  const digest = digestOf(secret, PEPPER);
  const key: StoredKey = {
    id,
    plan,
    limits: {},
    name: 'bench',
    owner: null,
    createdAtMs,
    expiresAtMs: null,
    revokedAtMs: null,
    secrets: [{ digest, last4: secret.slice(-4), createdAtMs, expiresAtMs: null }],
    ...(customerId === null ? {} : { customer: customerId }),
  };
  if (customerId !== null) yield ['ZADD', keyspace.keysOfCustomer(customerId), String(createdAtMs), id];
  yield ['SET', keyspace.digest(digest), key.id];
  yield ['ZADD', keyspace.apiKeys, String(createdAtMs), key.id];
  yield ['SET', keyspace.apiKey(key.id), JSON.stringify(key)];
}

/** A log line dropped or a decision made without Redis would make a request cheaper than it is. */
async function mishapsAt(adminPort: number): Promise<Map<string, number>> {
  const text = await (await fetch(metricsOf(adminPort))).text();
  return new Map(MUST_NOT_GROW.map((name) => [name, Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)?.[1] ?? 0)]));
}

function metricsOf(adminPort: number): string {
  return `http://127.0.0.1:${adminPort}/metrics`;
}
