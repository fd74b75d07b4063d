import { type Counter, collectDefaultMetrics } from 'prom-client';
import type { LocalCount } from '../admit/decide-locally.ts';
import type { ReconcileOutcome } from '../admit/usage-backlog.ts';
import type { RetryOutcome } from '../forward/upstream/retry-budget.ts';
import type { TunnelEnd } from '../forward/websocket/tunnel.ts';
import { CACHE_USES, type Exchange } from '../gateway/exchange.ts';
import { statusClass } from '../http1/response-head.ts';
import { SECRET_PEPPERS, type SecretPepper } from '../identify/secret-marks.ts';
import { WINDOWS, type WindowName } from '../model/values.ts';
import type { PolicyDecision } from '../policies/chain.ts';
import { type ConnectionMetrics, connectionMetrics } from './connection-metrics.ts';
import { Durations, RequestTally } from './durations.ts';
import { MetricRegistry } from './metric-registry.ts';
import { type UnitMetrics, unitMetrics } from './unit-metrics.ts';

export interface GatewayMetrics
  extends ConnectionMetrics,
    WebSocketMetrics,
    SettingsMetrics,
    OutageMetrics,
    CacheMetrics,
    UnitMetrics {
  readonly registry: MetricRegistry;
  record(exchange: Exchange): void;
  /** A request whose head could not be parsed was answered with this error code. */
  unparsed(code: string): void;
  /** An upstream has sent bytes that answer no request. */
  unaskedAnswer(upstream: string): void;
  /** A retry has ended, or was not made because the budget of the upstream was used up. */
  retried(upstream: string, outcome: RetryOutcome): void;
  /** A policy has run. @param ms how long it was waited for */
  policyRan(policy: string, outcome: PolicyDecision['kind'], ms: number): void;
  /** What a policy has begun has failed, and no request waited for it. */
  policyStrayed(policy: string): void;
  storeFailed(): void;
  /** A secret that was found under an older pepper is stored under the newest. */
  secretRehashed(): void;
  /** The record of an operator's change is missing or lacks the outcome. */
  auditFailed(): void;
  /** The store has lost acknowledged changes. */
  changesLost(): void;
  logLineDropped(): void;
}

/** The values that are read at each scrape. */
export interface Gauges {
  readonly connections: () => number;
  readonly inFlight: () => number;
  /** Whether the gateway accepts no new connections because its heap or its container is nearly full; absent if nothing watches them. */
  readonly isShortOfMemory?: () => boolean;
  readonly upstreams: () => Iterable<UpstreamState>;
  /** 1 present, 0 away. */
  readonly store: () => number;
  /** Whether the peppers differ from those of the store. */
  readonly isPepperWrong?: () => boolean;
  /** How many secrets that work are under such a pepper; null if that was not counted. */
  readonly secretPeppers?: () => Readonly<Record<SecretPepper, number>> | null;
  /** By how many milliseconds the clocks of the store and of this machine differ. */
  readonly storeClockDiffersByMs?: () => number;
  /** How many replicas of the store are away or behind. */
  readonly replicasAway?: () => number;
  /** When the certificate in force expires, in Unix milliseconds; null or absent without TLS. */
  readonly certificateExpiresAtMs?: () => number | null;
  /** The versions of the settings and plans in force. */
  readonly versions?: () => Versions;
  /** The names of the policies of all routes, with repetitions; absent if there are none. */
  readonly policies?: () => readonly string[];
  /** The files whose present content has faults. */
  readonly refusedFiles?: () => readonly (keyof Versions)[];
  /** Whether the gateway has the keys of the tokens' issuer; null or absent if it accepts no tokens. */
  readonly tokenKeysUp?: () => boolean | null;
  /** The number of open WebSockets. */
  readonly webSockets?: () => number;
  /** The time of the serving thread; absent if nothing measures it. */
  readonly thread?: ThreadUse;
}

/** How consumers use the thread that serves them. */
interface ThreadUse {
  /** Milliseconds of work for all consumers. */
  readonly workedMs: number;
  /** How often the work of a consumer had to wait for its turn, and how often a request was refused because its turn came late. */
  readonly waited: number;
  readonly late: number;
  /** What the busiest consumer had of the thread in the last second, from 0 to 1. */
  readonly largestPart: number;
}

/** The state of an upstream and its targets. */
export interface UpstreamState {
  readonly name: string;
  readonly inFlight: number;
  readonly targets: readonly { readonly name: string; readonly usable: boolean; readonly weight: number }[];
}

