import { randomBytes } from 'node:crypto';
import { statfsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { availableParallelism } from 'node:os';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import { partsOfAccount } from '../admit/account-id.ts';
import type { LedgerView } from '../admit/ledger.ts';
import { sealingUnder, UNSEALED } from '../certificates/acme-records.ts';
import type { Variables } from '../config/environment.ts';
import type { Settings } from '../config/settings.ts';
import { outOfDate } from '../config/settings-warnings.ts';
import { Failure } from '../failure.ts';
import { DeadlineError } from '../forward/faults.ts';
import { addressOf, dial } from '../forward/upstream/dial.ts';
import { checkPeppers, type PepperStore } from '../identify/pepper-record.ts';
import { checkNodeInternals } from '../io/node-internals.ts';
import { openFilesLimit } from '../listen/open-files.ts';
import { countLiveKeys, type PlanUserStores } from '../operations/plans-in-use.ts';
import { countSecretsOf, secretCountsReport } from '../operations/secret-counts.ts';
import { unreadableText } from '../operations/unreadable.ts';
import { certificatesIn, openForDiagnosis as openEmbedded } from '../stores/embedded/open.ts';
import type { ServerDiagnosis } from '../stores/redis/diagnosis.ts';
import { findingsOfAcme } from './acme-findings.ts';
import { type CheckedCertificate, checkSettings } from './check-settings.ts';
import { connectionLimitOf, tooFewFiles } from './connection-limit.ts';
import { readUpstreamTls } from './upstreams.ts';

/** One finding of `tollgate doctor`. */
export interface Finding {
  /** What was looked at, in a word or two: `certificate`. */
  readonly check: string;
  /** `fail`: the gateway would not start, or would not do what it promises. */
  readonly state: 'ok' | 'warn' | 'fail';
  /** What was found and, unless it is ok, what to do. It quotes no secret. */
  readonly message: string;
}

const DAY_MS = 86_400_000;
/** Authorities of short-lived certificates renew theirs at a third of 90 days, 30 days before the end. */
const RENEW_WITHIN_MS = 14 * DAY_MS;
/** Windows follow the clock of Redis, but the ends of keys, tokens and deprecations that of the gateway. */
const MAX_CLOCK_DIFFERENCE_MS = 2_000;
const MIN_FREE_BYTES = 200 * 1024 * 1024;

/**
 * Looks at everything on which a gateway with these settings depends, and changes nothing. Each finding is yielded when it is known.
 * @param nowMs Unix milliseconds
 */
export async function* examine(env: Variables, nowMs: () => number): AsyncGenerator<Finding> {
  const { faults, warnings, settings, configuration, certificates } = await checkSettings(env);
  for (const message of faults) yield { check: 'settings', state: 'fail', message };
  // Those of a certificate that is out of date are a finding of its own below, a failure.
  const isOfCertificate = (message: string) => certificates.some((one) => message.includes(` ${one.setting}.cert: `));
  for (const message of warnings) if (!isOfCertificate(message)) yield { check: 'settings', state: 'warn', message };
  if (faults.length === 0 && configuration !== null) {
    const counts = `${amountOf(configuration.settings.routes.length, 'route')}, ${amountOf(configuration.plans.plans.size, 'plan')}`;
    yield {
      check: 'settings',
      state: 'ok',
      message: `gateway.yaml, plans.yaml and the environment are sound: ${counts}.`,
    };
  }
  yield* findingsOfNode(settings);
  if (settings === null) {
    yield { check: 'store', state: 'fail', message: 'Not looked at: correct the settings first, then run this again.' };
    return;
  }
  yield* settings.redis.url === null
    ? findingsOfEmbedded(settings, nowMs)
    : findingsOfRedis(settings, settings.redis.url, nowMs);
  yield* findingsOfTargets(settings, nowMs());
  yield* findingsOfOrders(settings, nowMs());
  for (const certificate of certificates) yield findingOfCertificate(certificate, nowMs());
  yield findingOfOpenFiles(settings);
}

async function* findingsOfNode(settings: Settings | null): AsyncGenerator<Finding> {
  try {
    const tls = settings?.listen.tls ?? settings?.admin.tls;
    const use = { tls: tls != null, http2: settings?.listen.http2 != null };
    const lacking = await checkNodeInternals(use);
    for (const message of lacking) yield { check: 'node', state: 'warn', message };
    if (lacking.length === 0)
      yield { check: 'node', state: 'ok', message: `Node.js ${process.versions.node} has what Tollgate needs.` };
  } catch (error) {
    yield failed('node', error);
  }
}

async function* findingsOfEmbedded(settings: Settings, nowMs: () => number): AsyncGenerator<Finding> {
  const { dataFolder } = settings;
  try {
    const store = openEmbedded(settings);
    if (store === null) {
      const message = `There is no store in ${dataFolder} yet; the first start of a gateway makes it. If keys were made before, set TOLLGATE_DATA or REDIS_URL as then.`;
      yield { check: 'store', state: 'warn', message };
      return;
    }
    try {
      if (store.older !== null) yield { check: 'store', state: 'warn', message: store.older };
      else yield { check: 'store', state: 'ok', message: `The embedded store in ${dataFolder} can be opened.` };
      const records = store.records(nowMs);
      yield* findingsOfPepper(store.pepperRecord, store.peppers(), { ...records, nowMs, where: 'the store' });
      yield* findingsOfRecords(records);
    } finally {
      store.close();
    }
  } catch (error) {
    yield failed('store', error);
  }
  const { bavail, bsize } = statfsSync(dataFolder);
  const free = `${Math.floor((bavail * bsize) / 1024 / 1024)} MiB are free on the disk of ${dataFolder}`;
  yield bavail * bsize < MIN_FREE_BYTES
    ? { check: 'disk', state: 'warn', message: `${free}. Make room: a full disk is an outage of the store.` }
    : { check: 'disk', state: 'ok', message: `${free}.` };
}

/** Imports the client of Redis, which a diagnosis of the embedded store does not need. */
async function openRedis(url: string) {
  return (await import('../stores/redis/open.ts')).openForDiagnosis(url);
}

async function* findingsOfRedis(
  { peppers, usageHistory, redis: { durability } }: Settings,
  url: string,
  nowMs: () => number,
): AsyncGenerator<Finding> {
  try {
    const redis = await openRedis(url);
    try {
      const { faults, warnings } = await redis.inspect(usageHistory);
      for (const message of faults) yield { check: 'redis', state: 'fail', message };
      for (const message of warnings) yield { check: 'redis', state: 'warn', message };
      for (const server of await redis.diagnose(nowMs)) yield* findingsOfServer(server);
      if (faults.length > 0) return;
      yield* findingsOfReplicas(await redis.replicaTrouble(durability.replicas), redis.where);
      const records = redis.records();
      yield* findingsOfPepper(redis.pepperRecord, peppers, { ...records, nowMs, where: redis.where });
      yield* findingsOfRecords(records);
    } finally {
      redis.close();
    }
  } catch (error) {
    yield failed('redis', error);
  }
}

/** @param trouble a sentence each; null if no replica is waited for */
function findingsOfReplicas(trouble: readonly string[] | null, where: string): readonly Finding[] {
  if (trouble === null) return [];
  const check = 'replicas';
  if (trouble.length > 0) return trouble.map((message) => ({ check, state: 'warn', message }));
  return [{ check, state: 'ok', message: `Every replica of Redis at ${where} that may be promoted is connected.` }];
}

/** Commands without which a gateway still decides exactly; what it lacks then is said by the docs of Redis. */
const OPTIONAL_COMMANDS = new Set(['info', 'wait', 'publish', 'subscribe', 'getrange', 'bitfield']);

/** The findings about one server of Redis. */
export function* findingsOfServer(server: ServerDiagnosis): Generator<Finding> {
  const { where, version, latencyMs, clockAheadMs, persistence, memory, denied } = server;
  const named = version === null ? 'Redis' : `Redis ${version}`;
  yield {
    check: 'redis',
    state: 'ok',
    message: `${named} at ${where} answers within ${Math.max(1, Math.ceil(latencyMs))} ms.`,
  };
  yield { check: 'persistence', ...persistenceText(persistence, where) };
  // An unsuitable policy is among the findings of `inspect`.
  if (memory === null) {
    const message = `The user may not ask Redis at ${where} for its memory. See that maxmemory-policy is noeviction, or allow +info.`;
    yield { check: 'memory', state: 'warn', message };
  } else if (memory.policy === 'noeviction' || memory.maxBytes === 0) {
    const bound = memory.maxBytes === 0 ? 'no maxmemory' : `maxmemory ${Math.floor(memory.maxBytes / 1024 / 1024)} MiB`;
    yield {
      check: 'memory',
      state: 'ok',
      message: `Redis at ${where} has ${bound} and maxmemory-policy ${memory.policy}.`,
    };
  }
  yield { check: 'acl', ...aclText(denied, where) };
  const seconds = Math.abs(clockAheadMs / 1_000).toFixed(1);
  yield Math.abs(clockAheadMs) > MAX_CLOCK_DIFFERENCE_MS + latencyMs / 2
    ? {
        check: 'clock',
        state: 'warn',
        message: `The clock of Redis at ${where} is ${seconds} s ${clockAheadMs > 0 ? 'ahead of' : 'behind'} this machine's: keys and tokens end that much off. Run NTP on both.`,
      }
    : { check: 'clock', state: 'ok', message: `The clock of Redis at ${where} is ${seconds} s off.` };
}

function persistenceText(persistence: ServerDiagnosis['persistence'], where: string): Omit<Finding, 'check'> {
  switch (persistence) {
    case 'log':
      return { state: 'ok', message: `Redis at ${where} keeps an append-only file.` };
    case 'snapshots':
      return {
        state: 'warn',
        message: `Redis at ${where} keeps snapshots alone: a crash loses keys that were made or revoked since the last. Set \`appendonly yes\`.`,
      };
    case 'no-log':
      return {
        state: 'warn',
        message: `Redis at ${where} keeps no append-only file: a crash loses keys that were made or revoked before it. Set \`appendonly yes\`.`,
      };
    case 'none':
      return {
        state: 'fail',
        message: `Redis at ${where} keeps nothing on disk: a restart loses every key. Set \`appendonly yes\`.`,
      };
    case 'failing':
      return {
        state: 'fail',
        message: `Redis at ${where} could not write to its disk: see its log, and whether the disk is full.`,
      };
    default:
      return {
        state: 'warn',
        message: `The user may not ask Redis at ${where} whether it keeps its data on disk. See that it has \`appendonly yes\`.`,
      };
  }
}

function aclText(denied: ServerDiagnosis['denied'], where: string): Omit<Finding, 'check'> {
  if (denied === null) {
    const message = `Redis at ${where} cannot report what its user may do; Redis 7 can. Compare its ACL with config/redis.acl.`;
    return { state: 'warn', message };
  }
  if (denied.length === 0)
    return { state: 'ok', message: `The user of Redis at ${where} may call every command that Tollgate uses.` };
  const isFatal = denied.some((command) => !OPTIONAL_COMMANDS.has(command));
  const commands = denied.map((command) => `+${command}`).join(' ');
  return {
    state: isFatal ? 'fail' : 'warn',
    message: `The user of Redis at ${where} lacks \`${commands}\`, or the names ~tg:* or channels &tg:changes:*. Give it what config/redis.acl has.`,
  };
}

async function* findingsOfPepper(
  record: PepperStore,
  peppers: readonly string[],
  { keys, nowMs, where }: Pick<PlanUserStores, 'keys'> & { readonly nowMs: () => number; readonly where: string },
): AsyncGenerator<Finding> {
  const check = 'pepper';
  try {
    const { history } = await checkPeppers(record, peppers, { writes: 'never', random: randomBytes });
    if ((await record.read()) === null) {
      const hasKeys = await record.hasKeys();
      const message = hasKeys
        ? 'The store has keys and no record of their pepper, so KEY_PEPPER cannot be checked. The next start records it.'
        : 'The store has no keys yet; the first start records KEY_PEPPER as its pepper.';
      yield { check, state: hasKeys ? 'warn' : 'ok', message };
      return;
    }
    yield { check, state: 'ok', message: `The pepper is that of the keys in ${where}.` };
    if (history.peppers.length === 1) return;
    const counts = await countSecretsOf(keys, { peppers, nowMs: nowMs(), onPage: () => nextTurn() });
    yield* findingsOfOldPeppers(secretCountsReport(counts, { inUse: peppers.length, formats: [] }));
  } catch (error) {
    yield failed(check, error);
  }
}

/** Of a store whose pepper was changed. */
function* findingsOfOldPeppers({ peppers, oldPepper }: ReturnType<typeof secretCountsReport>): Generator<Finding> {
  const check = 'pepper';
  const listed = (state: string) => `\`tollgate keys list --pepper ${state}\` lists the keys`;
  if (oldPepper === 'not_needed') {
    const message =
      'No secret needs a pepper behind the first. Leave it out of KEY_PEPPER (or remove tollgate.pepper), unless it is the new one of a change that has begun.';
    yield { check, state: 'warn', message };
  } else if (peppers.old > 0) {
    const message = `An older pepper is still needed by ${amountOf(peppers.old, 'secret')}: ${listed('old')}.`;
    yield { check, state: 'ok', message };
  }
  if (peppers.removed > 0) {
    const message = `A pepper that KEY_PEPPER does not have is needed by ${amountOf(peppers.removed, 'secret')}, whose requests get 401: ${listed('removed')}. Add it again, as \`new,old\`, or rotate the keys.`;
    yield { check, state: 'warn', message };
  }
  if (peppers.unknown > 0) {
    const message = `It is not known which pepper ${amountOf(peppers.unknown, 'secret')} will need at the next use: ${listed('unknown')}.`;
    yield { check, state: 'warn', message };
  }
}

/** Reads every key, every customer and every ban. */
async function* findingsOfRecords(stores: PlanUserStores & Pick<LedgerView, 'bans'>): AsyncGenerator<Finding> {
  const check = 'records';
  try {
    let keys = 0;
    const onPage = async (read: number) => {
      keys = read;
      await nextTurn();
      return true;
    };
    const { unreadable } = await countLiveKeys(stores, 0, { onPage });
    const records = unreadableText(unreadable.map((id) => ({ id })));
    const advice = '`tollgate keys show` and `customers show` say where each is and what to do; a backup lacks them.';
    yield records === ''
      ? { check, state: 'ok', message: `${amountOf(keys, 'key')} and every customer can be read.` }
      : { check, state: 'fail', message: `${records}. ${advice}` };
    const ids = (await stores.bans()).filter(({ ban }) => ban === null).map(({ consumerId }) => consumerId);
    if (ids.length === 0) return;
    const counts = unreadableText(ids.map((id) => ({ id: partsOfAccount(id).consumerId ?? id })));
    const where = '`tollgate usage` says where what was counted is, and `tollgate usage reset` sets it to nothing.';
    yield { check, state: 'fail', message: `${counts}. ${where}` };
  } catch (error) {
    yield failed(check, error);
  }
}

/** Connects to every target, as the gateway would for a request, and sends nothing. */
async function* findingsOfTargets({ upstreams }: Settings, nowMs: number): AsyncGenerator<Finding> {
  for (const upstream of upstreams.values()) {
    let tls: ReturnType<typeof readUpstreamTls>;
    try {
      tls = readUpstreamTls(upstream);
    } catch {
      // A fault of the settings, which was reported above.
      continue;
    }
    const { connectTimeoutMs, protocol } = upstream;
    const options = { connectTimeoutMs, protocol, tls };
    const reached = await Promise.all(upstream.targets.map(({ url }) => connectedTo(url, options)));
    const hasOther = reached.some((outcome) => !(outcome instanceof Error));
    for (const [i, outcome] of reached.entries()) {
      const where = `${upstream.targets[i]!.url} of upstream ${upstream.name}`;
      if (outcome instanceof Error) {
        const message = `${where} cannot be reached (${causeOf(outcome)}). Start the service, or correct upstreams.${upstream.name}.targets in gateway.yaml.`;
        yield { check: 'target', state: hasOther ? 'warn' : 'fail', message };
      } else if (outcome.certificateEndsMs !== null && outcome.certificateEndsMs - nowMs < RENEW_WITHIN_MS) {
        const message = `${where} can be reached, but its certificate ends on ${dayOf(outcome.certificateEndsMs)}. Renew it on the service.`;
        yield { check: 'target', state: 'warn', message };
      } else yield { check: 'target', state: 'ok', message: `${where} can be reached.` };
    }
  }
}

function connectedTo(
  target: string,
  options: Parameters<typeof dial>[1],
): Promise<{ readonly certificateEndsMs: number | null } | Error> {
  return new Promise((resolve) => {
    const connected = (socket: Socket) => {
      const end = socket instanceof TLSSocket ? Date.parse(socket.getPeerCertificate().valid_to ?? '') : Number.NaN;
      socket.destroy();
      resolve({ certificateEndsMs: Number.isNaN(end) ? null : end });
    };
    dial(addressOf(target), options, connected, resolve);
  });
}

function causeOf(error: Error): string {
  if (error instanceof DeadlineError) return 'no connection in time';
  return 'code' in error ? String(error.code) : error.message;
}

function findingOfCertificate({ setting, file, validFromMs, expiresAtMs }: CheckedCertificate, nowMs: number): Finding {
  const where = `The certificate of ${setting}, ${file},`;
  const days = Math.floor((expiresAtMs - nowMs) / DAY_MS);
  const wrong = outOfDate({ validFromMs, expiresAtMs }, nowMs);
  if (wrong !== null) return { check: 'certificate', state: 'fail', message: `${where} ${wrong}` };
  if (expiresAtMs - nowMs < RENEW_WITHIN_MS) {
    return {
      check: 'certificate',
      state: 'warn',
      message: `${where} ends in ${days} days, on ${dayOf(expiresAtMs)}. Renew it.`,
    };
  }
  return {
    check: 'certificate',
    state: 'ok',
    message: `${where} is valid until ${dayOf(expiresAtMs)}, in ${days} days.`,
  };
}

/** The certificate that is ordered by ACME, if it is, in either store. */
async function* findingsOfOrders(
  { listen, redis, dataFolder, peppers }: Settings,
  nowMs: number,
): AsyncGenerator<Finding> {
  const acme = listen.tls?.acme ?? null;
  if (acme === null) return;
  try {
    if (redis.url === null) {
      const kept = { store: certificatesIn(dataFolder), sealing: UNSEALED };
      for await (const found of findingsOfAcme(acme, kept, nowMs)) yield { check: 'certificate', ...found };
      return;
    }
    const opened = await openRedis(redis.url);
    try {
      const kept = { store: opened.certificates(), sealing: sealingUnder(peppers) };
      for await (const found of findingsOfAcme(acme, kept, nowMs)) yield { check: 'certificate', ...found };
    } finally {
      opened.close();
    }
  } catch (error) {
    yield failed('certificate', error);
  }
}

function findingOfOpenFiles(settings: Settings): Finding {
  const limit = openFilesLimit();
  const workers =
    settings.redis.url === null ? 1 : settings.workers === 'auto' ? availableParallelism() : settings.workers;
  const part = connectionLimitOf(settings, limit);
  const parts = Array.from({ length: workers }, () => part);
  const message = tooFewFiles(settings, parts, limit);
  if (message !== null) return { check: 'open files', state: 'warn', message };
  const text = Number.isFinite(limit) ? String(limit) : 'without a known limit';
  return {
    check: 'open files',
    state: 'ok',
    message: `This shell may have ${text} files open, enough for ${settings.listen.maxConnections} connections.`,
  };
}

function failed(check: string, error: unknown): Finding {
  if (!(error instanceof Failure)) throw error;
  return { check, state: 'fail', message: error.message };
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** `1 route`, `2 routes`. */
function amountOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
