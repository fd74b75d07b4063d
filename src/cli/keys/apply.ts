import { randomBytes } from 'node:crypto';
import { printFault } from '../../config/fault.ts';
import { MAX_KEYS_FILE_BYTES, parseKeysFile } from '../../config/keys-file.ts';
import { readSettingsFile } from '../../config/read-file.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import { escapedText } from '../../io/terminal-text.ts';
import { attributesIn, valueText } from '../../model/attributes.ts';
import { KINDS, kindOf, type StoredRecord } from '../../model/record.ts';
import { WINDOWS } from '../../model/values.ts';
import { entryText, timeOf } from '../../operations/key-report.ts';
import { changeOfRecord } from '../../operations/recorded.ts';
import {
  type ApplyDeps,
  type ApplyOutcome,
  applyChanges,
  finishPrepared,
  type MadeChange,
} from '../../operations/transfer/apply-changes.ts';
import { type ApplyPlan, type PlannedChange, planApply } from '../../operations/transfer/apply-plan.ts';
import { numberOf } from '../../operations/transfer/keys-and-customers.ts';
import { SecretFolder } from '../../operations/transfer/secret-folder.ts';
import { unreadableReport, unreadableText } from '../../operations/unreadable.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { plansToUse } from '../operations-interface.ts';
import { recordedByCommand } from '../recorded-change.ts';
import { type Command, isYes, type Terminal, type Words } from '../terminal/command.ts';
import { Progress } from '../terminal/output.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { json } from './text-form.ts';

/** `tollgate keys apply`: makes the keys of the store what a file says (contract section 5). */
export const keysApply: Command = {
  name: 'keys apply',
  about:
    'Makes and changes API keys and customers so that they are as FILE says, and nothing else. Applied again, it changes nothing; after an ' +
    'interruption, apply it again. A file with a fault is not applied at all.',
  positionals: ['FILE'],
  environment: OF_STORE,
  examples: [
    'tollgate keys apply keys.yaml --dry-run',
    'tollgate keys apply keys.yaml --secrets ./secrets',
    'tollgate keys apply keys.yaml --secrets ./secrets --prune --yes',
  ],
  options: {
    'dry-run': { type: 'boolean', about: 'Prints what would change, and writes nothing.' },
    'exit-code': { type: 'boolean', about: 'With --dry-run: exits with 1 if something would change.' },
    secrets: {
      type: 'string',
      value: 'FOLDER',
      about:
        'The folder for the secrets of new keys: a file SET.ENTRY for each, which only its owner may read. Nothing in it is ' +
        'overwritten. Required where the file makes keys.',
    },
    prune: {
      type: 'boolean',
      about: "Revokes the keys that earlier applies of the file's set have made or adopted, and that FILE lacks.",
    },
    'allow-empty': { type: 'boolean', about: 'Lets --prune revoke every key of the set when FILE has no keys.' },
    yes: {
      type: 'boolean',
      short: 'y',
      about: 'Revokes without asking; required for --prune without a terminal to ask on.',
    },
    data: {
      type: 'string',
      value: 'FOLDER',
      about: 'The folder of the embedded store, in place of TOLLGATE_DATA; created if it is missing.',
    },
    json: {
      type: 'boolean',
      about:
        'Prints {"set","dryRun","created","changed","revoked","unchanged","refused","unknown","notInFile","unreadable","customers","keys"}; the numbers count keys and customers; notInFile names the keys of the set that FILE lacks and that stay without --prune; customers and keys are those that differ, each with entry, id, action, outcome, changes and why.',
    },
  },
  async run(words, terminal) {
    const { options, positionals } = words;
    const [file] = positionals as [string];
    const isDry = options['dry-run'] === true;
    if (options['exit-code'] === true && !isDry) throw new Failure('bad_usage', '--exit-code needs --dry-run.');
    const secrets = await secretsIn(words);
    const plan = await withStore(terminal.env, (store) => planned(file, store, words, terminal), {
      missingStore: 'empty',
      insistsOnFolder: true,
      warn: terminal.error,
    });
    await prepareFolder(secrets, plan, isDry);
    warnOfUnreadable(plan, terminal);
    if (isDry) {
      report(plan, [], file, words, terminal);
      if (isIncomplete(plan, words)) return 1;
      return options['exit-code'] === true && plan.changes.length > 0 ? 1 : 0;
    }
    if (!(await isConfirmed(plan, words, terminal))) {
      terminal.error('Nothing was changed.\n');
      return 1;
    }
    const created = plan.changes.filter(({ kind }) => kind === 'create');
    // The store is opened for writing only now: an unchanged file writes nothing.
    return withStore(terminal.env, (store) => apply({ file, plan, secrets }, store, words, terminal), {
      makesSecrets: created.some(({ id }) => kindOf(id) === 'key'),
      missingStore: created.length > 0 ? 'make' : 'empty',
      warn: () => {},
    });
  },
};

