import type { ExitCode } from '../../failure.ts';
import { banReport } from '../../operations/operations.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { operationsOn } from '../operations.ts';
import type { Command } from '../terminal/command.ts';
import { table } from '../terminal/output.ts';
import { OF_STORE } from '../terminal/variables.ts';

/** `tollgate bans list`: the bans in force. */
export const bansList: Command = {
  name: 'bans list',
  about: 'Lists the bans in force: the key, which ban it is, the window whose refusal made it, and when it ends.',
  positionals: [],
  environment: OF_STORE,
  examples: ['tollgate bans list', 'tollgate bans list --json'],
  options: {
    json: { type: 'boolean', about: 'Prints an array of {"id","number","window","until"}, times in Unix seconds.' },
  },
  async run({ options }, terminal) {
    const work = async (store: OpenStore): Promise<ExitCode> => {
      const inForce = await operationsOn(store).bans();
      const bans = [...inForce].sort((a, b) => a.ban.untilMs - b.ban.untilMs);
      if (options.json === true) {
        terminal.out(`${JSON.stringify(bans.map(banReport), null, 2)}\n`);
      } else if (bans.length === 0) terminal.out('No key is banned.\n');
      else {
        const rows: string[][] = [];
        for (const { consumerId, ban } of bans) {
          // A consumer that is identified by tokens has no key.
          const key = await store.keys.get(consumerId);
          const planAndName = [key?.plan ?? '', key?.name ?? ''];
          rows.push([consumerId, String(ban.number), ban.window, new Date(ban.untilMs).toISOString(), ...planAndName]);
        }
        terminal.out(table(['id', 'ban', 'window', 'until', 'plan', 'name'], rows, terminal));
      }
      return 0;
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};