/** The supervisor counts these. A gateway without a supervisor shows 0, so that the metric always exists. */
export const WORKERS_LOST = [
  'tollgate_workers_lost_total',
  'Workers that stopped responding or ended unexpectedly.',
] as const;
/** The supervisor counts these too. Each of them is also a lost worker. */
export const WORKERS_STUCK = [
  'tollgate_workers_stuck_total',
  'Workers that were killed because they no longer turned.',
] as const;
/** With several workers the supervisor counts these, because it serves the admin API. */
export const AUDIT_FAILURES = [
  'tollgate_audit_failures_total',
  'Changes by operators whose record is missing or lacks its outcome.',
] as const;
/** Like those: the process that serves the admin API makes the changes. */
export const CHANGES_LOST = [
  'tollgate_changes_lost_total',
  'Times that the store had lost changes to keys and bans that this gateway had acknowledged.',
] as const;
/** The error code of every refusal of a policy, which chooses its codes itself. */
const BY_POLICY = 'policy';
/** By status: that of a client that has left, and the class of each other one. */
const STATUS_LABELS = Array.from({ length: 1_000 }, (_, status) => (status === 499 ? '499' : statusClass(status)));
const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** An admitted request that leaves at most this fraction of its window is near the limit. */
const NEAR = 0.1;
/** The number of rungs with a label of their own. Higher rungs are counted together. */
const RUNGS = 5;

/**
 * Creates the metrics of one gateway. The settings bound the values of every label: routes by pattern, plans by name, but
 * never a path, a key or any other text from a client.
 */
export function createMetrics(gauges: Gauges): GatewayMetrics {
  const registry = new MetricRegistry();
  collectDefaultMetrics({ register: registry });
  const units = unitMetrics(registry);
  const recorders = [recordRequests(registry), recordDurations(registry, gauges.upstreams), recordQuotas(registry)];
  registry.events(...WORKERS_LOST);
  registry.events(...WORKERS_STUCK);
  const unparsed = registry.counter(
    'tollgate_unparsed_requests_total',
    'Requests refused before their head could be parsed, by error code.',
    ['code'],
  );
  const unasked = unaskedAnswers(registry, gauges.upstreams);
  const retries = retriesOfUpstreams(registry, gauges.upstreams);
  const cached = registry.counted(
    'tollgate_cache_requests_total',
    'Requests on routes with `cache` that the cache can serve, by what it did.',
    'use',
    CACHE_USES,
  );
  const cacheUses = { hits: 0, misses: 0 };
  addGauges(registry, gauges);
  tokenMetrics(registry, gauges.tokenKeysUp);
  threadMetrics(registry, gauges.thread);
  return {
    registry,
    ...policyMetrics(registry, gauges.policies),
    ...connectionMetrics(registry, gauges.certificateExpiresAtMs, gauges.isShortOfMemory),
    ...webSocketMetrics(registry, gauges.webSockets),
    ...settingsMetrics(registry, gauges.versions, gauges.refusedFiles),
    record: (exchange) => {
      for (const record of recorders) record(exchange);
      if (exchange.cache != null) {
        cached(exchange.cache);
        cacheUses[exchange.cache === 'miss' ? 'misses' : 'hits']++;
      }
      if (exchange.units != null && exchange.refusal == null) units.paid(exchange.units, exchange.plan);
    },
    unparsed: (code) => unparsed.inc({ code }),
    unaskedAnswer: (upstream) => unasked.inc({ upstream }),
    retried: (upstream, outcome) => retries.inc({ upstream, outcome }),
    storeFailed: registry.events('tollgate_store_failures_total', 'Calls to the store that failed or were late.'),
    secretRehashed: registry.events(
      'tollgate_rehashed_secrets_total',
      'Secrets of keys that were found under an older pepper, and are now stored under the newest. While it rises, keys still need the older one.',
    ),
    auditFailed: registry.events(...AUDIT_FAILURES),
    changesLost: registry.events(...CHANGES_LOST),
    ...outageMetrics(registry),
    ...cacheMetrics(registry),
    cacheUses,
    settled: units.settled,
    logLineDropped: registry.events(
      'tollgate_log_lines_dropped_total',
      'Log lines dropped because standard output did not accept them.',
    ),
  };
}

type Recorder = (exchange: Exchange) => void;