/**
 * Reads the file and compares it with the store.
 * @throws Failure `bad_settings` with each fault of the file on a line of its own
 */
async function planned(file: string, store: OpenStore, { options }: Words, terminal: Terminal): Promise<ApplyPlan> {
  const { keys, customers } = store;
  const read = readSettingsFile(file, 'Name a file that says which keys are to exist.', false, MAX_KEYS_FILE_BYTES);
  if ('fault' in read) throw new Failure('bad_settings', printFault(read.fault));
  const plans = await plansToUse(store, terminal.error);
  const parsed = parseKeysFile(read.text, file, [...plans.keys()]);
  if ('faults' in parsed) throw new Failure('bad_settings', parsed.faults.map(printFault).join('\n'));
  const prune = options.prune === true;
  const keysFile = parsed.value;
  if (prune && Object.keys(keysFile.keys).length === 0 && options['allow-empty'] !== true) {
    throw new Failure(
      'bad_usage',
      `${file} has no keys, and --prune would revoke every key of the set ${keysFile.set}. If that is meant, add --allow-empty.`,
    );
  }
  const plan = await planApply(keysFile, { keys, customers, plans, prune, nowMs: Date.now() });
  const faults = plan.faults.map(({ path, message }) => printFault({ ...parsed.locate(path), message }));
  if (faults.length > 0) throw new Failure('bad_settings', faults.join('\n'));
  return plan;
}

async function secretsIn({ options }: Words): Promise<SecretFolder | null> {
  const folder = options.secrets as string | undefined;
  if (folder === '') throw new Failure('bad_usage', '--secrets is empty; it must be a folder.');
  return folder === undefined ? null : SecretFolder.read(folder);
}

/**
 * Sees to it that the secrets of new keys can be written.
 * @throws Failure `bad_usage` if keys are to be made and no folder is named; `refused` if it has files in their place
 */
async function prepareFolder(
  secrets: SecretFolder | null,
  { file: { set }, changes }: ApplyPlan,
  isDry: boolean,
): Promise<void> {
  const created = changes.filter(({ kind, id }) => kind === 'create' && kindOf(id) === 'key');
  if (created.length === 0) return;
  if (secrets === null) {
    if (isDry) return;
    const what = `${created.length} ${created.length === 1 ? 'key is' : 'keys are'} to be made`;
    throw new Failure('bad_usage', `${what}: give --secrets FOLDER, where their secrets are to be written.`);
  }
  const taken = created.filter(({ name }) => secrets.has({ set, name }));
  if (taken.length > 0) {
    const first = secrets.fileOf({ set, name: taken[0]!.name });
    const more = taken.length === 1 ? '' : ` (and ${taken.length - 1} more)`;
    throw new Failure(
      'refused',
      `${first}${more} exists already, and the store has no such key: it may be the secret of a key in another store. Name another folder, or move it away.`,
    );
  }
  if (!isDry) await secrets.make();
}

/** Asks before keys are revoked. @throws Failure `bad_usage` if there is no terminal to ask on */
async function isConfirmed({ changes }: ApplyPlan, { options }: Words, terminal: Terminal): Promise<boolean> {
  const revoked = changes.filter(({ kind }) => kind === 'revoke');
  if (revoked.length === 0 || options.yes === true) return true;
  const question = terminal.question ?? null;
  if (question === null) {
    throw new Failure(
      'bad_usage',
      `${numberOf(revoked.length, 'key')} would be revoked for good. See which with --dry-run, then give --yes.`,
    );
  }
  for (const change of revoked) terminal.error(`${lineOf(change)}\n`);
  const answer = await question(`Revoke ${numberOf(revoked.length, 'key')} for good? [y/N] `);
  return isYes(answer);
}

