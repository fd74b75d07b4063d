import { isDeepStrictEqual } from 'node:util';
import { Admitter } from '../admit/admit.ts';
import { RefusalCounter } from '../admit/refusal-counter.ts';
import { CorsFields } from '../annotate/cors.ts';
import { ErrorRules } from '../annotate/error-rules.ts';
import { RateLimitFields } from '../annotate/rate-limit.ts';
import { RefusalLines } from '../annotate/refusal-lines.ts';
import type { JwtSettings } from '../config/identification.ts';
import { metadataUrlOf } from '../config/protected-resource.ts';
import type { Configuration, Settings } from '../config/settings.ts';
import { Compressors } from '../forward/compressed-response.ts';
import { Allowances } from '../gateway/allowances.ts';
import { BodyChecks } from '../gateway/body-checks.ts';
import type { GatewayDeps } from '../gateway/gateway-deps.ts';
import { HeldBodies } from '../gateway/held-body.ts';
import { Usage } from '../gateway/own-usage.ts';
import { RequestIds } from '../gateway/received-request.ts';
import { AddressLists } from '../gateway/who-may-call.ts';
import { FieldNames } from '../http1/field-names.ts';
import { FailedAttempts } from '../identify/failed-attempts.ts';
import { Identifier } from '../identify/identify.ts';
import { JwtVerifier } from '../identify/jwt.ts';
import { type JwtKeys, openJwtKeys } from '../identify/jwt-keys.ts';
import { KeySources } from '../identify/key-sources.ts';
import { KnownCustomers } from '../identify/known-customers.ts';
import { SecretUses } from '../identify/secret-uses.ts';
import { Verifications } from '../identify/verifications.ts';
import { CLOCKS } from '../io/clocks.ts';
import { PoolThreads } from '../io/pool-threads.ts';
import type { ThreadTime } from '../io/thread-time.ts';
import { ClientAddresses } from '../listen/client-address.ts';
import { Decoders } from '../meter/decoders.ts';
import type { Plans } from '../model/plan.ts';
import type { Router } from '../routing/host-router.ts';
import { LogAndMetrics } from '../telemetry/closing-records.ts';
import { DeprecatedCallCounter } from '../telemetry/deprecated-call-counter.ts';
import type { GatewayLog } from '../telemetry/log.ts';
import type { GatewayMetrics } from '../telemetry/metrics.ts';
import { NetworkCounter } from '../telemetry/network-counter.ts';
import type { PolicyReports } from '../telemetry/policy-reports.ts';
import type { RecentRequests } from '../telemetry/recent-requests.ts';
import { TrafficCounter } from '../telemetry/traffic-counter.ts';
import { RequestValidator } from '../validate/validator.ts';
import type { GatewayStores } from './gateway-stores.ts';
import type { LoadedPolicies } from './loaded-policies.ts';
import { ResponseCaches } from './response-caches.ts';

// What the requests of a gateway depend on: services that live through every reload, and what is built again from the
// settings and plans.

/** The services that identify callers and know their quotas, and those that bound what they cost. They live as long as the gateway, through every reload. */
export interface Services {
  readonly identifier: Identifier;
  readonly customers: KnownCustomers;
  readonly admitter: Admitter;
  readonly failedAttempts: FailedAttempts;
  readonly usage: Usage;
  readonly thread: ThreadTime;
  readonly caches: ResponseCaches;
  readonly compressors: Compressors;
  readonly decoders: Decoders;
  readonly deprecatedCalls: DeprecatedCallCounter;
  readonly networks: NetworkCounter;
  readonly traffic: TrafficCounter;
  readonly secretUses: SecretUses;
  readonly refusals: RefusalCounter;
}

/** Consumers whose last known state is kept in memory. */
const REMEMBERED = 100_000;

