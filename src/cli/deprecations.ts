import { type ExitCode, Failure } from '../failure.ts';
import { KEPT_DAYS } from '../operations/deprecated-calls.ts';
import { deprecationReports } from '../operations/deprecations.ts';
import { withStore } from '../serve/open-store.ts';
import type { Command } from './terminal/command.ts';
import { Progress } from './terminal/output.ts';
import { type Column, printTable } from './terminal/table.ts';
import { OF_STORE } from './terminal/variables.ts';

const DEFAULT_DAYS = 30;

/** `tollgate deprecations`: lists the callers of each deprecated route. */
export const deprecations: Command = {
  name: 'deprecations',
  about: 'Lists the deprecated routes and who still calls them.',
  positionals: [],
  environment: OF_STORE,
  printsTable: true,
  examples: ['tollgate deprecations', 'tollgate deprecations --json'],
  options: {
    days: {
      type: 'string',
      value: 'DAYS',
      about: `How far back, today included: 1 to ${KEPT_DAYS}, default ${DEFAULT_DAYS}.`,
    },
    json: {
      type: 'boolean',
      about: 'Prints an array of {"route","methods","since","sunset","successor","calls","callers"}.',
    },
  },
  async run({ options }, terminal) {
    const days = daysOf(options.days);
    return withStore<ExitCode>(terminal.env, async (store) => {
      const progress = new Progress(terminal, () => performance.now());
      let callers = 0;
      const onCaller = () => progress.show('callers', ++callers, null, String);
      const reports = await deprecationReports(store.settings.routes, store, { days, nowMs: Date.now(), onCaller });
      progress.end();
      if (options.json === true) terminal.out(`${JSON.stringify(reports, null, 2)}\n`);
      else {
        const rows = reports.flatMap(({ route, methods, sunset, callers }) =>
          callers.length === 0
            ? [[route, methods.join(','), sunset?.slice(0, 10) ?? '', 'nobody', '', '', '0', '']]
            : callers.map(({ id, name, plan, calls, lastDay, unreadable }) => [
                route,
                methods.join(','),
                sunset?.slice(0, 10) ?? '',
                id,
                unreadable === undefined ? (name ?? '') : 'unreadable',
                plan ?? '',
                String(calls),
                lastDay,
              ]),
        );
        printTable(terminal, COLUMNS, rows, 'No route is deprecated.\n');
      }
      return 0;
    });
  },
};

const COLUMNS: readonly Column[] = [
  { head: 'route', rank: 0 },
  { head: 'methods', rank: 3 },
  { head: 'sunset', rank: 5 },
  { head: 'caller', rank: 1, isWhole: true },
  { head: 'name', rank: 4 },
  { head: 'plan', rank: 7 },
  { head: 'calls', rank: 2 },
  { head: 'last day', rank: 6 },
];

function daysOf(given: unknown): number {
  if (given === undefined) return DEFAULT_DAYS;
  const days = Number(given);
  if (!/^[0-9]{1,3}$/.test(String(given)) || days < 1 || days > KEPT_DAYS) {
    throw new Failure('bad_usage', `--days must be a whole number from 1 to ${KEPT_DAYS}.`);
  }
  return days;
}
