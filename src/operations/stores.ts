import type { HistoryStore } from '../admit/history-store.ts';
import type { LedgerView } from '../admit/ledger.ts';
import type { CustomerStore, KeyStore } from '../identify/record-store.ts';
import type { SecretUseStore } from '../identify/secret-use-store.ts';
import type { AuditStore } from './audit-store.ts';
import type { DeprecatedCalls } from './deprecated-calls.ts';
import type { ExplanationStore } from './explanation-store.ts';
import type { KeyNetworkStore } from './key-network-store.ts';
import type { PlansHistory } from './plans/plans-history-store.ts';
import type { TrafficStore } from './traffic/traffic-store.ts';

/**
 * The stores that commands and gateways both open, and operations work on. A further one is a line here and one in the `open.ts` of each
 * technology.
 */
export interface Stores {
  readonly keys: KeyStore;
  readonly customers: CustomerStore;
  /** The counters and bans. */
  readonly ledger: LedgerView;
  /** What consumers have used, and who is refused now. */
  readonly history: HistoryStore;
  /** The record of changes. */
  readonly audit: AuditStore;
  readonly plansHistory: PlansHistory;
  /** The counted calls of deprecated routes. */
  readonly deprecatedCalls: DeprecatedCalls;
  /** When the secrets of keys were used last. */
  readonly secretUses: SecretUseStore;
  /** Why requests were refused or failed in the last day. */
  readonly explanations: ExplanationStore;
  /** From where keys were called. */
  readonly keyNetworks: KeyNetworkStore;
  /** Traffic over time. */
  readonly traffic: TrafficStore;
  /** Tells every gateway on the store which responses to remove from its memory. */
  readonly cachePurges: {
    /** @param purge one word, as `purgeText` writes it */
    announce(purge: string): Promise<void>;
  };
}
