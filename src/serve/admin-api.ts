import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { parse } from 'yaml';
import { type AdminApi, adminApi } from '../admin/api.ts';
import type { PlansAdmin } from '../admin/call.ts';
import type { EventStreams } from '../admin/event-streams.ts';
import { FindBudget } from '../admin/find-budget.ts';
import { NowFeed } from '../admin/now-feed.ts';
import type { Plans } from '../admit/plan.ts';
import type { Variables } from '../config/environment.ts';
import { type Configuration, filesOf, type Settings } from '../config/settings.ts';
import { refuseUnlessRight } from '../identify/pepper-record.ts';
import { AuditTrail } from '../operations/audit-trail.ts';
import { deprecatedCallsOfConsumer, deprecationReports } from '../operations/deprecations.ts';
import type { Fleet } from '../operations/fleet/fleet.ts';
import type { FleetStore } from '../operations/fleet/fleet-store.ts';
import { recentRecordOf } from '../operations/fleet/recent-record.ts';
import { LoadRecord } from '../operations/load-record.ts';
import { Operations } from '../operations/operations.ts';
import { PlanDrafts } from '../operations/plans/drafts.ts';
import { PlansFile } from '../operations/plans/plans-file.ts';
import { takeSignIn } from '../operations/sign-in-links.ts';
import { MemoryAttemptCounter } from '../stores/embedded/failed-attempts.ts';
import type { LostChanges } from '../stores/redis/durable-writes.ts';
import type { AdminAccess } from './admin-access.ts';
import { type GatewayStores, openGatewayStores } from './gateway-stores.ts';
import type { StoreClock } from './store-clock.ts';

/** The settings and plans in force. A reload replaces them, so they are read anew for each use. */
export interface SettingsInForce {
  readonly settings: Settings;
  readonly plans: Plans;
  readonly versions: Configuration['versions'];
  /** Why the files as they are now are not in force; empty if they are. */
  readonly faults: readonly string[];
}

type Stores = Pick<
  GatewayStores,
  'keys' | 'ledger' | 'peppers' | 'pepperState' | 'deprecatedCalls' | 'history' | 'audit'
> & { readonly clock: Pick<StoreClock, 'nowMs'> };

/** Reads the OpenAPI description at the first request for it, because it is long and rarely requested. */
function apiDescription(): () => object {
  let description: object | null = null;
  return () => {
    description ??= parse(readFileSync(new URL('../admin/openapi.yaml', import.meta.url), 'utf8')) as object;
    return description;
  };
}

export interface AdminApiTelemetry {
  readonly logger: Logger;
  /** Counts a change whose record is missing or lacks the outcome. */
  readonly auditFailed: () => void;
  /** Counts that the store has lost acknowledged changes. */
  readonly changesLost: () => void;
}

/** What the admin API knows of the gateway besides its settings and its stores. */
export interface AdminApiSurroundings {
  /** The environment, which names the files of the settings. */
  readonly env: Variables;
  /** Null if nobody can use the admin API. */
  readonly live: LiveParts | null;
}

/** The gateways on the store, and the open streams of events of this one. */
export interface LiveParts {
  readonly fleet: Fleet;
  readonly streams: EventStreams;
}

/** The admin API of a gateway, on the gateway's own stores. */
export function adminApiOn(
  inForce: SettingsInForce,
  stores: () => Promise<Stores>,
  access: Pick<AdminAccess, 'authenticator' | 'tls'>,
  { logger, auditFailed }: AdminApiTelemetry,
  surroundings: AdminApiSurroundings,
): AdminApi {
  const nowMs = () => Date.now();
  const plansAdmin = plansAdminOf(inForce, surroundings, nowMs);
  const finds = new FindBudget({
    newCounter: () => new MemoryAttemptCounter(),
    monotonicMs: () => performance.now(),
    nowMs,
  });
  // Audit lines are written at every LOG_LEVEL but `silent`.
  const audit = logger.child({}, { level: logger.level === 'silent' ? 'silent' : 'info' });
  const operationsOn = ({ keys, ledger, history, peppers, pepperState, clock }: Stores) => {
    refuseUnlessRight(pepperState());
    return new Operations({
      keys,
      ledger,
      history,
      plans: () => inForce.plans,
      peppers,
      keyFormats: () => inForce.settings.keyFormats,
      random: randomBytes,
      nowMs: () => clock.nowMs,
    });
  };
  const operations = async () => operationsOn(await stores());
  const { live } = surroundings;
  return adminApi({
    authenticator: access.authenticator,
    isTls: access.tls !== null,
    admin: async () => {
      const opened = await stores();
      return {
        operations: operationsOn(opened),
        keyFormats: () => inForce.settings.keyFormats,
        keepsHistory: () => inForce.settings.usageHistory,
        versions: () => inForce.versions,
        auditStore: opened.audit,
        trail: new AuditTrail({
          store: opened.audit,
          settings: () => inForce.settings.audit,
          newId: randomUUID,
          onFailure: (error, change) => {
            auditFailed();
            const { action, target, requestId } = change;
            logger.error({ err: error, action, id: target, requestId }, 'the end of a change was not recorded');
          },
        }),
        deprecations: (days) => deprecationReports(inForce.settings.routes, opened, { days, nowMs: nowMs() }),
        deprecatedCallsOf: (id, days) =>
          deprecatedCallsOfConsumer(id, inForce.settings.routes, opened.deprecatedCalls, { days, nowMs: nowMs() }),
        plans: plansAdmin,
        keys: opened.keys,
        finds,
        nowMs: () => opened.clock.nowMs,
      };
    },
    takeLink: async (code) => {
      const { keys, peppers, pepperState } = await stores();
      refuseUnlessRight(pepperState());
      return takeSignIn(code, { keys, peppers, random: randomBytes });
    },
    live: live === null ? null : { ...live, operations, now: new NowFeed(live.fleet, operations, nowMs) },
    audit: (line) => audit.info(line, 'audit'),
    description: apiDescription(),
    onDefect: (error, requestId) => logger.error({ err: error, requestId }, 'a defect'),
  });
}

