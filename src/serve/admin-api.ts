import { randomBytes, randomUUID } from 'node:crypto';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type AdminApi, adminApi } from '../admin/api.ts';
import type { EventStreams } from '../admin/event-streams.ts';
import { FindBudget } from '../admin/find-budget.ts';
import { NowFeed } from '../admin/now-feed.ts';
import type { Variables } from '../config/environment.ts';
import { type Configuration, filesOf, type Settings } from '../config/settings.ts';
import { reasonOrError } from '../failure.ts';
import { MemoryAttemptCounter } from '../identify/memory-attempts.ts';
import { refuseUnlessRight } from '../identify/pepper-record.ts';
import type { Plans } from '../model/plan.ts';
import type { AuditStore } from '../operations/audit-store.ts';
import { AuditTrail } from '../operations/audit-trail.ts';
import { type PlansContext, type StoreContext, storeContext } from '../operations/catalogue/contexts.ts';
import type { Fleet } from '../operations/fleet/fleet.ts';
import { recentRecordOf } from '../operations/fleet/recent-record-of-fleet.ts';
import { LoadRecord } from '../operations/load-record.ts';
import { PlanDrafts } from '../operations/plans/drafts.ts';
import { PlansFile } from '../operations/plans/plans-file.ts';
import { takeSignIn } from '../operations/sign-in-links.ts';
import type { LostChanges } from '../stores/redis/durable-writes.ts';
import type { AdminAccess } from './admin-access.ts';
import { type GatewayStores, openGatewayStores } from './gateway-stores.ts';
import type { StoreClock } from './store-clock.ts';

/** The settings and plans in force. A reload replaces them, so they are read again for each use. */
interface SettingsInForce {
  readonly settings: Settings;
  readonly plans: Plans;
  readonly versions: Configuration['versions'];
  /** The text of plans.yaml. */
  readonly plansText: string;
  /** Why the files as they are now are not in force; empty if they are. */
  readonly faults: readonly string[];
}

type AdminStores = Pick<GatewayStores, 'forOperators' | 'peppers' | 'pepperState' | 'pepperHistory'> & {
  readonly clock: Pick<StoreClock, 'nowMs'>;
};

export interface AdminApiTelemetry {
  readonly logger: Logger;
  /** Counts a change whose record is missing or lacks the outcome. */
  readonly auditFailed: () => void;
  /** Counts that the store has lost acknowledged changes. */
  readonly changesLost: () => void;
}

/** What the admin API knows of the gateway besides its settings and its stores. */
interface AdminApiSurroundings {
  /** The environment, which names the files of the settings. */
  readonly env: Variables;
  /** Null if the admin API cannot be used. */
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
  stores: () => Promise<AdminStores>,
  access: Pick<AdminAccess, 'authenticator' | 'tls' | 'startLink'>,
  telemetry: AdminApiTelemetry,
  surroundings: AdminApiSurroundings,
): AdminApi {
  const { logger } = telemetry;
  const nowMs = () => Date.now();
  const plansAdmin = plansAdminOf(inForce, surroundings, nowMs);
  const finds = new FindBudget({
    newCounter: () => new MemoryAttemptCounter(),
    monotonicMs: () => performance.now(),
    nowMs,
  });
  // Audit lines are written at every LOG_LEVEL but `silent`.
  const audit = logger.child({}, { level: logger.level === 'silent' ? 'silent' : 'info' });
  const store = async () => contextOf(await stores(), inForce);
  const { live } = surroundings;
  return adminApi({
    authenticator: access.authenticator,
    isTls: access.tls !== null,
    admin: async () => {
      const opened = await stores();
      const store = contextOf(opened, inForce);
      const settings = { plans: store.plans, versions: () => inForce.versions, routes: () => inForce.settings.routes };
      return {
        store,
        settings,
        plans: {
          ...plansAdmin,
          users: opened.forOperators,
          audit: opened.forOperators.audit,
          plansHistory: opened.forOperators.plansHistory,
        },
        trail: trailOn(opened.forOperators.audit, inForce, telemetry),
        finds,
      };
    },
    takeLink: async (code, request) => {
      const { startLink } = access;
      const verdict = startLink?.judge(code, request) ?? 'wrong';
      if (startLink !== null && verdict === 'right') return { name: startLink.operator };
      if (verdict === 'elsewhere') return { refused: verdict };
      const { forOperators, peppers, pepperState } = await stores();
      refuseUnlessRight(pepperState());
      const name = await takeSignIn(code, { keys: forOperators.keys, peppers, random: randomBytes });
      return name === null ? { refused: 'used' } : { name };
    },
    live: live === null ? null : { ...live, store, now: new NowFeed(live.fleet, store, nowMs) },
    audit: (line) => audit.info(line, 'audit'),
    onDefect: (error, requestId) => logger.error({ err: error, requestId }, 'a defect'),
  });
}

