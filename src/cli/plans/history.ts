import type { ExitCode } from '../../failure.ts';
import { momentText } from '../../io/time-text.ts';
import { byReadability, isReadable } from '../../model/record.ts';
import { actorText } from '../../operations/audit-report.ts';
import { readHistory, shownVersion, versionReport } from '../../operations/plans/history.ts';
import { KEPT_VERSIONS } from '../../operations/plans/history-store.ts';
import { type OpenKeys, withKeys } from '../../serve/open-store.ts';
import { json, unreadableEntry } from '../keys/text-form.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { type Column, printTable } from '../terminal/table.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { UnreadableRecords } from '../unreadable-records.ts';

const COLUMNS: readonly Column[] = [
  { head: 'version', rank: 0, isWhole: true },
  { head: 'in force since', rank: 1 },
  { head: 'from', rank: 3 },
  { head: 'by', rank: 2 },
];

/** `tollgate plans history`: the versions of plans.yaml that came into force. */
export const plansHistory: Command = {
  name: 'plans history',
  about: `Lists the last ${KEPT_VERSIONS} versions of plans.yaml that came into force, newest first: since when, from what, and by whom as far as known.`,
  positionals: [],
  environment: OF_STORE,
  printsTable: true,
  examples: ['tollgate plans history', 'tollgate plans history --json'],
  options: {
    json: {
      type: 'boolean',
      about:
        'Prints an array of {"number","version","since","from","by"}; {"id","unreadable"} for an entry that cannot be read, whose id is its number.',
    },
  },
  async run({ options }, terminal) {
    const work = async ({ plansHistory: history }: OpenKeys): Promise<ExitCode> => {
      const versions = await history.list();
      const nowMs = Date.now();
      const unread = new UnreadableRecords(byReadability(versions).unreadable);
      if (options.json === true) {
        terminal.out(json(versions.map((one) => (isReadable(one) ? versionReport(one) : unreadableEntry(one)))));
      } else {
        const rows = versions.map((one) => (isReadable(one) ? rowOf(versionReport(one), nowMs, terminal) : UNREADABLE));
        const none = 'No version of plans.yaml is recorded yet. A gateway records it at its start.\n';
        printTable(terminal, COLUMNS, rows, none);
      }
      unread.describe(terminal, (isOne) => `${isOne ? 'is' : 'are'} without what ${isOne ? 'it says' : 'they say'}`);
      return unread.exitCode;
    };
    return withKeys(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};

function rowOf({ version, since, from, by }: ReturnType<typeof versionReport>, nowMs: number, terminal: Terminal) {
  return [version, momentText(Date.parse(since), nowMs, terminal), from, by === null ? 'unreadable' : actorText(by)];
}

const UNREADABLE = ['unreadable', '-', '-', '-'];

/**
 * Prints a version that was in force: its text, or its difference from another one.
 * @param against null: the version before it
 */
export function printVersion(
  word: string,
  against: string | null,
  { diff, json }: { readonly diff: boolean; readonly json: boolean },
  terminal: Terminal,
): Promise<ExitCode> {
  const work = async ({ plansHistory: history }: OpenKeys): Promise<ExitCode> => {
    const shown = await shownVersion(await readHistory(history), word, against);
    if (json) terminal.out(`${JSON.stringify(shown, null, 2)}\n`);
    else if (!diff) terminal.out(shown.text);
    else if (shown.against === null) terminal.error(`No version before ${shown.version} is kept.\n`);
    else if (shown.patch === '') terminal.error(`${shown.against} and ${shown.version} are the same.\n`);
    else terminal.out(shown.patch);
    return 0;
  };
  return withKeys(terminal.env, work, { needsPlans: false, warn: terminal.error });
}
