import type { ExitCode } from '../../failure.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { exitCodeOf, operationsOn } from '../operations.ts';
import { outcomeOfDurability, recorded } from '../recorded-change.ts';
import type { Command } from '../terminal/command.ts';

/** `tollgate bans lift`: ends a ban now. */
export const bansLift: Command = {
  name: 'bans lift',
  about:
    'Lifts the ban of a key: its strikes are cleared and its rung is taken back. Running gateways obey within a second.',
  positionals: ['KEY_ID'],
  options: { json: { type: 'boolean', about: 'Prints {"id","lifted"}.' } },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    const work = async (store: OpenStore): Promise<ExitCode> => {
      const durability = await recorded(store, {
        action: 'ban.lift',
        target: id,
        warn: terminal.error,
        work: () => operationsOn(store).lift(id),
        resultOf: (lifted) => ({
          outcome: outcomeOfDurability(lifted),
          code: null,
          target: id,
          before: null,
          after: null,
        }),
      });
      terminal.out(
        options.json === true ? `${JSON.stringify({ id, lifted: true })}\n` : `The ban of ${id} is lifted.\n`,
      );
      return exitCodeOf(durability, terminal);
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};
