import type { ExitCode } from '../../failure.ts';
import { momentText } from '../../io/time-text.ts';
import { changeOfLift } from '../../operations/recorded.ts';
import type { SpentWindow } from '../../operations/usage-changes.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { operationsOn } from '../operations.ts';
import { exitCodeOf, recordedByCommand } from '../recorded-change.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { OF_STORE } from '../terminal/variables.ts';

/** `tollgate bans lift`: ends a ban now. */
export const bansLift: Command = {
  name: 'bans lift',
  about:
    'Lifts the ban of a key: its strikes are cleared and its rung is taken back. Running gateways apply it within a second.',
  positionals: ['KEY_ID'],
  environment: OF_STORE,
  examples: ['tollgate bans lift KEY_ID'],
  options: {
    json: {
      type: 'boolean',
      about: 'Prints {"id","lifted","spent"}: the windows that still refuse, or null if they are not known.',
    },
  },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    const work = async (store: OpenStore): Promise<ExitCode> => {
      const { durability, spent } = await recordedByCommand(store, terminal.error, {
        action: 'ban.lift',
        target: id,
        work: () => operationsOn(store).lift(id),
        changeOf: (lifted) => changeOfLift(id, lifted),
      });
      if (options.json === true) terminal.out(`${JSON.stringify({ id, lifted: true, spent })}\n`);
      else
        terminal.out(
          `The ban of ${id} is lifted.\n${(spent ?? []).map((one) => spentText(id, one, terminal)).join('')}`,
        );
      return exitCodeOf(durability, terminal);
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};

function spentText(id: string, { window, resetAt }: SpentWindow, terminal: Terminal): string {
  const resets = momentText(resetAt * 1000, Date.now(), terminal);
  const topUp = `tollgate keys topup ${id} --window ${window} --amount N`;
  const reset = `tollgate usage reset ${id} --window ${window}`;
  return `Its quota of the ${window} is spent and resets ${resets}. \`${topUp}\` adds N requests to it, \`${reset}\` resets it.\n`;
}
