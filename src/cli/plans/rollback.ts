import { printFault } from '../../config/fault.ts';
import { parsePlans } from '../../config/plans.ts';
import { filesOf } from '../../config/settings.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import { versionState } from '../../operations/load-record.ts';
import { changesBetween, changeText } from '../../operations/plans/changes.ts';
import {
  latestVersion,
  patchBetween,
  type ReadHistory,
  readHistory,
  versionNamed,
} from '../../operations/plans/history.ts';
import type { KeptVersion } from '../../operations/plans/history-store.ts';
import { PlansFile } from '../../operations/plans/plans-file.ts';
import { announceWritten, writePlans } from '../../operations/plans/write.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { recordedByCommand, recordingOf } from '../recorded-change.ts';
import { type Command, isYes, type Terminal } from '../terminal/command.ts';
import { OF_STORE } from '../terminal/variables.ts';

/** `tollgate plans rollback`: replaces plans.yaml by a version that was in force before. */
export const plansRollback: Command = {
  name: 'plans rollback',
  about:
    'Replaces plans.yaml by a version that was in force before: VERSION, or the one before that in force. Shows the difference first. ' +
    'Gateways that read this file then take it like any other change.',
  positionals: ['[VERSION]'],
  environment: OF_STORE,
  examples: ['tollgate plans rollback', 'tollgate plans rollback 0d97e6397b38 --yes'],
  options: {
    yes: {
      type: 'boolean',
      short: 'y',
      about: 'Replaces the file without asking. Only on a terminal the command asks first.',
    },
  },
  async run({ options, positionals }, terminal) {
    const work = (store: OpenStore) => rollBack(store, positionals[0] ?? null, options.yes === true, terminal);
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};

async function rollBack(store: OpenStore, word: string | null, isSure: boolean, terminal: Terminal): Promise<ExitCode> {
  const history = await readHistory(store.plansHistory);
  const target = targetOf(word, history);
  const file = new PlansFile(filesOf(terminal.env)[1], Date.now);
  const { text: present, version: found } = file.read();
  if (found === target.version) {
    terminal.out(`${file.name} is version ${found} already; nothing was changed.\n`);
    return 0;
  }
  const text = await history.textOf(target);
  const draft = parsePlans(text, file.name);
  if ('faults' in draft) {
    for (const fault of draft.faults) terminal.error(`${printFault(fault)}\n`);
    throw new Failure(
      'refused',
      `Version ${target.version} has faults by the rules of this version of Tollgate. Nothing was changed.`,
    );
  }
  terminal.out(patchBetween(present.replace(/^\uFEFF/, ''), text));
  if (!isSure && !(await isConfirmed(target, file, terminal))) {
    terminal.error('Nothing was changed.\n');
    return 1;
  }
  await replace({ store, history, file, terminal }, { found, target, text, plans: draft.value });
  terminal.error(
    `${file.name} is version ${target.version} again. \`tollgate plans history\` lists it once a gateway has it in force.\n`,
  );
  return 0;
}

/**
 * The version that is named, or the one before that in force, which differs from it.
 * @throws Failure `refused`, `not_found`, `store_corrupt`
 */
function targetOf(word: string | null, history: ReadHistory): KeptVersion {
  if (word !== null) return versionNamed(word, history);
  const { versions, unreadable } = history;
  const latest = latestVersion(history);
  const before = versions.find(({ version }) => version !== latest.version);
  const [hidden] = unreadable;
  if (hidden !== undefined && Number(hidden.id) > (before?.number ?? 0))
    throw new Failure('store_corrupt', `${hidden.message} Or name the VERSION to go back to.`);
  if (before !== undefined) return before;
  throw new Failure('not_found', `No version before ${latest.version} is kept.`);
}

async function isConfirmed({ version }: KeptVersion, { name }: PlansFile, { question }: Terminal): Promise<boolean> {
  return (
    question === null ||
    question === undefined ||
    isYes(await question(`Replace ${name} by version ${version}? [y/N] `))
  );
}

interface Rollback {
  /** The version of the file that the person has seen the difference from. */
  readonly found: string;
  readonly target: KeptVersion;
  readonly text: string;
  readonly plans: Extract<ReturnType<typeof parsePlans>, { readonly value: unknown }>['value'];
}

/** Replaces the file as the admin API does, and records it. @throws Failure `conflict`, `store_unavailable` */
async function replace(
  {
    store,
    history,
    file,
    terminal,
  }: {
    readonly store: OpenStore;
    readonly history: ReadHistory;
    readonly file: PlansFile;
    readonly terminal: Terminal;
  },
  { found, target, text, plans }: Rollback,
): Promise<void> {
  const inForce = await plansInForce(history);
  const changes = changesBetween(inForce, plans, null).map(changeText);
  const draft = { text, plans: new Set(plans.plans.keys()), removed: plans.removed };
  const by = recordingOf(store, terminal.error).origin.actor;
  await recordedByCommand(store, terminal.error, {
    action: 'plans.write',
    target: null,
    work: async () => {
      const monotonicMs = () => performance.now();
      const around = { file, inForce: { plans: inForce }, users: store, monotonicMs };
      const done = await writePlans(draft, (version) => version === found, around);
      if (done.kind === 'changed') {
        throw new Failure(
          'conflict',
          `${file.name} has been changed meanwhile. Nothing was changed. Run the command again.`,
        );
      }
      await announceWritten(target.version, by, { auditStore: store.audit, plansHistory: store.plansHistory });
    },
    changeOf: () => ({ target: null, before: { version: found }, after: versionState(target.version, changes) }),
  });
}

/** The plans that came into force last. The file may have faults. @throws Failure `conflict`, `store_corrupt` */
async function plansInForce(history: ReadHistory) {
  const latest = latestVersion(history);
  const parsed = parsePlans(await history.textOf(latest), 'plans.yaml');
  if ('value' in parsed) return parsed.value;
  throw new Failure(
    'conflict',
    `The plans in force, version ${latest.version}, cannot be read by this version of Tollgate.`,
  );
}
