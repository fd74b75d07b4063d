import { type Fault, inOrder, printFault } from '../../config/fault.ts';
import { DEFAULT_PLANS_FILE, routeWarningsOf } from '../../config/settings.ts';
import type { BanRule, Plans } from '../../model/plan.ts';
import {
  lostPlansOf,
  type PlacedPlans,
  patternsOf,
  warningsAgainst,
  warningsOf,
} from '../../operations/plans/warnings.ts';
import { countLiveKeys } from '../../operations/plans-in-use.ts';
import { withStore } from '../../serve/open-store.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { Progress } from '../terminal/output.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { warnOfUnreadable } from './diff.ts';
import { checkPlansFile } from './file.ts';

/** `tollgate plans check`: makes the checks of a gateway's start (contract sections 1 and 2), and prints more warnings. */
export const plansCheck: Command = {
  name: 'plans check',
  about: 'Checks plans.yaml: prints every fault with its line and column, and warns of what is probably wrong.',
  positionals: ['[FILE]'],
  environment: OF_STORE,
  examples: ['tollgate plans check', 'tollgate plans check new-plans.yaml --against --strict'],
  options: {
    against: {
      type: 'boolean',
      about:
        'Looks at the keys of the store and the routes of gateway.yaml too, as the settings name them. A plan that live keys or customers use and ' +
        'FILE lacks, without naming it in `removed`, is a fault: a running gateway refuses such a change.',
    },
    strict: { type: 'boolean', about: 'Warnings make the exit code 1 too.' },
    json: {
      type: 'boolean',
      about:
        'Prints one JSON object: file, valid, faults, warnings; with --against also unreadable, the ids of keys and customers whose records cannot be read.',
    },
  },
  async run({ options, positionals }, terminal) {
    const file = positionals[0] ?? (terminal.env.TOLLGATE_PLANS || DEFAULT_PLANS_FILE);
    const checked = checkPlansFile(
      file,
      'Give the file as in `tollgate plans check FILE`, or name it in TOLLGATE_PLANS.',
    );
    const against = 'value' in checked && options.against === true;
    const looked = against ? await lookAgainst(checked, file, terminal) : NOTHING;
    const faults = 'faults' in checked ? checked.faults : looked.faults;
    const own = 'value' in checked ? warningsOf(checked) : [];
    const routeWarnings = against ? routeWarningsOf(terminal.env) : [];
    const warnings = [...inOrder([...checked.warnings, ...own, ...looked.warnings]), ...routeWarnings];
    if (options.json === true) {
      const valid = faults.length === 0;
      const unread = against ? { unreadable: looked.unreadable } : {};
      const report = { file, valid, faults: faults.map(jsonOf), warnings: warnings.map(jsonOf), ...unread };
      terminal.out(`${JSON.stringify(report, null, 2)}\n`);
    } else {
      for (const fault of faults) terminal.error(`${printFault(fault)}\n`);
      for (const warning of warnings) terminal.error(`warning: ${printFault(warning)}\n`);
      if ('value' in checked && faults.length === 0) terminal.out(`${file}: ${summaryOf(checked.value)}\n`);
    }
    warnOfUnreadable(looked.unreadable, terminal);
    return faults.length + looked.unreadable.length > 0 || (options.strict === true && warnings.length > 0) ? 1 : 0;
  },
};

const NOTHING = { faults: [], warnings: [], unreadable: [] };

/** Looks at the plans together with the keys and routes that will use them. */
async function lookAgainst(plans: PlacedPlans, file: string, terminal: Terminal) {
  const progress = new Progress(terminal, () => performance.now());
  // The store and routes come from the settings, the plans from the file that is checked.
  const env = { ...terminal.env, TOLLGATE_PLANS: file };
  const work = async ({ settings, ...stores }: Parameters<Parameters<typeof withStore>[1]>[0]) => {
    const { byPlan: live, unreadable } = await countLiveKeys(stores, Date.now(), {
      onPage: (keysRead) => {
        progress.show('keys', keysRead, null, String);
        return true;
      },
    });
    progress.end();
    const { routes, jwt } = settings;
    const users = { live, routes, patterns: patternsOf(routes), hasTokens: jwt !== null };
    return { faults: lostPlansOf(plans, live), warnings: warningsAgainst(plans, users), unreadable };
  };
  return withStore(env, work, { warn: terminal.error });
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