function recordRequests(registry: MetricRegistry): Recorder {
  const requests = new RequestTally(
    registry,
    'tollgate_requests_total',
    'Requests that have ended, by route pattern, plan, judgement, status class, error code and who decided.',
    ['route', 'plan', 'judgement', 'status', 'code', 'source'],
  );
  return ({ route, plan, judgement, status, code, source, policy }) =>
    requests.count(
      route ?? 'none',
      plan ?? 'none',
      judgement,
      STATUS_LABELS[status]!,
      // Attack: a policy that puts a text of the client into its code makes a series of each.
      judgement === 'denied' && policy != null ? BY_POLICY : (code ?? 'none'),
      source ?? 'none',
    );
}

function recordDurations(registry: MetricRegistry, upstreams: Gauges['upstreams']): Recorder {
  const durations = new Durations(registry, {
    name: 'tollgate_request_duration_seconds',
    help: 'Time of a request: total, waiting for the store, with the upstream, and the rest in the gateway itself.',
    bounds: SECONDS,
    parts: ['total', 'store', 'upstream', 'gateway'],
    upstreams,
    monotonicMs: () => performance.now(),
  });
  return ({ totalMs, storeMs, upstreamMs, source, upstream, target }) => {
    const parts = durations.of(upstream, target);
    parts.total.add(totalMs / 1000);
    if (source === 'store') parts.store.add(storeMs / 1000);
    if (upstreamMs > 0) parts.upstream.add(upstreamMs / 1000);
    parts.gateway.add(Math.max(totalMs - storeMs - upstreamMs, 0) / 1000);
  };
}

function recordQuotas(registry: MetricRegistry): Recorder {
  const near = registry.counter(
    'tollgate_quota_near_limit_total',
    'Admitted requests that left at most a tenth of the binding window.',
    ['plan', 'window'],
  );
  const over = new RequestTally(
    registry,
    'tollgate_quota_refusals_total',
    'Requests refused for the quota or under a ban, by the window that refused.',
    ['plan', 'window', 'judgement'],
  );
  const bans = registry.counter(
    'tollgate_bans_total',
    'Bans imposed, by their rung on the ladder; the highest label counts all from there on.',
    ['plan', 'rung'],
  );
  const shadows = new RequestTally(
    registry,
    'tollgate_shadow_refusals_total',
    'Requests that limits which are only watched would have refused, by their window; they were served all the same.',
    ['plan', 'window', 'judgement'],
  );
  return ({ plan, window, judgement, windows, imposedBan, shadow }) => {
    if (plan !== null && shadow?.window) shadows.count(plan, shadow.window, shadow.judgement);
    if (plan === null || window === null) return;
    if (judgement === 'refused' || judgement === 'banned') over.count(plan, window, judgement);
    if (imposedBan !== null) bans.inc({ plan, rung: imposedBan < RUNGS ? String(imposedBan) : `${RUNGS}+` });
    if (judgement !== 'admitted') return;
    for (let i = 0; i < windows.length; i++) {
      const { name, limit, remaining } = windows[i]!;
      if (name === window && remaining <= limit * NEAR) near.inc({ plan, window });
    }
  };
}

function unaskedAnswers(registry: MetricRegistry, upstreams: Gauges['upstreams']): Counter<'upstream'> {
  return registry.counter(
    'tollgate_upstream_unasked_answers_total',
    'Connections to an upstream closed because it sent bytes on them that answer no request.',
    ['upstream'],
    () => Iterator.from(upstreams()).map(({ name }) => ({ upstream: name })),
  );
}

const RETRY_OUTCOMES: readonly RetryOutcome[] = ['answered', 'failed', 'abandoned', 'over_budget'];

function retriesOfUpstreams(registry: MetricRegistry, upstreams: Gauges['upstreams']): Counter<'upstream' | 'outcome'> {
  return registry.counter(
    'tollgate_upstream_retries_total',
    'Retries by upstream: answered, failed too, abandoned by the client, or not made because the budget was used up.',
    ['upstream', 'outcome'],
    () =>
      Iterator.from(upstreams()).flatMap(({ name }) => RETRY_OUTCOMES.map((outcome) => ({ upstream: name, outcome }))),
  );
}

const POLICY_OUTCOMES: readonly PolicyDecision['kind'][] = ['allowed', 'refused', 'failed'];

