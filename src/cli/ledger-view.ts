import type { LedgerView } from '../admit/ledger.ts';
import { EmbeddedLedgerView } from '../stores/embedded/ledger.ts';
import { RedisLedger } from '../stores/redis/ledger.ts';
import type { OpenStore } from './open-store.ts';

/** Counters and bans of an opened store, as a command sees them. */
export function ledgerOf({ technology, publish }: OpenStore): LedgerView {
  return technology.kind === 'redis'
    ? new RedisLedger({ ...technology, publish })
    : new EmbeddedLedgerView({ db: technology.db, wallMs: () => Date.now() });
}
