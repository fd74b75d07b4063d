import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Logger } from 'pino';
import { parse } from 'yaml';
import { type AdminApi, adminApi } from '../admin/api.ts';
import { AuditTrail } from '../admin/audit-trail.ts';
import { Door, WRONG_TOKENS_PER_MINUTE } from '../admin/door.ts';
import { Operations } from '../admin/operations.ts';
import type { Plans } from '../admit/plan.ts';
import type { Configuration, Settings } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import { FailedAttempts } from '../identify/failed-attempts.ts';
import { MemoryAttemptCounter } from '../stores/embedded/failed-attempts.ts';
import { deprecationReports } from './deprecations-report.ts';
import { type GatewayStores, openGatewayStores } from './gateway-stores.ts';

/** What is in force, read each time it is needed. */
export interface InForce {
  readonly settings: Settings;
  readonly plans: Plans;
  readonly versions: Configuration['versions'];
}

type Stores = Pick<GatewayStores, 'keys' | 'ledger' | 'peppers' | 'pepperState' | 'deprecatedCalls' | 'audit'>;

/** Read when somebody first asks for it: it is long, and hardly anybody ever does. */
function apiDescription(): () => object {
  let description: object | null = null;
  return () => {
    description ??= parse(readFileSync(new URL('../admin/openapi.yaml', import.meta.url), 'utf8')) as object;
    return description;
  };
}

export interface AdminApiTelemetry {
  readonly logger: Logger;
  /** Counts a change whose record is missing, or does not say what became of it. */
  readonly auditFailed: () => void;
}

/** The admin API of a gateway, on its own stores. */
export function adminApiOn(
  inForce: InForce,
  stores: () => Promise<Stores>,
  { logger, auditFailed }: AdminApiTelemetry,
): AdminApi {
  const nowMs = () => Date.now();
  // An audit line is no matter of taste: it is written whatever level the log has, unless there is no log at all.
  const audit = logger.child({}, { level: logger.level === 'silent' ? 'silent' : 'info' });
  const attempts = new FailedAttempts({
    counter: new MemoryAttemptCounter(),
    limit: () => WRONG_TOKENS_PER_MINUTE,
    monotonicMs: () => performance.now(),
    wallMs: nowMs,
  });
  return adminApi({
    door: new Door({ token: inForce.settings.admin.token, attempts, nowMs }),
    admin: async () => {
      const opened = await stores();
      const { keys, ledger, peppers } = opened;
      if (opened.pepperState() === 'mismatch') throw new Failure('pepper_mismatch', 'Another KEY_PEPPER is in use.');
      return {
        operations: new Operations({ keys, ledger, plans: () => inForce.plans, peppers, random: randomBytes, nowMs }),
        versions: () => inForce.versions,
        auditStore: opened.audit,
        trail: new AuditTrail({
          store: opened.audit,
          settings: () => inForce.settings.audit,
          newId: randomUUID,
          onFailure: (error, change) => {
            auditFailed();
            const { action, target, requestId } = change;
            logger.error({ err: error, action, id: target, requestId }, 'a change is not recorded as it ended');
          },
        }),
        deprecations: (days) => deprecationReports(inForce.settings.routes, opened, { days, nowMs: nowMs() }),
        nowMs,
      };
    },
    audit: (line) => audit.info(line, 'audit'),
    description: apiDescription(),
    onDefect: (error, requestId) => logger.error({ err: error, requestId }, 'a defect'),
  });
}

/**
 * The same for a process that has no stores open because it does nothing of what a request needs: they are opened when
 * somebody first uses the API.
 * @returns the API, its stores, which are opened when they are first asked for, and how it is closed
 */
export function adminApiAlone(
  inForce: InForce,
  telemetry: AdminApiTelemetry,
): {
  readonly api: AdminApi;
  readonly stores: () => Promise<GatewayStores>;
  readonly close: () => Promise<void>;
} {
  let opened: Promise<GatewayStores> | null = null;
  const open = () => {
    opened ??= openGatewayStores(inForce.settings, {
      onStoreChange: () => {},
      onFailure: (error) => telemetry.logger.error({ err: error }, 'the store failed'),
      // Those who serve have said it.
      onPepperMismatch: () => {},
      onWarning: () => {},
    });
    // What refuses to open now, such as a wrong pepper, may open later.
    opened.catch(() => {
      opened = null;
    });
    return opened;
  };
  return {
    api: adminApiOn(inForce, open, telemetry),
    stores: open,
    close: async () => {
      await (await opened?.catch(() => null))?.close();
    },
  };
}
