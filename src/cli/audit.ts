import { type ExitCode, Failure } from '../failure.ts';
import { momentText } from '../io/time-text.ts';
import { isCustomerId, isKeyId, orUnreadable, type StoredRecord, UnreadableRecord } from '../model/record.ts';
import { actorText, type ChangeReport, differenceOf, firstChanges, nameOfKey } from '../operations/audit-report.ts';
import { RECORDED_ACTIONS } from '../operations/audit-trail.ts';
import { PAST_RULE, pastFrom } from '../operations/values.ts';
import { type OpenStore, withStore } from '../serve/open-store.ts';
import { json, unreadableCells, unreadableEntry } from './keys/text-form.ts';
import { meantId } from './meant-id.ts';
import { operationsHere } from './operations-at.ts';
import type { Command, Terminal } from './terminal/command.ts';
import { type Column, printTable } from './terminal/table.ts';
import { OF_STORE } from './terminal/variables.ts';
import { UnreadableRecords } from './unreadable-records.ts';

const DEFAULT_LIMIT = '50';

/** `tollgate audit`: lists the record of changes. */
export const audit: Command = {
  name: 'audit',
  about:
    'Lists the changes to keys, bans, plans and settings that were made or attempted: who, when, and with what outcome; newest first. The list includes files that gateways accepted or refused. Refused attempts of one minute are counted.',
  positionals: [],
  environment: OF_STORE,
  printsTable: true,
  examples: ['tollgate audit', 'tollgate audit --json'],
  options: {
    limit: { type: 'string', value: 'N', about: `Lists at most this many changes; ${DEFAULT_LIMIT} by default.` },
    key: {
      type: 'string',
      value: 'ID',
      about: 'Only changes to this key or customer, by id or name, or to this token caller (jwt_…).',
    },
    since: {
      type: 'string',
      value: 'WHEN',
      about:
        'Only changes since then: a duration before now such as 24h, a date such as 2026-01-31, or an RFC 3339 time.',
    },
    until: { type: 'string', value: 'WHEN', about: 'Only changes before then, in the same form.' },
    action: {
      type: 'string',
      value: 'ACTION',
      about: 'Only changes of this kind, as the column ACTION has it, such as key.revoke.',
    },
    actor: {
      type: 'string',
      value: 'NAME',
      about:
        "Only changes by this token (ADMIN_TOKEN), person, user of a shell or file (plans.yaml): the name alone, or as the column BY has it, such as 'jo (token)'.",
    },
    json: {
      type: 'boolean',
      about:
        'Prints an array of {"id","time","action","outcome","code","target","actor","requestId","clientAddress","before","after","count","lastTime"}; {"id","unreadable"} for an entry that cannot be read.',
    },
  },
  async run({ options }, terminal) {
    const {
      limit = DEFAULT_LIMIT,
      key: word = null,
      since = null,
      until = null,
      actor = null,
      action = null,
    } = options as Readonly<Record<string, string | undefined>>;
    if (!/^[1-9][0-9]{0,7}$/.test(limit)) {
      throw new Failure('bad_usage', `--limit is '${limit}'; it must be a whole number from 1 to 99999999.`);
    }
    const [sinceMs, untilMs] = [momentOf('since', since), momentOf('until', until)];
    const kind = RECORDED_ACTIONS.find((one) => one === action) ?? null;
    if (action !== null && kind === null)
      throw new Failure('bad_usage', `--action is '${action}'; it must be one of ${RECORDED_ACTIONS.join(', ')}.`);
    const work = async (store: OpenStore): Promise<ExitCode> => {
      const note = terminal.error;
      const key =
        word === null ? null : await meantId(operationsHere(store, note), word, { of: 'ID', isRead: true, note });
      const filter = { key, actor, action: kind, sinceMs, untilMs };
      const { changes, unreadable } = await firstChanges(store.audit, filter, Number(limit));
      if (options.json === true) terminal.out(json([...changes, ...unreadable.map(unreadableEntry)]));
      else {
        const nowMs = Date.now();
        const names = await presentNames(changes, store);
        const rows = changes.map((change) => rowOf(change, names, nowMs, terminal));
        rows.push(...unreadable.map(({ id }) => unreadableCells(id, COLUMNS)));
        printTable(terminal, COLUMNS, rows, 'No changes are recorded.\n');
      }
      const unread = new UnreadableRecords(unreadable);
      unread.describe(terminal, (isOne) => `may be ${isOne ? 'a change' : 'changes'} of this list`);
      return unread.exitCode;
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};

/** @returns Unix milliseconds; null without a text */
function momentOf(name: string, text: string | null): number | null {
  const atMs = text === null ? null : pastFrom(text, Date.now());
  if (text !== null && atMs === null) throw new Failure('bad_usage', `--${name} is '${text}'; it ${PAST_RULE}.`);
  return atMs;
}

/** In a narrow terminal the actor, the action and its outcome stay longest, and then what changed. */
const COLUMNS: readonly Column[] = [
  { head: 'time', rank: 3 },
  { head: 'by', rank: 2 },
  { head: 'action', rank: 0, isWhole: true },
  { head: 'outcome', rank: 1, isStatus: true },
  { head: 'id', rank: 6, isWhole: true },
  { head: 'change', rank: 4 },
  { head: 'name', rank: 5 },
];

/**
 * The names of keys and customers in changes that record none, such as top-ups and lifts of bans, by id: as they are now, and none of
 * what is deleted or cannot be read.
 */
async function presentNames(
  changes: readonly ChangeReport[],
  { keys, customers }: OpenStore,
): Promise<ReadonlyMap<string, string>> {
  const targets = changes.flatMap((change) =>
    change.target === null || nameOfKey(change) !== '-' ? [] : [change.target],
  );
  const names = new Map<string, string>();
  for (const id of new Set(targets)) {
    if (!isKeyId(id) && !isCustomerId(id)) continue;
    const record = await orUnreadable<StoredRecord | null>((isKeyId(id) ? keys : customers).get(id));
    if (record !== null && !(record instanceof UnreadableRecord) && record.name !== null) names.set(id, record.name);
  }
  return names;
}

function rowOf(
  change: ChangeReport,
  names: ReadonlyMap<string, string>,
  nowMs: number,
  terminal: Terminal,
): readonly string[] {
  const { time, actor, action, outcome, code, target, count } = change;
  // What is wrong with a file says more than the code, which is the same for all of them.
  const why = code === null || actor.kind === 'file' ? '' : ` (${code})`;
  const result = `${outcome}${why}${count === 1 ? '' : ` ×${count}`}`;
  return [
    momentText(Date.parse(time), nowMs, terminal),
    actorText(actor),
    action,
    result,
    target ?? '-',
    differenceOf(change) || '-',
    names.get(target ?? '') ?? nameOfKey(change),
  ];
}