/** @param inForce the current plans and settings, read at each use because a reload changes them */
export function openServices(
  settings: Settings,
  inForce: { readonly plans: Plans; readonly settings: Settings },
  stores: GatewayStores,
  metrics: GatewayMetrics,
  thread: ThreadTime,
  /** The clock by which what is known of consumers ages: monotonic, milliseconds. */
  accountsMs: () => number,
  onUndecided: (consumerId: string) => void,
  onTrafficLost: (requests: number) => void,
): Services {
  const onStoreFailure = () => metrics.storeFailed();
  const { onFailure, timeoutMs, url, leases } = settings.redis;
  const identification = openIdentification(settings, inForce, stores, metrics);
  const admitter = new Admitter({
    ledger: stores.ledger,
    reconciler: stores.reconciler,
    recalls: leases ? stores.recalls : null,
    onFailure,
    // The embedded store answers within the same turn of the event loop, so it needs no deadline.
    ...(url === null ? {} : { timeoutMs }),
    remembered: REMEMBERED,
    onStoreFailure,
    onUndecided,
    onLocalDecision: metrics.decidedAlone,
    onReturned: metrics.givenBack,
    onSettled: metrics.settled,
    wallMs: CLOCKS.wallMs,
    monotonicMs: accountsMs,
  });
  const usage = new Usage({
    ledger: stores.ledger,
    history: stores.history,
    ...(url === null ? {} : { timeoutMs }),
    onStoreFailure,
    monotonicMs: CLOCKS.monotonicMs,
  });
  metrics.backlogSizeFrom(() => admitter.backlogSize);
  const failedAttempts = new FailedAttempts({
    counter: stores.attempts,
    ...(url === null ? {} : { timeoutMs }),
    limit: () => inForce.plans.failedAuthenticationPerMinute,
    ...CLOCKS,
  });
  const caches = new ResponseCaches(stores.changes, metrics);
  stores.changes.subscribe(({ kind, keyId }) => {
    if (kind === 'cache') return;
    if (kind !== 'account') identification.identifier.forget(keyId);
    if (kind !== 'key' && kind !== 'customer') admitter.forget(keyId);
  });
  const deprecatedCalls = new DeprecatedCallCounter({ store: stores.deprecatedCalls, wallMs: CLOCKS.wallMs });
  const counters = openCounters(inForce, stores, onTrafficLost);
  const refusals = new RefusalCounter(stores.history);
  const threads = new PoolThreads();
  const [compressors, decoders] = [new Compressors(threads), new Decoders(threads)];
  const deciding = { ...identification, admitter, failedAttempts, usage, thread, compressors, decoders };
  return { ...deciding, ...counters, deprecatedCalls, refusals, caches };
}

function openCounters(
  inForce: { readonly settings: Settings },
  { traffic: store, keyNetworks, keys, clock }: Pick<GatewayStores, 'traffic' | 'keyNetworks' | 'keys' | 'clock'>,
  onLost: (requests: number) => void,
): Pick<Services, 'traffic' | 'networks'> {
  const nowMs = () => clock.nowMs;
  const isOn = () => inForce.settings.keepsTraffic;
  const isKey = async (id: string) => (await keys.get(id)) !== null;
  return {
    traffic: new TrafficCounter({ store, nowMs, isOn, onLost, random: Math.random }),
    networks: new NetworkCounter({ store: keyNetworks, isKey, nowMs }),
  };
}

/** The services that know keys and customers. */
function openIdentification(
  { redis: { staleKeysMs } }: Settings,
  inForce: { readonly settings: Settings },
  stores: GatewayStores,
  metrics: Pick<GatewayMetrics, 'storeFailed' | 'secretRehashed'>,
): Pick<Services, 'identifier' | 'customers' | 'secretUses'> {
  const onStoreFailure = () => metrics.storeFailed();
  // Gateways whose own clocks differ agree on when a key or a customer expires.
  const clocks = { wallMs: () => stores.clock.nowMs, monotonicMs: CLOCKS.monotonicMs };
  const customers = new KnownCustomers({ store: stores.customers, staleMs: staleKeysMs, onStoreFailure, ...clocks });
  const secretUses = new SecretUses({ store: stores.secretUses });
  const identifier = new Identifier({
    keyStore: stores.keys,
    customers,
    peppers: stores.peppers,
    isPepperRight: () => stores.pepperState() === 'right',
    hadOtherPepper: stores.hadOtherPepper,
    formats: () => inForce.settings.keyFormats,
    changes: stores.changes,
    staleKeysMs,
    onStoreFailure,
    onRehash: () => metrics.secretRehashed(),
    ...clocks,
    onUse: (key, secret, nowMs) => secretUses.note(key, secret, nowMs),
  });
  return { identifier, customers, secretUses };
}

/**
 * The dependencies of a gateway that no reload changes.
 *
 * Requests call objects, so that a call goes straight to the code that does the work. The remaining functions depend on
 * a setting that a reload changes (`sample2xx` of the log), or on a module that is loaded only if it is configured
 * (`traceOf`).
 */
export interface GatewaySurroundings extends Pick<GatewayDeps, 'traceOf' | 'draining' | 'webSockets'> {
  readonly log: GatewayLog;
  readonly metrics: GatewayMetrics;
  /** Null without an admin token. */
  readonly recent: RecentRequests | null;
  readonly validators: Validators;
  /** Those of the settings; load them first. */
  readonly policies: LoadedPolicies;
  readonly policyReports: PolicyReports;
}

