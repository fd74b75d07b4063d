import { configurationFrom } from '../../config/settings.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import { durationText } from '../../io/time-text.ts';
import { groupText, limitsText, limitText, partText } from '../../model/plan.ts';
import { WINDOWS } from '../../model/values.ts';
import { partsOf, performGiven } from '../../operations/catalogue/methods.ts';
import type { OutputOf } from '../../operations/catalogue/operation.ts';
import { PLAINLY } from '../../operations/catalogue/perform.ts';
import { showPlans, showPlansVersion } from '../../operations/catalogue/plan-operations.ts';
import { type OperationsAt, withOperations } from '../operations-at.ts';
import { showCommand } from '../reading-command.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { table } from '../terminal/printed-table.ts';

const inForce = showCommand({
  name: 'plans show',
  operation: showPlans,
  positional: null,
  examples: [],
  at: withFiles,
  text: plansText,
});

const version = showCommand({
  name: 'plans show',
  operation: showPlansVersion,
  positional: 'VERSION',
  examples: [],
  hidden: ['against'],
  given: ({ positionals: [, against] }) => ({ against }),
  text: ({ text, patch }, _, { options }) => (options.diff === true ? patch : text),
  note({ version, against, patch }, { options: { diff, json } }) {
    if (diff !== true || json === true || patch !== '') return '';
    if (against === null) return `No version before ${version} is kept.\n`;
    return `${against} and ${version} are the same.\n`;
  },
});

/** `tollgate plans show`: prints the plans that a gateway with these settings would apply, or a version that was in force. */
export const plansShow: Command = {
  ...inForce,
  about:
    'Shows the plans: their limits, units, groups of routes and bans, and whether they are enforced. With VERSION, the text of a version ' +
    'of plans.yaml that was in force, as `tollgate plans history` lists them; its first 4 characters are enough.',
  positionals: ['[VERSION]', '[AGAINST]'],
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
      about: `${inForce.options.json!.about} With VERSION, as \`GET /admin/plans/history/{version}\` gives it.`,
    },
  },
  async run(words, terminal) {
    const {
      options: { diff, json },
      positionals: [named, against],
    } = words;
    if (named === undefined && diff === true)
      throw new Failure('bad_usage', '--diff needs a version: `tollgate plans show VERSION --diff`.');
    if (against !== undefined && diff !== true && json !== true)
      throw new Failure('bad_usage', 'A second version needs --diff or --json.');
    return (named === undefined ? inForce : version).run(words, terminal);
  },
};

/** Shows the plans in force on the gateway that was asked, or else those that one with these settings would put in force, without a store. */
async function withFiles(terminal: Terminal, work: (at: OperationsAt) => Promise<ExitCode>): Promise<ExitCode> {
  if (terminal.env.TOLLGATE_GATEWAY) return withOperations(terminal, work);
  const { settings, plans, versions } = await configurationFrom(terminal.env);
  const contexts = { settings: { plans: () => plans, versions: () => versions, routes: () => settings.routes } };
  return work({
    name: 'the files of settings',
    async perform(operation, input) {
      const { output } = await performGiven(operation, contexts, null, partsOf(operation, input), PLAINLY);
      return { output, isRepeated: false } as never;
    },
  });
}

type PlansOutput = OutputOf<typeof showPlans>;

function plansText(
  { plans, versions, failedAuthentication }: PlansOutput,
  { terminal }: { readonly terminal: Terminal },
): string {
  const rows = plans.map((plan) => [
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
  const parts = plans.flatMap(({ name, units = [], groups = [] }) => [
    ...units.map((unit) => `unit ${unit.name} of ${name}: ${limitsText(unit)}\n`),
    ...groups.map((group) => `group ${group.name} of ${name}: ${groupText(group)}\n`),
  ]);
  const end = `failed authentications: ${failedAuthentication.minute} per minute and address\nversion: ${versions.plans}\n`;
  return `${table(some(heads), rows.map(some), terminal)}${parts.join('')}${end}`;
}

function bansOf({ bans: rule, bansOfCustomer }: PlansOutput['plans'][number]): string {
  if (rule === null) return 'off';
  return `${bansOfCustomer ? 'of the customer, ' : ''}after ${rule.after} within ${durationText(rule.withinMs)}: ${durationText(rule.firstMs)} x ${rule.factor}, at most ${durationText(rule.longestMs)}`;
}

function watchedOf({ enforce, shadow, shadowForms }: PlansOutput['plans'][number]): string {
  if (!enforce) return 'all';
  return limitsText({ limits: shadow, forms: shadowForms });
}