/** @throws the error that ended the changes early, after the report of those that were made */
async function apply(
  { file, plan, secrets }: { readonly file: string; readonly plan: ApplyPlan; readonly secrets: SecretFolder | null },
  store: OpenStore,
  words: Words,
  terminal: Terminal,
): Promise<ExitCode> {
  const deps: ApplyDeps = {
    keys: store.keys,
    customers: store.customers,
    plans: store.plans.plans,
    peppers: store.peppers,
    random: randomBytes,
    nowMs: () => Date.now(),
    secrets,
    recorded: (change, work) =>
      recordedByCommand(store, terminal.error, {
        action: `${kindOf(change.id)}.${change.kind}`,
        target: change.id,
        work,
        changeOf: (made: MadeChange) => changeOfRecord(made, made.isSame),
      }),
  };
  if (secrets !== null) {
    for (const warning of await finishPrepared(plan, { ...deps, secrets })) terminal.error(`warning: ${warning}\n`);
  }
  const outcomes: ApplyOutcome[] = [];
  const progress = new Progress(terminal, () => performance.now());
  try {
    for await (const outcome of applyChanges(plan, deps)) {
      outcomes.push(outcome);
      progress.show('applying', outcomes.length, plan.changes.length, String);
    }
  } finally {
    progress.end();
    report(plan, outcomes, file, words, terminal);
  }
  return isIncomplete(plan, words) || outcomes.some(({ kind }) => kind === 'refused' || kind === 'unknown') ? 1 : 0;
}

function warnOfUnreadable({ unreadable }: ApplyPlan, terminal: Terminal): void {
  const records = unreadableText(unreadable);
  if (records === '') return;
  const what = 'Whether they are keys of this set that the file lacks is not known; they stay as they are.';
  terminal.error(`warning: ${records}. ${what}\n`);
}

/** Whether entries are left as they are, or keys that cannot be read may be some that --prune should revoke. */
function isIncomplete(plan: ApplyPlan, { options }: Words): boolean {
  return plan.ended.length > 0 || (options.prune === true && plan.unreadable.length > 0);
}

const COUNTED = { create: 'created', update: 'changed', revoke: 'revoked' } as const;

/** Prints what was done; with --dry-run, what would be. */
function report(
  plan: ApplyPlan,
  outcomes: readonly ApplyOutcome[],
  file: string,
  { options }: Words,
  terminal: Terminal,
): void {
  const isDry = options['dry-run'] === true;
  const { changes, ended } = plan;
  const { set } = plan.file;
  const listed: readonly Listed[] = isDry
    ? changes.map((change) => ({ change, kind: 'planned' as const, why: null }))
    : outcomes;
  const same = plan.unchanged.customer + plan.unchanged.key;
  const counts = { created: 0, changed: 0, revoked: 0, unchanged: same, refused: ended.length, unknown: 0 };
  for (const { kind, change } of listed) {
    if (kind === 'done' || kind === 'planned') counts[COUNTED[change.kind]]++;
    else if (kind === 'same') counts.unchanged++;
    else counts[kind]++;
  }
  if (options.json === true) {
    const entries = [
      ...listed.map(({ change, kind, why }) => {
        const { name, id } = change;
        return { entry: name, id, action: change.kind, outcome: kind, changes: changesOf(change), why };
      }),
      ...ended.map(({ name, id, why }) => ({
        ...{ entry: name, id, action: null, outcome: 'refused', changes: {}, why },
      })),
    ];
    const [customers, keys] = KINDS.map((kind) => entries.filter(({ id }) => kindOf(id) === kind));
    const left = { notInFile: plan.unpruned, unreadable: unreadableReport(plan.unreadable) };
    terminal.out(json({ set, dryRun: isDry, ...counts, ...left, customers, keys }));
    return;
  }
  for (const { change, kind, why } of listed) {
    if (kind !== 'same' && kind !== 'refused') terminal.out(`${lineOf(change)}\n`);
    if (why !== null) terminal.error(`${change.name}: ${kind === 'refused' ? `refused: ${why}` : why}\n`);
  }
  for (const { name, why } of ended) terminal.error(`${name}: ${why}\n`);
  if (changes.length + ended.length === 0) {
    const { key, customer } = plan.unchanged;
    const some = `${numberOf(key, 'key')}${customer === 0 ? '' : ` and ${numberOf(customer, 'customer')}`}`;
    terminal.out(`Nothing to do: ${some} of the set ${set} as ${file} says.\n${unprunedText(plan)}`);
    return;
  }
  terminal.out(`${countsText(counts, isDry)}.\n${unprunedText(plan)}`);
  // Customers that are made have no secrets, and then none is asked for.
  if (counts.created > 0 && !isDry && options.secrets !== undefined)
    terminal.out(`The secrets of the new keys are in ${options.secrets as string}.\n`);
}

