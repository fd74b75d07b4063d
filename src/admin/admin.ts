import type { AuditStore } from '../identify/audit-store.ts';
import type { Answer } from './answer.ts';
import type { AuditLine } from './audit.ts';
import type { AuditTrail } from './audit-trail.ts';
import type { Call } from './call.ts';
import type { Operations } from './operations.ts';

/** What the resources are made of. */
export interface Admin {
  readonly operations: Operations;
  /** Of the files in force. */
  readonly versions: () => { readonly settings: string; readonly plans: string };
  /** Takes the line of a change for the log and for the record of changes. */
  readonly audit: (line: AuditLine) => void;
  /** The record of changes. */
  readonly auditStore: AuditStore;
  readonly trail: AuditTrail;
  /** Who still calls each deprecated route, in the order of the settings; so many days back, today included. */
  readonly deprecations: (days: number) => Promise<readonly { readonly route: string }[]>;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
}

/** Does what one method asks of one resource. Rejects with PreconditionFailed, or with Failure as the operations do. */
export type Handler = (call: Call, admin: Admin) => Promise<Answer>;
