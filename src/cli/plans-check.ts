import type { BanRule, Plans } from '../admit/plan.ts';
import { type Fault, printFault } from '../config/fault.ts';
import { parsePlans } from '../config/plans.ts';
import { readSettingsFile } from '../config/read-file.ts';
import { DEFAULT_PLANS_FILE } from '../config/settings.ts';
import type { Command } from './command.ts';

/** `tollgate plans check`: the same check that a gateway makes before it serves (contract sections 1 and 2). */
export const plansCheck: Command = {
  name: 'plans check',
  about: 'Checks plans.yaml and tells every fault with its line and column.',
  positionals: ['[FILE]'],
  options: {
    json: { type: 'boolean', about: 'Prints one JSON object: file, valid, faults, warnings.' },
  },
  async run({ options, positionals }, terminal) {
    const file = positionals[0] ?? (terminal.env.TOLLGATE_PLANS || DEFAULT_PLANS_FILE);
    const result = check(file);
    const faults = 'faults' in result ? result.faults : [];
    if (options.json === true) {
      const report = {
        file,
        valid: faults.length === 0,
        faults: faults.map(told),
        warnings: result.warnings.map(told),
      };
      terminal.out(`${JSON.stringify(report, null, 2)}\n`);
    } else {
      for (const fault of faults) terminal.error(`${printFault(fault)}\n`);
      for (const warning of result.warnings) terminal.error(`warning: ${printFault(warning)}\n`);
      if ('value' in result) terminal.out(`${file}: ${summaryOf(result.value)}\n`);
    }
    return faults.length === 0 ? 0 : 1;
  },
};

function check(file: string): ReturnType<typeof parsePlans> {
  const read = readSettingsFile(file, 'Give the file as in `tollgate plans check FILE`, or name it in TOLLGATE_PLANS.');
  return 'fault' in read ? { faults: [read.fault], warnings: [] } : parsePlans(read.text, file);
}

function told({ line, column, path, message }: Fault) {
  return { line, column, path, message };
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
