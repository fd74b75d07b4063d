import type { ExitCode } from '../failure.ts';
import type { RefusedReport } from '../operations/refused-now.ts';
import { withStore } from '../serve/open-store.ts';
import { operationsOn } from './operations.ts';
import type { Command } from './terminal/command.ts';
import { Progress, table } from './terminal/output.ts';
import { OF_STORE } from './terminal/variables.ts';

/** `tollgate now`: who is refused or banned at present. */
export const now: Command = {
  name: 'now',
  about: 'Lists the keys whose requests are refused or banned right now, the first to end first.',
  positionals: [],
  environment: OF_STORE,
  examples: ['tollgate now', 'tollgate now --scan --json'],
  options: {
    scan: {
      type: 'boolean',
      about:
        'Looks through all accounts in the store for bans as well, which takes longer with many keys, and notes those that the ' +
        'list lacked.',
    },
    json: {
      type: 'boolean',
      about: 'Prints an array of {"id","name","owner","plan","state","window","until","ban"}, times in Unix seconds.',
    },
  },
  async run({ options }, terminal) {
    return withStore<ExitCode>(terminal.env, async (store) => {
      const refused: RefusedReport[] = [];
      const progress = new Progress(terminal, () => performance.now());
      let lookedAt = 0;
      const consumers = operationsOn(store).refusedNow({ after: null, scan: options.scan === true });
      for await (const { report } of consumers) {
        progress.show('looked at', ++lookedAt, null, String);
        if (report !== null) refused.push(report);
      }
      progress.end();
      refused.sort((a, b) => a.until - b.until);
      if (options.json === true) terminal.out(`${JSON.stringify(refused, null, 2)}\n`);
      else if (refused.length === 0) terminal.out('Nobody is refused.\n');
      else terminal.out(table(['id', 'name', 'plan', 'state', 'window', 'until'], refused.map(rowOf), terminal));
      return 0;
    });
  },
};

function rowOf({ id, name, plan, state, window, until, ban }: RefusedReport): readonly string[] {
  const shown = ban === null ? state : `ban ${ban}`;
  return [id, name ?? '', plan ?? '', shown, window, new Date(until * 1000).toISOString()];
}
