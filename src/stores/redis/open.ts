import { randomBytes } from 'node:crypto';
import { Failure } from '../../failure.ts';
import { checkPeppers, type PepperStore, UNVERIFIED } from '../../identify/pepper-record.ts';
import type { StoreChange } from '../../identify/record-store.ts';
import { RedisAudit } from './audit.ts';
import { RedisCertificateStore } from './certificates.ts';
import { RedisChanges } from './changes.ts';
import { connectRedis, describeAddress, readRedisUrl, untilReady, watchTrouble } from './connection.ts';
import { redisCustomers } from './customers.ts';
import { RedisDeprecatedCalls } from './deprecated-calls.ts';
import { diagnose } from './diagnosis.ts';
import { DurableWrites, type LostChanges } from './durable-writes.ts';
import { RedisExplanations } from './explanations.ts';
import { RedisAttemptCounter } from './failed-attempts.ts';
import { RedisFleet } from './fleet.ts';
import { RedisHistory } from './history.ts';
import { type Findings, insistOnServers, inspect, watchServers } from './inspection.ts';
import { RedisKeyNetworks } from './key-networks.ts';
import { RedisKeys } from './keys.ts';
import { RedisLedger } from './ledger.ts';
import { RedisPepperRecord } from './pepper-record.ts';
import { RedisPlansHistory } from './plans-history.ts';
import { ReplicaWatch, troubleOf } from './replica-watch.ts';
import { Replication, type WantedReplicas } from './replication.ts';
import { RedisSecretUses } from './secret-uses.ts';
import { serverClocks } from './server-clocks.ts';
import { circuitFor, PatientCalls } from './shards.ts';
import { RedisTraffic } from './traffic.ts';
import { RedisUsageReconciler, trialOn } from './usage-reconciler.ts';

// Opens the store in Redis: for a command, for a gateway, or for `tollgate doctor`.

/** The settings that the store needs. */
interface RedisSettings {
  readonly url: string;
  /** The peppers, newest first; at least one. */
  readonly peppers: readonly string[];
  readonly durability: { readonly replicas: WantedReplicas; readonly timeoutMs: number };
  /** True if the store keeps a history of each consumer's usage. */
  readonly usageHistory: boolean;
}

/** Deadlines for the connection of a command and for each call. They are longer than those of a request, because a person waits. */
const CONNECT_WITHIN_MS = 1_500;
const CALL_WITHIN_MS = 2_500;
/**
 * A command waits at least this long until a change is durable: enough for the Sentinels to complete a failover. A gateway repeats
 * a change that a failover has undone; a command ends, and cannot.
 */
const DURABLE_WITHIN_MS = 15_000;

/** The connection of a command. @throws Failure `store_unavailable` */
async function connectForCommand(url: string) {
  const redis = connectRedis({ url, connectTimeoutMs: CONNECT_WITHIN_MS });
  // The circuit never opens, because a command has no later calls that would notice the store's return.
  const circuit = circuitFor(redis, {
    timeoutMs: CALL_WITHIN_MS,
    failures: Number.POSITIVE_INFINITY,
    probeEveryMs: CALL_WITHIN_MS,
  });
  const disconnect = () => {
    circuit.close();
    redis.disconnect();
  };
  try {
    await untilReady(redis, CONNECT_WITHIN_MS);
    return { redis, circuit, disconnect };
  } catch (error) {
    disconnect();
    throw error;
  }
}

interface RedisCommand extends RedisSettings {
  /** `always`: the command records its peppers as those in use. */
  readonly writesPeppers: 'always' | 'never';
}

/**
 * Opens the store for one command.
 * @throws Failure `store_unavailable` within 3 s if Redis does not answer; `bad_settings` if its version or settings make counts
 *   unreliable; `pepper_mismatch`, `store_corrupt`
 */
export async function openForCommand({ url, peppers, usageHistory, durability, writesPeppers }: RedisCommand) {
  const { redis, circuit, disconnect } = await connectForCommand(url);
  try {
    const warnings = await circuit.run(() => insistOnServers(redis, usageHistory));
    const check = { writes: writesPeppers, random: randomBytes };
    const { history, unverified } = await checkPeppers(new RedisPepperRecord({ redis, circuit }), peppers, check);
    const changes = new RedisChanges({ redis, circuit });
    const publish = (change: StoreChange) => changes.publish(change);
    const timeoutMs = Math.max(durability.timeoutMs, DURABLE_WITHIN_MS);
    const writes = new DurableWrites({ redis, replicas: durability.replicas, timeoutMs });
    const changing = { redis, circuit, publish, writes };
    return {
      name: nameOf(url),
      warnings: [...warnings, ...(unverified ? [UNVERIFIED] : [])],
      peppers,
      pepperHistory: history,
      ...storesOn(changing),
      ledger: new RedisLedger(changing),
      close: async () => {
        writes.close();
        disconnect();
      },
    };
  } catch (error) {
    disconnect();
    throw error;
  }
}