/** @param names in the settings in force */
function policyMetrics(
  registry: MetricRegistry,
  names: () => readonly string[] = () => [],
): Pick<GatewayMetrics, 'policyRan' | 'policyStrayed'> {
  const known = () => names().map((policy) => ({ policy }));
  const runs = registry.counter(
    'tollgate_policy_runs_total',
    'Runs of policies by their name in gateway.yaml: allowed or refused the request, or failed (exception, late, invalid result).',
    ['policy', 'outcome'],
    () => names().flatMap((policy) => POLICY_OUTCOMES.map((outcome) => ({ policy, outcome }))),
  );
  const seconds = registry.counter(
    'tollgate_policy_seconds_total',
    'How long requests have waited for policies, by the name of the policy.',
    ['policy'],
    known,
  );
  const strays = registry.counter(
    'tollgate_policy_stray_errors_total',
    'Errors in what a policy has begun and no request waits for, such as a timer or a promise without a `catch`, by the name of the policy.',
    ['policy'],
    known,
  );
  return {
    policyRan: (policy, outcome, ms) => {
      runs.inc({ policy, outcome });
      seconds.inc({ policy }, ms / 1000);
    },
    policyStrayed: (policy) => strays.inc({ policy }),
  };
}

function addGauges(registry: MetricRegistry, gauges: Gauges): void {
  const { connections, inFlight, upstreams, store, isPepperWrong, storeClockDiffersByMs, replicasAway } = gauges;
  registry.gauges(
    'tollgate_secrets',
    'Secrets that work, by what is known of their pepper: current, old, removed or unknown. Counted once an hour, once the pepper was changed.',
    ['pepper'],
    () => {
      const counts = gauges.secretPeppers?.() ?? null;
      return counts === null ? [] : SECRET_PEPPERS.map((pepper) => [{ pepper }, counts[pepper]] as const);
    },
  );
  registry.gauge('tollgate_connections', 'Client connections that are open.', connections);
  registry.gauge('tollgate_in_flight', 'Requests that have not ended.', inFlight);
  registry.gauge('tollgate_store_up', '1 while the store answers, 0 while it is away.', store);
  registry.gauge('tollgate_pepper_mismatch', '1 while KEY_PEPPER is not the pepper of the store, else 0.', () =>
    isPepperWrong?.() === true ? 1 : 0,
  );
  registry.gauge(
    'tollgate_store_clock_difference_seconds',
    'By how much the clock of the store and that of this machine differ.',
    () => (storeClockDiffersByMs?.() ?? 0) / 1_000,
  );
  registry.gauge(
    'tollgate_replicas_away',
    'Replicas of the store that are away or behind. Meanwhile no change to a key is acknowledged.',
    () => replicasAway?.() ?? 0,
  );
  registry.gauge('tollgate_workers', 'Processes that serve.', () => 1);
  registry.gauges(
    'tollgate_upstream_in_flight',
    'Requests with an upstream or waiting for a connection to it.',
    ['upstream'],
    () => Iterator.from(upstreams()).map(({ name, inFlight }) => [{ upstream: name }, inFlight]),
  );
  registry.gauges(
    'tollgate_upstream_target_up',
    '1 while a target of an upstream is used, 0 while it is left out.',
    ['upstream', 'target'],
    () =>
      Iterator.from(upstreams()).flatMap(({ name, targets }) =>
        targets.map((target) => [{ upstream: name, target: target.name }, target.usable ? 1 : 0] as const),
      ),
  );
}

function threadMetrics(
  registry: MetricRegistry,
  use: ThreadUse = { workedMs: 0, waited: 0, late: 0, largestPart: 0 },
): void {
  registry.total('tollgate_thread_seconds_total', 'Time that the serving thread has worked for consumers.', () => {
    return use.workedMs / 1000;
  });
  registry.total(
    'tollgate_thread_waits_total',
    'How often a consumer beyond its share of the serving thread had to wait for its turn.',
    () => use.waited,
  );
  registry.total(
    'tollgate_thread_late_total',
    'Requests refused with `too_many_in_flight` because the wait for a turn on the serving thread was too long.',
    () => use.late,
  );
  registry.gauge(
    'tollgate_thread_largest_part',
    'The part of the serving thread that the busiest consumer had in the last second, from 0 to 1.',
    () => use.largestPart,
  );
}

/** Counts reloads of the settings and plans. */
interface SettingsMetrics {
  /** The files have changed: the new version is in force, or was refused because of faults. */
  settingsRead(outcome: 'loaded' | 'refused'): void;
}

/** The versions of gateway.yaml and plans.yaml that are in force. */
interface Versions {
  readonly settings: string;
  readonly plans: string;
}

/**
 * @param versions the versions in force; null if they are unknown
 * @param refusedFiles the files whose present content has faults
 */
