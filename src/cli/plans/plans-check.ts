import { type Fault, inOrder, printFault } from '../../config/fault.ts';
import { planRoutesOf, warningsWithRoutes } from '../../config/plans-and-routes.ts';
import { DEFAULT_PLANS_FILE, filesOf, readRoutes } from '../../config/settings.ts';
import type { BanRule, Plans } from '../../model/plan.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { OF_OPERATIONS } from '../terminal/variables.ts';
import { checkPlansFile, compareWithUsers } from './file.ts';

/** `tollgate plans check`: makes the checks of a gateway's start (contract sections 1 and 2), and prints more warnings. */
export const plansCheck: Command = {
  name: 'plans check',
  about:
    'Checks plans.yaml: prints every fault with its line and column, and warns of what is probably wrong, also together with the routes ' +
    'of gateway.yaml, if that can be read.',
  positionals: ['[FILE]'],
  environment: OF_OPERATIONS,
  examples: ['tollgate plans check', 'tollgate plans check new-plans.yaml --against --strict'],
  options: {
    against: {
      type: 'boolean',
      about:
        'Looks at the keys and customers of the store too, or at those and the routes of the gateway that is asked. A plan that live keys or customers use and ' +
        'FILE lacks, without naming it in `removed`, is a fault: a running gateway refuses such a change.',
    },
    strict: { type: 'boolean', about: 'Warnings make the exit code 1 too.' },
    json: {
      type: 'boolean',
      about:
        'Prints one JSON object: file, valid, faults, warnings, comparedWithRoutes, which is false if gateway.yaml could not be read; with --against also unreadable, the ids of keys and customers whose records cannot be read.',
    },
  },
  async run({ options, positionals }, terminal) {
    const file = positionals[0] ?? (terminal.env.TOLLGATE_PLANS || DEFAULT_PLANS_FILE);
    const checked = checkPlansFile(
      file,
      'Give the file as in `tollgate plans check FILE`, or name it in TOLLGATE_PLANS.',
    );
    const looked =
      'value' in checked && options.against === true ? await lookAgainst(checked.text, file, terminal) : null;
    const routes = looked === null ? readRoutes(terminal.env) : null;
    const faults = 'faults' in checked ? checked.faults : (looked?.faults ?? []);
    const withRoutes = 'value' in checked && routes !== null ? warningsWithRoutes(checked, planRoutesOf(routes)) : [];
    const warnings = looked?.warnings ?? inOrder([...checked.warnings, ...withRoutes]);
    const comparedWithRoutes = looked !== null || routes !== null;
    const unreadable = looked?.unreadable;
    if (options.json === true) {
      const valid = faults.length === 0;
      const unread = unreadable === undefined ? {} : { unreadable };
      const lists = { faults: faults.map(jsonOf), warnings: warnings.map(jsonOf) };
      const report = { file, valid, ...lists, comparedWithRoutes, ...unread };
      terminal.out(`${JSON.stringify(report, null, 2)}\n`);
    } else {
      for (const fault of faults) terminal.error(`${printFault(fault)}\n`);
      for (const warning of warnings) terminal.error(`warning: ${printFault(warning)}\n`);
      if ('value' in checked && !comparedWithRoutes)
        terminal.error(`note: not compared with routes: ${filesOf(terminal.env)[0]} does not exist or has faults.\n`);
      if ('value' in checked && faults.length === 0) terminal.out(`${file}: ${summaryOf(checked.value)}\n`);
    }
    return faults.length + (unreadable?.length ?? 0) > 0 || (options.strict === true && warnings.length > 0) ? 1 : 0;
  },
};

/** Looks at the plans together with the keys that will use them, and the routes of the gateway or the settings. */
async function lookAgainst(text: string, file: string, terminal: Terminal) {
  const { lost, warnings, moreWarnings, unreadable } = await compareWithUsers({ text, from: text }, file, terminal);
  if (moreWarnings > 0) terminal.error(`warning: ${file} has ${moreWarnings} more warnings than are listed.\n`);
  const faults = new Set(lost.map(({ message }) => message));
  const inFile = (found: (typeof warnings)[number]) => ({ file, ...found });
  return {
    faults: lost.map(inFile),
    warnings: warnings.filter(({ message }) => !faults.has(message)).map(inFile),
    unreadable,
  };
}

function jsonOf({ file, line, column, path, message }: Fault) {
  return { file, line, column, path, message };
}

function summaryOf({ plans, failedAuthenticationPerMinute }: Plans): string {
  const names = [...plans.keys()].join(', ');
  const bans = [...plans.values()].flatMap((plan) => (plan.bans === null ? [] : [plan.bans]));
  return (
    `${plans.size} ${plans.size === 1 ? 'plan' : 'plans'} (${names}), ${summaryOfBans(bans, plans.size)}, ` +
    `${failedAuthenticationPerMinute} failed authentications a minute and address.`
  );
}

function summaryOfBans(bans: readonly BanRule[], plans: number): string {
  if (bans.length === 0) return 'no bans';
  if (bans.length < plans) return `bans in ${bans.length} of them`;
  const after = new Set(bans.map((rule) => rule.after));
  return after.size === 1 ? `bans after ${bans[0]!.after} refusals` : 'bans in all of them';
}
