import type { ExitCode } from '../../failure.ts';
import { keyReport, timeOf } from '../../operations/key-report.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { exitCodeOf, operationsOn } from '../operations.ts';
import { recorded, resultOfKey } from '../recorded-change.ts';
import type { Command } from '../terminal/command.ts';
import { json } from './text-form.ts';

/** `tollgate keys revoke`: ends a key for good. Running gateways obey within a second (contract section 1). */
export const keysRevoke: Command = {
  name: 'keys revoke',
  about: 'Ends an API key and all its secrets for good. Running gateways refuse it within a second.',
  positionals: ['KEY_ID'],
  options: { json: { type: 'boolean', about: 'Prints the key as `keys list` does, with revokedAt.' } },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    const work = async (store: OpenStore): Promise<ExitCode> => {
      const { before, key, durability } = await recorded(store, {
        action: 'key.revoke',
        target: id,
        warn: terminal.error,
        work: () => operationsOn(store).revoke(id),
        resultOf: (changed) => resultOfKey(changed, changed.before.revokedAtMs !== null),
      });
      if (options.json === true)
        terminal.out(json({ ...keyReport(key, store.plans), revokedAt: timeOf(key.revokedAtMs) }));
      else if (before.revokedAtMs === null) terminal.out(`${id} is revoked.\n`);
      else terminal.out(`${id} has been revoked since ${timeOf(key.revokedAtMs)}.\n`);
      return exitCodeOf(durability, terminal);
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};
