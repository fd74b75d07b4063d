import { randomBytes } from 'node:crypto';
import { Operations } from '../admin/operations.ts';
import { ledgerOf } from './ledger-view.ts';
import type { OpenStore } from './open-store.ts';

/** What a command may do to the keys and bans of an opened store: the same as the admin API. */
export function operationsOn(store: OpenStore): Operations {
  return new Operations({
    keys: store.keys,
    ledger: ledgerOf(store),
    plans: () => store.plans,
    peppers: store.peppers,
    random: randomBytes,
    nowMs: () => Date.now(),
  });
}