/** The stores that a command and a gateway both open (`Stores` of operations/stores.ts), but for the ledger. */
export function storesOn(
  options: ConstructorParameters<typeof RedisKeys>[0] & ConstructorParameters<typeof RedisHistory>[0],
) {
  return {
    keys: new RedisKeys(options),
    customers: redisCustomers(options),
    history: new RedisHistory(options),
    audit: new RedisAudit(options),
    plansHistory: new RedisPlansHistory(options),
    deprecatedCalls: new RedisDeprecatedCalls(options),
    secretUses: new RedisSecretUses(options),
    explanations: new RedisExplanations(options),
    keyNetworks: new RedisKeyNetworks(options),
    traffic: new RedisTraffic(options),
    cachePurges: { announce: (purge: string) => options.publish({ kind: 'cache', keyId: purge }) },
  };
}

/** The name of the store for messages, without any password. */
function nameOf(url: string): string {
  return `Redis at ${describeAddress(readRedisUrl(url))}`;
}

interface RedisGateway extends RedisSettings {
  /** Deadline of a call that a request waits for. */
  readonly timeoutMs: number;
  /** True if the gateway orders a certificate by ACME, so that it needs the records of ACME. */
  readonly usesAcme: boolean;
  readonly wallMs: () => number;
  /** Compares the peppers with the record of the store. If it throws, the store stays closed. */
  readonly checkPeppers: (record: PepperStore, peppers: readonly string[]) => Promise<void>;
  readonly onChange: (state: 'present' | 'away', reason?: string) => void;
  readonly onFailure: (error: unknown) => void;
  readonly onWarning: (sentence: string) => void;
  readonly onLostChanges: (loss: LostChanges) => void;
  /** Called when the trouble with replicas has changed. If it is left out, the store does not watch them. */
  readonly onReplicas?: (trouble: readonly string[]) => void;
}

/** After this number of failed calls in a row, no request waits for Redis until a probe succeeds (contract section 6). */
const FAILURES = 3;
const PROBE_EVERY_MS = 200;
/** Deadline of a call of the admin API: a person waits longer than a request. */
const CALL_OF_PERSON_WITHIN_MS = 2_000;
/** A start waits this long for Redis before it continues without it. */
const REACHED_WITHIN_MS = 1_000;
/** Maximum different errors that the gateway logs while Redis is disconnected. */
const MAX_ERRORS = 20;

/**
 * Opens the store for a gateway. If Redis does not answer in time, the gateway starts without it (contract section 6).
 * @throws Failure `bad_settings` if the version or the settings of Redis make counts unreliable, and as `checkPeppers`
 */
export async function openForGateway(gateway: RedisGateway) {
  const { durability, peppers, wallMs, onReplicas } = gateway;
  const { redis, circuit, trouble, disconnect } = await connectForGateway(gateway);
  const changes = new RedisChanges({ redis, circuit });
  const publish = (change: StoreChange) => changes.publish(change);
  const writes = new DurableWrites({ redis, ...durability, onLoss: gateway.onLostChanges });
  const changing = { redis, circuit, publish, writes };
  const patient = {
    ...changing,
    circuit: new PatientCalls(circuit, Math.max(gateway.timeoutMs, CALL_OF_PERSON_WITHIN_MS)),
    wallMs,
  };
  const replicas =
    onReplicas === undefined || durability.replicas === 0
      ? null
      : new ReplicaWatch({ redis, wanted: durability.replicas, onChange: onReplicas });
  return {
    ...storesOn({ ...changing, wallMs }),
    ledger: new RedisLedger({ ...changing, wallMs, onUnrecorded: warnOfHistory(gateway.onWarning) }),
    forOperators: { ...storesOn(patient), ledger: new RedisLedger(patient) },
    reconciler: new RedisUsageReconciler({ redis, circuit, wallMs }),
    attempts: new RedisAttemptCounter({ redis, circuit }),
    fleet: new RedisFleet({ redis, circuit }),
    certificates: gateway.usesAcme ? new RedisCertificateStore({ redis, circuit }) : null,
    changes,
    recalls: changes.recalls,
    peppers,
    serverTimes: () => serverClocks(redis, circuit),
    state: () => (!circuit.reached ? 'never_reached' : circuit.state === 'present' ? 'present' : 'away'),
    replicaTrouble: () => replicas?.trouble ?? [],
    trouble,
    close: async () => {
      replicas?.close();
      changes.close();
      writes.close();
      disconnect();
    },
  } as const;
}

