import { Failure } from '../failure.ts';
import type { Command, ExitCode } from './command.ts';
import { ledgerOf } from './ledger-view.ts';
import { withStore } from './open-store.ts';

/** `tollgate bans lift`: ends a ban now. */
export const bansLift: Command = {
  name: 'bans lift',
  about:
    'Lifts the ban of a key: its strikes are cleared and its rung is taken back. Running gateways obey within a second.',
  positionals: ['KEY_ID'],
  options: { json: { type: 'boolean', about: 'Prints {"id","lifted"}.' } },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    return withStore<ExitCode>(terminal.env, async (store) => {
      if ((await store.keys.get(id)) === null) throw new Failure('not_found', `There is no key ${id}.`);
      const lifted = await ledgerOf(store).lift(id);
      if (!lifted) throw new Failure('not_found', `Key ${id} is not banned.`);
      terminal.out(options.json === true ? `${JSON.stringify({ id, lifted })}\n` : `The ban of ${id} is lifted.\n`);
      return 0;
    });
  },
};