/** Builds the dependencies of requests under these settings and plans. @param router of the routes of the settings */
export function gatewayDepsOf(
  { settings, plans }: Pick<Configuration, 'settings' | 'plans'>,
  services: Services,
  router: Router,
  { log, metrics, recent, validators, policies, policyReports, ...surroundings }: GatewaySurroundings,
): Omit<GatewayDeps, 'jwt' | 'upstreams'> {
  const keySources = settings.keysFrom === null ? null : new KeySources(settings.keysFrom);
  const { deprecatedCalls, secretUses: _, networks, traffic, refusals, customers: __, caches, ...deciding } = services;
  const rateLimitFields = new RateLimitFields(settings.headers.draft);
  return {
    router,
    validators: validators.of(settings),
    heldBodies: validators.heldBodies,
    bodyChecks: validators.bodyChecks,
    policies: policies.chainsOf(settings, policyReports, CLOCKS.monotonicMs),
    ...deciding,
    ...surroundings,
    cache: caches.of(settings),
    allowances: new Allowances(plans, settings.usageHistory),
    rateLimitFields,
    refusalLines: new RefusalLines(rateLimitFields),
    errorRules: new ErrorRules(settings.errors),
    readsCertificates: settings.readsCertificates,
    keyFormats: settings.keyFormats,
    isAsKong: settings.headers.consumer === 'kong',
    keySources,
    readsAuthorization:
      keySources === null || keySources.readsAuthorization || keySources.readsBasic || settings.jwt !== null,
    resourceMetadata: settings.jwt?.resource == null ? null : metadataUrlOf(settings.jwt.resource),
    cors: settings.cors === null ? null : new CorsFields(settings.cors),
    maxBodyBytes: settings.listen.maxBodyBytes,
    writeTimeoutMs: settings.listen.writeTimeoutMs,
    via: settings.listen.via ?? settings.viaByDefault,
    allowedNames: new FieldNames(settings.headers.allow.map((name) => name.toLowerCase())),
    addressLists: new AddressLists(),
    addresses: new ClientAddresses(settings.listen.trustedProxies),
    requestIds: new RequestIds(),
    webSocketIdleMs: settings.websockets.idleTimeoutMs,
    webSocketFinMs: settings.websockets.finTimeoutMs,
    records: new LogAndMetrics({
      ...{ log, metrics, deprecatedCalls, recent },
      refusals: settings.usageHistory ? refusals : null,
      networks: settings.keepsNetworks ? networks : null,
      traffic: settings.keepsTraffic ? traffic : null,
    }),
    ...CLOCKS,
  };
}

/** Makes the checks of requests against OpenAPI descriptions. */
export class Validators {
  /** For the bodies that are held while they are checked, through every reload. */
  readonly heldBodies = new HeldBodies();
  readonly bodyChecks = new BodyChecks();

  /** The checks by the file of their description. */
  of({ descriptions }: Pick<Settings, 'descriptions'>): ReadonlyMap<string, RequestValidator> {
    return new Map([...descriptions].map(([file, program]) => [file, new RequestValidator(program)]));
  }
}

/**
 * Keeps the verifier of JSON Web Tokens for the settings in force. A reload that does not change the `jwt` settings keeps
 * the verifier, with the keys of the issuer and the tokens that it has verified.
 */
export class TokenIssuers {
  readonly #log: GatewayLog;
  #settings: JwtSettings | null = null;
  #verifier: JwtVerifier | null = null;
  #keys: JwtKeys | null = null;
  readonly #attempts: Pick<FailedAttempts, 'peek'>;
  readonly #customers: Pick<KnownCustomers, 'of'>;

  constructor(log: GatewayLog, attempts: Pick<FailedAttempts, 'peek'>, customers: Pick<KnownCustomers, 'of'>) {
    this.#log = log;
    this.#attempts = attempts;
    this.#customers = customers;
  }

  /**
   * The verifier for these settings, a new one if they have changed.
   * @param settings null if the gateway accepts no tokens
   * @throws Failure `bad_settings` for a file of keys that cannot be used; the earlier verifier then stays
   */
  verifierFor(settings: JwtSettings | null): JwtVerifier | null {
    if (isDeepStrictEqual(settings, this.#settings)) return this.#verifier;
    if (settings === null) {
      this.#verifier = this.#keys = null;
    } else {
      const { jwks, ...rules } = settings;
      const keys = openJwtKeys(jwks, { monotonicMs, onTrouble: this.#troubleAt(jwks) });
      const verifications = new Verifications({ attempts: this.#attempts, whenSpent: 'refuse', monotonicMs });
      const clocks = { monotonicMs, wallMs: () => Date.now() };
      this.#verifier = new JwtVerifier({ rules, keys, verifications, customers: this.#customers, ...clocks });
      this.#keys = keys;
    }
    this.#settings = settings;
    return this.#verifier;
  }

  /** Whether the gateway has the keys of the issuer, for a metric; null if it accepts no tokens. */
  get keysUp(): boolean | null {
    return this.#keys?.isUp ?? null;
  }

  #troubleAt(jwks: JwtSettings['jwks']): (error: Error | null) => void {
    const { logger } = this.#log;
    const at = jwks.kind === 'url' ? jwks.url : jwks.path;
    return (error) => {
      if (error === null) logger.info({ jwks: at }, "the keys of the tokens' issuer are available again");
      else logger.error({ jwks: at, err: error }, "the keys of the tokens' issuer cannot be fetched or used");
    };
  }
}

function monotonicMs(): number {
  return performance.now();
}
