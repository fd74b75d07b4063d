import { randomBytes } from 'node:crypto';
import { Operations } from '../admin/operations.ts';
import type { Durability } from '../identify/key-store.ts';
import type { ExitCode, Terminal } from './command.ts';
import { ledgerOf } from './ledger-view.ts';
import type { OpenStore } from './open-store.ts';

/** Says on standard error where a change that was made may not be durable, and so has not succeeded. */
export function exitCodeOf(durability: Durability, terminal: Terminal): ExitCode {
  if (durability.kind === 'durable') return 0;
  terminal.error(
    'It was done, but Redis has not confirmed in time that its replicas have it: a failover may undo it. ' +
      'Look at the replicas, then see whether it is still so (`tollgate keys show`, `tollgate bans list`).\n',
  );
  return 1;
}

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