/** Warns at most once a minute: each request of the consumer finds its history again. */
function warnOfHistory(onWarning: (sentence: string) => void): (history: string) => void {
  let nextAtMs = Number.NEGATIVE_INFINITY;
  return (history) => {
    const nowMs = performance.now();
    if (nowMs < nextAtMs) return;
    nextAtMs = nowMs + 60_000;
    onWarning(
      `Nothing is recorded in the usage history ${history} in Redis, because it cannot be read. Put it right there, or remove it, so that a new one begins.`,
    );
  };
}

async function connectForGateway(gateway: RedisGateway) {
  const { url, peppers, timeoutMs, usageHistory, onChange, onFailure, onWarning } = gateway;
  const errors = withoutRepeats(onFailure);
  const redis = connectRedis({ url, connectTimeoutMs: 1_000 });
  const failure = watchTrouble(redis);
  // `/readyz` shows it to anyone, so it contains no address.
  const trouble = () => failure('Redis')?.message ?? null;
  const report = () => errors.report(failure());
  for (const event of ['error', 'node error'] as const) redis.on(event, report);
  redis.on('ready', errors.forget);
  const circuit = circuitFor(redis, {
    timeoutMs,
    failures: FAILURES,
    probeEveryMs: PROBE_EVERY_MS,
    ...trialOn(redis),
    onChange: (state, change) => onChange(state, change?.reason),
    trouble,
    onShardChange: (address, state) => onWarning(`The part of the cluster at ${address} is ${state}.`),
  });
  watchServers(redis, usageHistory, onWarning);
  const disconnect = () => {
    circuit.close();
    redis.disconnect();
  };
  try {
    await untilReady(redis, REACHED_WITHIN_MS)
      .then(() => circuit.run(() => redis.ping()))
      .then(() => circuit.run(() => insistOnServers(redis, usageHistory)))
      .catch((error) => {
        if (error instanceof Failure && error.code === 'bad_settings') throw error;
        errors.report(failure() ?? error);
      });
    await gateway.checkPeppers(new RedisPepperRecord({ redis, circuit }), peppers);
    return { redis, circuit, trouble, disconnect };
  } catch (error) {
    disconnect();
    throw error;
  }
}

/** Reports each failure once. The client repeats it four times a second while Redis, or a node of a cluster, is away. */
function withoutRepeats(onFailure: (error: unknown) => void) {
  const reported = new Set<string>();
  return {
    report: (error: unknown) => {
      const text = error instanceof Error ? error.message : String(error);
      if (error === null || reported.has(text) || reported.size > MAX_ERRORS) return;
      reported.add(text);
      onFailure(error);
    },
    forget: () => reported.clear(),
  };
}

/** Connects for `tollgate doctor`, which writes nothing. @throws Failure `store_unavailable` */
export async function openForDiagnosis(url: string) {
  const { redis, circuit, disconnect } = await connectForCommand(url);
  return {
    /** The address without any password. */
    where: describeAddress(readRedisUrl(url)),
    inspect: (usageHistory: boolean): Promise<Findings> => circuit.run(() => inspect(redis, usageHistory)),
    diagnose: (wallMs: () => number) => circuit.run(() => diagnose(redis, wallMs)),
    /** What operators must know about the replicas, one sentence each. Null if the settings want no replica. */
    replicaTrouble: async (replicas: WantedReplicas) => {
      const replication = new Replication({ client: redis, wanted: replicas });
      return replication.wanted === 0 ? null : ((await troubleOf(replication)) ?? []);
    },
    pepperRecord: new RedisPepperRecord({ redis, circuit }),
    /** For reading only. */
    records: () => {
      const writes = new DurableWrites({ redis, replicas: 0, timeoutMs: 0 });
      const options = { redis, circuit, publish: async () => {}, writes };
      const ledger = new RedisLedger(options);
      return {
        keys: new RedisKeys(options),
        customers: redisCustomers(options),
        bans: () => ledger.bans(),
      } as const;
    },
    /** The records of the certificates that gateways order by ACME. */
    certificates: () => new RedisCertificateStore({ redis, circuit }),
    close: disconnect,
  };
}
