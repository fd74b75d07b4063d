import { configurationFrom } from '../../config/settings.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import { durationText } from '../../io/time-text.ts';
import { groupText, limitsText, limitText, type Plan, partText } from '../../model/plan.ts';
import { WINDOWS } from '../../model/values.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { table } from '../terminal/table.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { printVersion } from './history.ts';

/** `tollgate plans show`: prints the plans that a gateway with these settings would apply, or a version that was in force. */
export const plansShow: Command = {
  name: 'plans show',
  about:
    'Shows the plans: their limits, units, groups of routes and bans, and whether they are enforced. With VERSION, the text of a version ' +
    'of plans.yaml that was in force, as `tollgate plans history` lists them; its first 4 characters are enough.',
  positionals: ['[VERSION]', '[AGAINST]'],
  environment: OF_STORE,
  printsTable: true,
  examples: [
    'tollgate plans show',
    'tollgate plans show --json',
    'tollgate plans show 0d97e6397b38',
    'tollgate plans show 0d97e6397b38 --diff',
  ],
  options: {
    diff: {
      type: 'boolean',
      about:
        'Prints the difference that leads to VERSION from AGAINST, another version; from the one before it unless given.',
    },
    json: {
      type: 'boolean',
      about:
        'Prints {"version","failedAuthenticationPerMinute","plans"}; durations in milliseconds. `forms` of a plan has the ' +
        'windows that are not fixed; a month that is not in it is one of UTC. With VERSION ' +
        '{"number","version","since","from","by","text","against","patch"}.',
    },
  },
  async run({ options, positionals: [version, against = null] }, terminal): Promise<ExitCode> {
    const [diff, json] = [options.diff === true, options.json === true];
    if (version === undefined && diff)
      throw new Failure('bad_usage', '--diff needs a version: `tollgate plans show VERSION --diff`.');
    if (against !== null && !diff && !json) throw new Failure('bad_usage', 'A second version needs --diff or --json.');
    if (version !== undefined) return printVersion(version, against, { diff, json }, terminal);
    return printPlans(json, terminal);
  },
};

async function printPlans(json: boolean, terminal: Terminal): Promise<ExitCode> {
  const { plans, versions } = await configurationFrom(terminal.env);
  const all = [...plans.plans.values()];
  if (json) {
    const { failedAuthenticationPerMinute } = plans;
    terminal.out(
      `${JSON.stringify({ version: versions.plans, failedAuthenticationPerMinute, plans: all }, null, 2)}\n`,
    );
    return 0;
  }
  const rows = all.map((plan) => [
    plan.name,
    ...WINDOWS.map((window) => limitText(window, plan)),
    bansOf(plan),
    watchedOf(plan),
    plan.eachKey === undefined ? '' : partText(plan.eachKey),
    (plan.groups ?? []).map(({ name }) => name).join(', '),
    String(plan.inFlight ?? ''),
  ]);
  const heads = ['plan', ...WINDOWS, 'bans', 'watched only', 'each key', 'groups', 'in flight'];
  // A terminal is narrow, and other programs expect all columns.
  const shown = heads.map((_, i) => !terminal.isTerminal || rows.some((row) => row[i] !== ''));
  const some = <T>(cells: readonly T[]) => cells.filter((_, i) => shown[i]);
  terminal.out(table(some(heads), rows.map(some), terminal));
  for (const { name, units = [], groups = [] } of all) {
    for (const unit of units) terminal.out(`unit ${unit.name} of ${name}: ${limitsText(unit)}\n`);
    for (const group of groups) terminal.out(`group ${group.name} of ${name}: ${groupText(group)}\n`);
  }
  terminal.out(
    `failed authentications: ${plans.failedAuthenticationPerMinute} per minute and address\nversion: ${versions.plans}\n`,
  );
  return 0;
}

function bansOf({ bans: rule, bansOfCustomer }: Plan): string {
  if (rule === null) return 'off';
  return `${bansOfCustomer ? 'of the customer, ' : ''}after ${rule.after} within ${durationText(rule.withinMs)}: ${durationText(rule.firstMs)} x ${rule.factor}, at most ${durationText(rule.longestMs)}`;
}

function watchedOf({ enforce, shadow, shadowForms }: Plan): string {
  if (!enforce) return 'all';
  return limitsText({ limits: shadow, forms: shadowForms });
}
