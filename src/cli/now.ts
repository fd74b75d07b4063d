import type { ExitCode } from '../failure.ts';
import { momentText } from '../io/time-text.ts';
import { atPresent } from '../operations/operator-store.ts';
import { type RefusedReport, refusedConsumers } from '../operations/refused-now.ts';
import { withStore } from '../serve/open-store.ts';
import { CUSTOMER, customerCell } from './keys/text-form.ts';
import { contextOn } from './operations.ts';
import type { Command, Terminal } from './terminal/command.ts';
import { Progress } from './terminal/output.ts';
import { type Column, printTable } from './terminal/table.ts';
import { OF_STORE } from './terminal/variables.ts';

/** `tollgate now`: who is refused or banned at present. */
export const now: Command = {
  name: 'now',
  about:
    'Lists the keys whose requests are refused or banned right now, the first to end first. A refusal appears within two seconds, ' +
    'because gateways report them once a second; an entry whose limit was raised or ban lifted is left out at once.',
  positionals: [],
  environment: OF_STORE,
  printsTable: true,
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
      about:
        'Prints an array of {"id","name","owner","plan","state","window","until","ban"}, times in Unix seconds; with "unreadable" where the record of the key cannot be read.',
    },
  },
  async run({ options }, terminal) {
    return withStore<ExitCode>(terminal.env, async (store) => {
      const refused: RefusedReport[] = [];
      const progress = new Progress(terminal, () => performance.now());
      let lookedAt = 0;
      const consumers = refusedConsumers(atPresent(contextOn(store)), { after: null, scan: options.scan === true });
      for await (const { report } of consumers) {
        progress.show('looked at', ++lookedAt, null, String);
        if (report !== null) refused.push(report);
      }
      progress.end();
      refused.sort((a, b) => a.until - b.until);
      if (options.json === true) terminal.out(`${JSON.stringify(refused, null, 2)}\n`);
      else {
        const nowMs = Date.now();
        // Without a customer among them the table is that of earlier versions.
        const hasCustomers = refused.some(({ customer }) => customer !== undefined);
        const rows = refused.map((report) => [
          ...rowOf(report, nowMs, terminal),
          ...(hasCustomers ? [customerCell(report.customer)] : []),
        ]);
        const columns = hasCustomers ? [...COLUMNS, CUSTOMER] : COLUMNS;
        printTable(terminal, columns, rows, NONE);
      }
      return 0;
    });
  },
};

const NONE = 'No key is refused for a quota or a ban. A new refusal appears here within two seconds.\n';

const COLUMNS: readonly Column[] = [
  { head: 'id', rank: 0, isWhole: true },
  { head: 'name', rank: 3 },
  { head: 'plan', rank: 4 },
  { head: 'state', rank: 1, isStatus: true },
  { head: 'window', rank: 5 },
  { head: 'ends', rank: 2 },
];

function rowOf(
  { id, name, plan, state, window, until, ban, unreadable }: RefusedReport,
  nowMs: number,
  terminal: Terminal,
): readonly string[] {
  const shown = ban === null ? state : `ban ${ban}`;
  return [
    id,
    unreadable === undefined ? (name ?? '') : 'unreadable',
    plan ?? '',
    shown,
    window,
    momentText(until * 1000, nowMs, terminal),
  ];
}
