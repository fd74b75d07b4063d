import { Failure } from '../failure.ts';
import { revoked } from '../identify/key-changes.ts';
import type { Command, ExitCode } from './command.ts';
import { json, keyReport, timeOf } from './keys-report.ts';
import { withStore } from './open-store.ts';

/** `tollgate keys revoke`: ends a key for good; running gateways obey within a second (contract section 1). */
export const keysRevoke: Command = {
  name: 'keys revoke',
  about: 'Ends an API key and all its secrets for good. Running gateways refuse it within a second.',
  positionals: ['KEY_ID'],
  options: { json: { type: 'boolean', about: 'Prints the key as `keys list` does, with revokedAt.' } },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    return withStore<ExitCode>(terminal.env, async ({ keys, plans }) => {
      const nowMs = Date.now();
      const key = await keys.update(id, (before) => revoked(before, nowMs));
      if (key === null)
        throw new Failure('not_found', `There is no key ${id}. \`tollgate keys list\` tells which there are.`);
      if (options.json === true) terminal.out(json({ ...keyReport(key, plans), revokedAt: timeOf(key.revokedAtMs) }));
      else if (key.revokedAtMs === nowMs) terminal.out(`${id} is revoked.\n`);
      else terminal.out(`${id} has been revoked since ${timeOf(key.revokedAtMs)}.\n`);
      return 0;
    });
  },
};
