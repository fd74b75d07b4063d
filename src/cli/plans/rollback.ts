import { printFault } from '../../config/fault.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import {
  checkPlans,
  listPlansHistory,
  restorePlansVersion,
  showPlansFile,
  showPlansVersion,
} from '../../operations/catalogue/plan-operations.ts';
import { patchBetween } from '../../operations/plans/versions.ts';
import { type OperationsAt, openingFor, withOperations } from '../operations-at.ts';
import { type Command, isYes, type Terminal } from '../terminal/command.ts';
import { OF_OPERATIONS } from '../terminal/variables.ts';

/** `tollgate plans rollback`: replaces plans.yaml by a version that was in force before. */
export const plansRollback: Command = {
  name: 'plans rollback',
  about:
    'Replaces plans.yaml by a version that was in force before: VERSION, or the one before that in force. Shows the difference first. ' +
    'The file is that of the gateway that is asked, or else the one of the settings, which gateways that read it take like any other change.',
  positionals: ['[VERSION]'],
  environment: OF_OPERATIONS,
  examples: ['tollgate plans rollback', "tollgate plans rollback 0d97e6397b38 --yes --reason 'TICKET-12'"],
  options: {
    reason: {
      type: 'string',
      value: 'TEXT',
      about: 'Why, such as a ticket: one line of up to 200 characters, in the history and the record of changes.',
    },
    yes: {
      type: 'boolean',
      short: 'y',
      about: 'Replaces the file without asking. Only on a terminal the command asks first.',
    },
  },
  async run({ options, positionals: [word] }, terminal) {
    const { reason, yes } = options as { readonly reason?: string; readonly yes?: boolean };
    const work = (at: OperationsAt) => rollBack(at, { word, reason, isSure: yes === true }, terminal);
    return withOperations(terminal, work, openingFor(restorePlansVersion));
  },
};

async function rollBack(
  at: OperationsAt,
  {
    word,
    reason,
    isSure,
  }: { readonly word?: string | undefined; readonly reason?: string | undefined; readonly isSure: boolean },
  terminal: Terminal,
): Promise<ExitCode> {
  const named = word ?? (await versionBefore(at));
  const { version, text } = (await at.perform(showPlansVersion, { version: named })).output;
  const present = (await at.perform(showPlansFile, {})).output;
  const { path: file } = present;
  if (present.version === version) {
    terminal.out(`${file} is version ${version} already; nothing was changed.\n`);
    return 0;
  }
  const { faults } = (await at.perform(checkPlans, { text })).output;
  if (faults.length > 0) {
    for (const fault of faults) terminal.error(`${printFault({ file, ...fault })}\n`);
    const why = `Version ${version} has faults by the rules of this version of Tollgate. Nothing was changed.`;
    throw new Failure('refused', why);
  }
  terminal.out(patchBetween(present.text.replace(/^\uFEFF/, ''), text));
  const { question = null } = terminal;
  const isConfirmed = isSure || question === null;
  if (!isConfirmed && !isYes(await question(`Replace ${file} by version ${version}? [y/N] `))) {
    terminal.error('Nothing was changed.\n');
    return 1;
  }
  const { output } = await at.perform(restorePlansVersion, { version, reason }, { version: present.version });
  const after = output.inForce ? 'The gateway has it in force.' : output.whyNotInForce;
  terminal.error(`${file} is version ${version} again. ${after}\n`);
  return 0;
}

/** The version before that in force, which differs from it. @throws Failure `not_found`, `store_corrupt` */
async function versionBefore(at: OperationsAt): Promise<string> {
  const { versions, unreadable } = (await at.perform(listPlansHistory, {})).output;
  const [[latest], [hidden]] = [versions, unreadable];
  const before = versions.find(({ version }) => version !== latest!.version);
  if (hidden !== undefined && Number(hidden.id) > (before?.number ?? 0))
    throw new Failure('store_corrupt', `${hidden.reason} Or name the VERSION to go back to.`);
  if (before !== undefined) return before.version;
  throw new Failure(
    'not_found',
    latest === undefined ? 'No version of plans.yaml is recorded yet.' : `No version before ${latest.version} is kept.`,
  );
}