/** @throws Failure unless the peppers are those of the store */
function contextOf(
  { clock, pepperState, forOperators, ...opened }: AdminStores,
  inForce: SettingsInForce,
): StoreContext {
  refuseUnlessRight(pepperState());
  return storeContext({
    ...opened,
    ...forOperators,
    plans: () => inForce.plans,
    plansVersion: () => inForce.versions.plans,
    settings: () => inForce.settings,
    secretAdvice: 'Do not put secrets into URLs, which logs keep: send it as the body of POST /admin/keys/find.',
    nowMs: () => clock.nowMs,
  });
}

/** The record of changes, with a log line and a count for each change that is not recorded as it ended. */
function trailOn(
  store: AuditStore,
  inForce: SettingsInForce,
  { logger, auditFailed }: Pick<AdminApiTelemetry, 'logger' | 'auditFailed'>,
): AuditTrail {
  return new AuditTrail({
    store,
    settings: () => inForce.settings.audit,
    newId: randomUUID,
    onFailure: (error, { action, target, requestId }) => {
      auditFailed();
      logger.error({ err: error, action, id: target, requestId }, 'the end of a change was not recorded');
    },
  });
}

/** Records the files that this gateway takes and refuses. */
export function loadRecordOn(
  env: Variables,
  inForce: SettingsInForce,
  { audit, plansHistory }: Pick<GatewayStores, 'audit' | 'plansHistory'>,
  { logger, auditFailed }: AdminApiTelemetry,
  onPlansAdded: () => void,
): LoadRecord {
  const [settings, plans] = filesOf(env);
  return new LoadRecord({
    store: audit,
    history: plansHistory,
    keep: () => inForce.settings.audit.keep,
    names: { settings: basename(settings), plans: basename(plans) },
    versions: inForce.versions,
    plansText: () => inForce.plansText,
    nowMs: () => Date.now(),
    pause: (ms, signal) => delay(ms, undefined, { ref: false, signal }).catch(() => {}),
    onRefusedByStore: (error) => {
      auditFailed();
      const advice = 'Remove `tg:audit:loads` or `tg:plans:history` from Redis if another program has written it.';
      logger.error({ err: error, advice }, 'the store does not accept the record of a changed file');
    },
    onPlansAdded,
    onLost: ({ action }) => {
      auditFailed();
      logger.error({ action }, 'the end of a change was not recorded');
    },
  });
}

function plansAdminOf(
  inForce: SettingsInForce,
  { env, live }: AdminApiSurroundings,
  nowMs: () => number,
): Pick<PlansContext, 'drafts' | 'file' | 'replaced' | 'inForce' | 'mayWrite'> {
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
  return { drafts, file, replaced: async () => inForce.plans, inForce, mayWrite: inForce.settings.admin.editPlans };
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
  surroundingsOn: (stores: () => Promise<GatewayStores>) => AdminApiSurroundings,
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
      onFailure: (error) => telemetry.logger.error(reasonOrError(error), 'the store failed'),
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
  const surroundings = surroundingsOn(open);
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