/** `1 created, 0 changed, 0 revoked, 2 unchanged`. */
function countsText(counts: Readonly<Record<string, number>>, isDry: boolean): string {
  const { created, changed, revoked, unchanged, refused = 0, unknown = 0 } = counts;
  const would = isDry ? 'to be ' : '';
  return [
    `${created} ${would}created`,
    `${changed} ${would}changed`,
    `${revoked} ${would}revoked`,
    `${unchanged} unchanged`,
    ...(unknown > 0 ? [`${unknown} perhaps not durable`] : []),
    ...(refused > 0 ? [`${refused} refused`] : []),
  ].join(', ');
}

type Listed = {
  readonly change: PlannedChange;
  readonly kind: ApplyOutcome['kind'] | 'planned';
  readonly why: string | null;
};

/** At most this many names of keys that the file lacks are printed; --json has all of them. */
const MAX_NAMED = 10;

/** The sentence about keys that the file lacks and that stay without --prune; empty if there are none. */
function unprunedText({ unpruned }: ApplyPlan): string {
  if (unpruned.length === 0) return '';
  const more = unpruned.length - MAX_NAMED;
  const names = `${unpruned.slice(0, MAX_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  const [are, them] = unpruned.length === 1 ? ['is', 'it'] : ['are', 'them'];
  return `${numberOf(unpruned.length, 'key')} of this set ${are} not in the file (${names}); --prune revokes ${them}.\n`;
}

/** One line for a change: `~ acme key_…: plan: free → pro`. */
function lineOf(change: PlannedChange): string {
  const sign = { create: '+', update: '~', revoke: '-' }[change.kind];
  const texts = Object.entries(changesOf(change)).map(([member, { from, to }]) =>
    change.kind === 'create' ? `${member}: ${textOf(to)}` : `${member}: ${textOf(from)} → ${textOf(to)}`,
  );
  const what = change.kind === 'revoke' ? 'revoked' : texts.join(', ');
  return `${sign} ${change.name} ${change.id}: ${what}`;
}

type Difference = Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;

/** What a change makes different, in the words of the file. */
function changesOf(change: PlannedChange): Difference {
  const before = change.kind === 'create' ? {} : membersOf(change.before);
  const after = change.kind === 'revoke' ? { ...before, revoked: true } : membersOf(change.after);
  const members = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const different = members.filter((member) => JSON.stringify(before[member]) !== JSON.stringify(after[member]));
  return Object.fromEntries(
    different.map((member) => [member, { from: before[member] ?? null, to: after[member] ?? null }]),
  );
}

function membersOf(record: StoredRecord): Record<string, unknown> {
  const { plan, limits, expiresAtMs, applied } = record;
  const given = WINDOWS.filter((window) => limits[window] !== undefined);
  const members: Record<string, unknown> = {
    plan,
    ...('customer' in record ? { customer: record.customer } : {}),
    ...attributesIn(record),
    limits: given.length === 0 ? null : Object.fromEntries(given.map((window) => [window, limits[window]])),
    expires: timeOf(expiresAtMs),
    entry: applied === undefined ? null : entryText(applied),
  };
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null && value !== undefined));
}

function textOf(value: unknown): string {
  if (value === null) return '-';
  if (typeof value !== 'object') return escapedText(JSON.stringify(value)).replace(/^"([\w.:+@-]+)"$/, '$1');
  if (Array.isArray(value)) return escapedText(valueText(value));
  return Object.entries(value as object)
    .map(([window, limit]) => `${window}=${limit}`)
    .join(' ');
}