/** Records the files that this gateway takes and refuses. */
export function loadRecordOn(
  env: Variables,
  inForce: SettingsInForce,
  { audit }: Pick<GatewayStores, 'audit'>,
  { logger, auditFailed }: AdminApiTelemetry,
): LoadRecord {
  const [settings, plans] = filesOf(env);
  return new LoadRecord({
    store: audit,
    keep: () => inForce.settings.audit.keep,
    names: { settings: basename(settings), plans: basename(plans) },
    versions: inForce.versions,
    pause: (ms, signal) => delay(ms, undefined, { ref: false, signal }).catch(() => {}),
    onRefusedByStore: (error) => {
      auditFailed();
      const advice = 'Remove `tg:audit:loads` from Redis if another program has written it.';
      logger.error({ err: error, advice }, 'the store does not accept the record of a changed file');
    },
    onLost: ({ action }) => {
      auditFailed();
      logger.error({ action }, 'the end of a change was not recorded');
    },
  });
}

function plansAdminOf(inForce: SettingsInForce, { env, live }: AdminApiSurroundings, nowMs: () => number): PlansAdmin {
  const file = new PlansFile(filesOf(env)[1], nowMs);
  const drafts = new PlanDrafts({
    file,
    inForce: () => {
      const { routes, jwt } = inForce.settings;
      return { plans: inForce.plans, routes, hasTokens: jwt !== null };
    },
    recent: live === null ? null : async () => recentRecordOf(await live.fleet.records.collect()),
    nowMs,
    monotonicMs: () => performance.now(),
  });
  return { drafts, file, inForce, mayWrite: inForce.settings.admin.editPlans };
}

/** The store has lost acknowledged changes: an error line and a count. */
export function reportLoss(loss: LostChanges, { logger, changesLost }: Omit<AdminApiTelemetry, 'auditFailed'>): void {
  logger.error({ ...loss, advice: AFTER_A_LOSS }, 'the store has lost acknowledged changes');
  changesLost();
}

const AFTER_A_LOSS =
  'The store has fewer changes to keys and bans than this gateway has acknowledged: a failover, a crash or a restored backup has ' +
  'undone some. The gateway makes its revocations of the last ten minutes again. Compare the log and the record of changes with the keys.';

/**
 * The admin API of a supervisor, which serves no requests of callers and so has no stores open. It opens them at the first
 * request to the API, or at once if there is an admin token.
 * @param liveOn opens the fleet on the store; null without an admin token
 * @returns the API; `stores`, which opens the stores at its first call; and `close`
 */
export function adminApiAlone(
  inForce: SettingsInForce,
  access: AdminAccess,
  telemetry: AdminApiTelemetry,
  surroundingsOn: (store: () => Promise<FleetStore>) => AdminApiSurroundings,
): {
  readonly api: AdminApi;
  readonly live: LiveParts | null;
  readonly stores: () => Promise<GatewayStores>;
  readonly close: () => Promise<void>;
} {
  let opened: Promise<GatewayStores> | null = null;
  const open = () => {
    opened ??= openGatewayStores(inForce.settings, {
      onStoreChange: () => {},
      onFailure: (error) => telemetry.logger.error({ err: error }, 'the store failed'),
      onLostChanges: (loss) => reportLoss(loss, telemetry),
      // The workers log it, and replicas that are away.
      onPepperMismatch: () => {},
      onWarning: () => {},
    });
    // A failure, such as a wrong pepper, may be repaired, so the next request tries again.
    opened.catch(() => {
      opened = null;
    });
    return opened;
  };
  const surroundings = surroundingsOn(async () => (await open()).fleet);
  const { live } = surroundings;
  return {
    api: adminApiOn(inForce, open, access, telemetry, surroundings),
    live,
    stores: open,
    close: async () => {
      await live?.fleet.close();
      await (await opened?.catch(() => null))?.close();
    },
  };
}
