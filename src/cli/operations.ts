import { randomBytes } from 'node:crypto';
import type { Durability } from '../admit/ledger.ts';
import type { ExitCode } from '../failure.ts';
import { Operations } from '../operations/operations.ts';
import { historyOf, ledgerOf, type OpenStore } from '../serve/open-store.ts';
import type { Terminal } from './terminal/command.ts';

/** The exit code of a change that was made. A change that a failover may undo counts as failed, with a warning on stderr. */
export function exitCodeOf(durability: Durability, terminal: Terminal): ExitCode {
  if (durability.kind === 'durable') return 0;
  terminal.error(
    'It was done and is in force, but a replica of Redis lacks it or has not confirmed it in time: a failover may undo it. ' +
      'No gateway makes it again, because this command has made it. `tollgate doctor` names the replica and says what to do. ' +
      'Then see whether it is still so (`tollgate keys show KEY_ID`, `tollgate bans list`).\n',
  );
  return 1;
}

/** The operations on the keys and bans of an open store, the same ones that the admin API offers. */
export function operationsOn(store: OpenStore): Operations {
  return new Operations({
    keys: store.keys,
    ledger: ledgerOf(store),
    history: historyOf(store),
    plans: () => store.plans,
    peppers: store.peppers,
    keyFormats: () => store.settings.keyFormats,
    random: randomBytes,
    nowMs: () => Date.now(),
  });
}
