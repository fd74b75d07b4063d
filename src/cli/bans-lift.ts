import type { Command, ExitCode } from './command.ts';
import { exitCodeOf, operationsOn } from './keys-operations.ts';
import { type OpenStore, withStore } from './open-store.ts';
import { outcomeBy, recorded } from './recorded.ts';

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
        resultOf: (lifted) => ({ outcome: outcomeBy(lifted), code: null, target: id, before: null, after: null }),
      });
      terminal.out(
        options.json === true ? `${JSON.stringify({ id, lifted: true })}\n` : `The ban of ${id} is lifted.\n`,
      );
      return exitCodeOf(durability, terminal);
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};
