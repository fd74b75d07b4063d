import { Failure } from '../../failure.ts';
import type { AffectedPlan, PlansChange } from '../../operations/plans/draft-report.ts';
import { changesBetween } from '../../operations/plans/plan-changes.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { type Column, printTable } from '../terminal/printed-table.ts';
import { OF_OPERATIONS } from '../terminal/variables.ts';
import { compareWithUsers, readPlansFile } from './file.ts';

/** `tollgate plans diff`: prints the differences between two files of plans (contract section 1). */
export const plansDiff: Command = {
  name: 'plans diff',
  about: 'Shows which limits and bans differ between two files of plans, and which keys are affected.',
  positionals: ['OLD', 'NEW'],
  environment: OF_OPERATIONS,
  printsTable: true,
  examples: [
    'tollgate plans diff plans.yaml new-plans.yaml',
    'tollgate plans diff plans.yaml new-plans.yaml --against --json',
  ],
  options: {
    against: {
      type: 'boolean',
      about:
        'Counts the live keys and customers that each change affects, in the store of the settings or on the gateway that is asked. A terminal and --json also show the first ' +
        '50 of each plan, with their limits before and after. A plan that they use and NEW lacks, without naming it in `removed`, makes the exit code 1.',
    },
    json: {
      type: 'boolean',
      about:
        'Prints one JSON object: old, new, changes with plan, what, change, from, to, keys, keysOfCustomers, customers, breaks; with ' +
        '--against also affected with plan, keys (without a customer), customers, keysOfCustomers, callers, and unreadable: the ids of keys and customers whose records cannot be read.',
    },
  },
  async run({ options, positionals }, terminal) {
    const [old, now] = positionals as [string, string];
    if (old === now) throw new Failure('bad_usage', 'OLD and NEW are the same file.');
    const [before, after] = [readPlansFile(old, terminal), readPlansFile(now, terminal)];
    if (before === null || after === null) return 1;
    const isAgainst = options.against === true;
    const compared = isAgainst ? await compareWithUsers({ text: after.text, from: before.text }, now, terminal) : null;
    const { changes, affected, refused, unreadable } = compared ?? {
      changes: changesBetween(before.value, after.value, null),
      refused: [],
    };
    if (options.json === true)
      terminal.out(`${JSON.stringify({ old, new: now, changes, affected, unreadable }, null, 2)}\n`);
    else {
      printTable(terminal, COLUMNS, changes.map(cellsOf), `${old} and ${now} allow the same.\n`);
      // Elsewhere each line is a change, for other programs.
      if (terminal.isTerminal && affected && affected.length > 0) printAffected(affected, terminal);
    }
    return refused.length > 0 || (unreadable ?? []).length > 0 ? 1 : 0;
  },
};

const COLUMNS: readonly Column[] = [
  { head: 'plan', rank: 0 },
  { head: 'what', rank: 1 },
  { head: 'change', rank: 2 },
  { head: 'from', rank: 4 },
  { head: 'to', rank: 5 },
  { head: 'live keys', rank: 6 },
  { head: 'warning', rank: 3 },
  { head: 'customers', rank: 7 },
];

function cellsOf({ plan, what, change, from, to, keys, customers, breaks }: PlansChange): string[] {
  const warning = breaks && (keys !== 0 || customers !== 0) ? 'could not be served any more' : '';
  return [
    plan ?? '-',
    what,
    change,
    String(from ?? '-'),
    String(to ?? '-'),
    String(keys ?? '-'),
    warning,
    String(customers ?? '-'),
  ];
}

const CALLER_COLUMNS: readonly Column[] = [
  { head: 'affected', rank: 0 },
  { head: 'name', rank: 2 },
  { head: 'plan', rank: 3 },
  { head: 'limits', rank: 1 },
];

function printAffected(affected: readonly AffectedPlan[], terminal: Terminal): void {
  const rows = affected.flatMap(({ plan, callers }) =>
    callers.map(({ id, name, breaks, limits }) => {
      const texts = limits.map(({ window, from, to }) => `${window} ${from ?? '-'} → ${to ?? '-'}`);
      const what = texts.join(', ') || 'as above';
      return [id, name ?? '-', plan, breaks ? 'could not be served any more' : what];
    }),
  );
  terminal.out('\n');
  printTable(terminal, CALLER_COLUMNS, rows, '');
  for (const { plan, keys, customers, callers } of affected) {
    const more = keys + customers - callers.length;
    if (more > 0) terminal.out(`… and ${more} more of plan ${plan}\n`);
  }
}