function settingsMetrics(
  registry: MetricRegistry,
  versions: () => Versions | null = () => null,
  refusedFiles: () => readonly (keyof Versions)[] = () => [],
): SettingsMetrics {
  registry.gauges(
    'tollgate_settings_info',
    'Always 1; the labels are the versions of gateway.yaml and plans.yaml that are in force.',
    ['settings', 'plans'],
    () => {
      const inForce = versions();
      return inForce === null ? [] : [[{ ...inForce }, 1]];
    },
  );
  registry.gauges(
    'tollgate_settings_refused',
    '1 while the file as it is now has faults, so the earlier version stays in force.',
    ['file'],
    () => {
      const refused = refusedFiles();
      return (['settings', 'plans'] as const).map((file) => [{ file }, refused.includes(file) ? 1 : 0]);
    },
  );
  return {
    settingsRead: registry.counted(
      'tollgate_reloads_total',
      'Changes of gateway.yaml and plans.yaml: loaded, or refused because they have faults.',
      'outcome',
      ['loaded', 'refused'],
    ),
  };
}

/**
 * The metric of the tokens' issuer.
 * @param up whether the gateway has its keys; null if the gateway accepts no tokens, and then there is no series
 */
function tokenMetrics(registry: MetricRegistry, up: () => boolean | null = () => null): void {
  registry.gauge(
    'tollgate_token_keys_up',
    "1 while the keys of the tokens' issuer are available, 0 while they are not; absent without jwt in gateway.yaml.",
    () => {
      const isUp = up();
      return isUp === null ? null : Number(isUp);
    },
  );
}

const OUTCOMES: readonly TunnelEnd[] = [
  'client_closed',
  'upstream_closed',
  'client_lost',
  'upstream_lost',
  'idle',
  'revoked',
  'suspended',
  'expired',
  'drained',
];

interface WebSocketMetrics {
  webSocketClosed(outcome: TunnelEnd): void;
}

/** @param open the number of open WebSockets */
function webSocketMetrics(registry: MetricRegistry, open: () => number = () => 0): WebSocketMetrics {
  registry.gauge('tollgate_websockets', 'WebSockets that are open.', open);
  return {
    webSocketClosed: registry.counted(
      'tollgate_websockets_total',
      'WebSockets that have ended, by how.',
      'outcome',
      OUTCOMES,
    ),
  };
}

/** Counts local decisions during an outage, and the reconciliation after it. */
interface OutageMetrics {
  /** Requests were decided locally. */
  decidedAlone(count: LocalCount, requests: number): void;
  /** Part of the backlog was added to the store, or could not be. `spent` is the cost of its requests. */
  givenBack(window: WindowName, outcome: ReconcileOutcome, spent: number): void;
  /** Sets the function that reads how many consumers have a backlog. */
  backlogSizeFrom(read: () => number): void;
}

interface CacheMetrics {
  /** Sets the function that reads the bytes of the stored responses. */
  cacheSizeFrom(read: () => number): void;
  /** Requests since the start that the cache could serve, by whether it did. */
  readonly cacheUses: { readonly hits: number; readonly misses: number };
}

function cacheMetrics(registry: MetricRegistry): Omit<CacheMetrics, 'cacheUses'> {
  let size = () => 0;
  registry.gauge('tollgate_cache_bytes', 'Bytes of the responses that the cache has stored.', () => size());
  return {
    cacheSizeFrom: (read) => {
      size = read;
    },
  };
}

const RECONCILE_OUTCOMES: readonly ReconcileOutcome[] = ['added', 'ended', 'lost'];

function outageMetrics(registry: MetricRegistry): OutageMetrics {
  let backlogSize = () => 0;
  registry.gauge(
    'tollgate_store_owing',
    'Consumers with requests that were admitted without the store and not yet added to it.',
    () => backlogSize(),
  );
  const back = registry.counter(
    'tollgate_given_back_total',
    'Cost of requests admitted without the store, by window and by its outcome when the store was back.',
    ['window', 'outcome'],
    () => WINDOWS.flatMap((window) => RECONCILE_OUTCOMES.map((outcome) => ({ window, outcome }))),
  );
  return {
    backlogSizeFrom: (read) => {
      backlogSize = read;
    },
    decidedAlone: registry.counted(
      'tollgate_local_decisions_total',
      'Requests decided without the store, by how the store counts them.',
      'count',
      ['owed', 'sent', 'uncounted'] satisfies LocalCount[],
    ),
    givenBack: (window, outcome, spent) => back.inc({ window, outcome }, spent),
  };
}
