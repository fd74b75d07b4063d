import { randomBytes } from 'node:crypto';
import { inOrder, type Path, printFault } from '../../config/fault.ts';
import { type KeysFile, MAX_KEYS_FILE_BYTES, parseKeysFile } from '../../config/keys-file.ts';
import { readSettingsFile } from '../../config/read-file.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import { mint } from '../../identify/api-key.ts';
import { escapedText } from '../../io/terminal-text.ts';
import { type RecordKind, valueText } from '../../model/attributes.ts';
import { type AppliedEntry, KINDS, kindOf } from '../../model/record.ts';
import { listKeys } from '../../operations/catalogue/key-operations.ts';
import type { InputOf, OutputOf } from '../../operations/catalogue/operation.ts';
import { applyKeys } from '../../operations/catalogue/transfer-operations.ts';
import { goneElsewhereText } from '../../operations/plans/versions.ts';
import { entriesIn } from '../../operations/transfer/entries.ts';
import { inSlices, MAX_SLICE, numberOf } from '../../operations/transfer/keys-and-customers.ts';
import { SecretFolder } from '../../operations/transfer/secret-folder.ts';
import { unreadableText } from '../../operations/unreadable.ts';
import { type OperationsAt, withOperations } from '../operations-at.ts';
import { pagesOf } from '../operations-interface.ts';
import { type Command, isYes, type Terminal, type Words } from '../terminal/command.ts';
import { Progress } from '../terminal/output.ts';
import { OF_OPERATIONS } from '../terminal/variables.ts';
import { json } from './text-form.ts';
import { warnOfMore } from './transferred.ts';

/** `tollgate keys apply`: makes the keys of the store what a file says (contract section 5). */
export const keysApply: Command = {
  name: 'keys apply',
  about:
    'Makes and changes API keys and customers so that they are as FILE says, and nothing else. Applied again, it changes nothing; after an ' +
    'interruption, apply it again. A file with a fault is not applied at all.',
  positionals: ['FILE'],
  environment: OF_OPERATIONS,
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
  async run(words, given) {
    const { options, positionals } = words;
    const [file] = positionals as [string];
    const isDry = options['dry-run'] === true;
    if (options['exit-code'] === true && !isDry) throw new Failure('bad_usage', '--exit-code needs --dry-run.');
    const terminal = sayingOnce(given);
    const secrets = await secretsIn(words);
    const plan = await withOperations(terminal, (at) => planned(file, at, words, terminal), {
      missingStore: 'empty',
      insistsOnFolder: true,
    });
    await prepareFolder(secrets, plan, isDry);
    warnOfUnreadable(plan, terminal);
    if (isDry) {
      report(plan, plan.changes, file, words, terminal);
      if (isIncomplete(plan, words)) return 1;
      return options['exit-code'] === true && plan.changes.length > 0 ? 1 : 0;
    }
    if (!(await isConfirmed(plan, words, terminal))) {
      terminal.error('Nothing was changed.\n');
      return 1;
    }
    const created = plan.changes.filter(({ action }) => action === 'create');
    // A store is opened for writing only now: an unchanged file writes nothing.
    return withOperations(terminal, (at) => apply({ file, plan, secrets }, at, words, terminal), {
      makesSecrets: created.some(({ id }) => kindOf(id) === 'key'),
      missingStore: created.length > 0 ? 'make' : 'empty',
    });
  },
};

/** Says of a store that is opened twice only once what there is to say. */
function sayingOnce(terminal: Terminal): Terminal {
  const said = new Set<string>();
  const error = (text: string) => {
    if (!said.has(text)) terminal.error(text);
    said.add(text);
  };
  return { ...terminal, error };
}

type Outcome = OutputOf<typeof applyKeys>['outcomes'][number];

/** What the file asks for, compared with the store. */
interface Plan {
  readonly file: KeysFile;
  /** Those of customers first. */
  readonly changes: readonly Outcome[];
  /** Entries whose record has ended, belongs elsewhere, or cannot be read. They do not keep the others from being applied. */
  readonly ended: readonly Outcome[];
  /** How many entries of each kind the store has as they stand in the file. */
  readonly unchanged: Readonly<Record<RecordKind, number>>;
  /** The names of the set's keys that the file lacks and that stay because there is no --prune, the oldest first. */
  readonly unpruned: readonly string[];
  /** Further keys that cannot be read. They may be of the set and lack an entry, so a prune is not complete; it revokes none of them. */
  readonly unreadable: OutputOf<typeof listKeys>['unreadable'];
}

/** The plans are the same for every set. */
const ANY_SET = 'any';

/**
 * Reads the file and compares it with the store.
 * @throws Failure `bad_settings` with each fault of the file on a line of its own
 */
async function planned(file: string, at: OperationsAt, { options }: Words, terminal: Terminal): Promise<Plan> {
  const read = readSettingsFile(file, 'Name a file that says which keys are to exist.', false, MAX_KEYS_FILE_BYTES);
  if ('fault' in read) throw new Failure('bad_settings', printFault(read.fault));
  const { plans, gone } = (await at.perform(applyKeys, { set: ANY_SET, dryRun: true })).output;
  for (const plan of gone) terminal.error(`warning: ${goneElsewhereText(plan)}. No key is given it.\n`);
  const parsed = parseKeysFile(read.text, file, plans);
  if ('faults' in parsed) throw new Failure('bad_settings', parsed.faults.map(printFault).join('\n'));
  const prune = options.prune === true;
  const keysFile = parsed.value;
  if (prune && Object.keys(keysFile.keys).length === 0 && options['allow-empty'] !== true) {
    throw new Failure(
      'bad_usage',
      `${file} has no keys, and --prune would revoke every key of the set ${keysFile.set}. If that is meant, add --allow-empty.`,
    );
  }
  const { faults, nameOf } = entriesOnce(keysFile);
  const parts = KINDS.flatMap((kind) => entriesIn(keysFile, kind).map(({ as }) => partOf(keysFile, kind, as.name)));
  const outcomes = await Array.fromAsync(outcomesOf(at, keysFile.set, parts, { dryRun: true }));
  for (const { id, entry, at, why } of outcomes) {
    if (at !== null) faults.push({ path: [`${kindOf(id)}s`, entry, ...at], message: why! });
  }
  const placed = inOrder(faults.map(({ path, message }) => ({ ...parsed.locate(path), message })));
  if (placed.length > 0) throw new Failure('bad_settings', placed.map(printFault).join('\n'));
  const { absent, unreadable } = await absentKeys(at, keysFile.set, nameOf);
  const changes = outcomes.filter(({ kind }) => kind === 'planned');
  const same = outcomes.filter(({ kind }) => kind === 'same');
  const [customer, key] = KINDS.map((kind) => same.filter(({ id }) => kindOf(id) === kind).length) as [number, number];
  return {
    file: keysFile,
    changes: prune ? [...changes, ...absent.map(revocation)] : changes,
    ended: outcomes.filter(({ kind }) => kind === 'refused'),
    unchanged: { customer, key },
    unpruned: prune ? [] : absent.map(({ name }) => name),
    unreadable,
  };
}

/** The names of the entries by the ids of their records, and a fault for each entry that is the same record as one before. */
function entriesOnce(file: KeysFile) {
  const nameOf = new Map<string, string>();
  const faults: { readonly path: Path; readonly message: string }[] = [];
  for (const kind of KINDS) {
    for (const { id, as } of entriesIn(file, kind)) {
      const message = `is the same ${kind} as \`${nameOf.get(id)}\`; leave out one of the two.`;
      if (nameOf.has(id)) faults.push({ path: [`${kind}s`, as.name], message });
      else nameOf.set(id, as.name);
    }
  }
  return { faults, nameOf };
}

/** The keys of the set that have no entry in the file, oldest first; and those that cannot be read. */
async function absentKeys(at: OperationsAt, set: string, nameOf: ReadonlyMap<string, string>) {
  const absent: { readonly id: string; readonly name: string }[] = [];
  const unreadable: Plan['unreadable'][number][] = [];
  for await (const page of pagesOf(at, listKeys, { set }, { entries: 'keys' })) {
    for (const { id, entry = '' } of page.keys) {
      if (!nameOf.has(id)) absent.push({ id, name: entry.slice(set.length + 1) });
    }
    unreadable.push(...page.unreadable.filter(({ id }) => !nameOf.has(id)));
  }
  return { absent, unreadable };
}

function revocation({ id, name }: { readonly id: string; readonly name: string }): Outcome {
  const changes = { revoked: { from: null, to: true } };
  return { entry: name, id, kind: 'planned', action: 'revoke', changes, why: null, at: null, hasSecret: null };
}

/** A part of what is applied, which can be applied by itself. */
type Part = { readonly [M in 'customers' | 'keys' | 'prune']: NonNullable<InputOf<typeof applyKeys>[M]> };

/** The part of one entry: a key with its customer. */
function partOf({ customers = {}, keys }: KeysFile, kind: RecordKind, name: string): Part {
  if (kind === 'customer') return { customers: { [name]: customers[name]! }, keys: {}, prune: [] };
  const entry = keys[name]!;
  const { customer } = entry;
  const own = customer === undefined ? {} : { [customer]: customers[customer]! };
  return { customers: own, keys: { [name]: entry }, prune: [] };
}

interface Slicing {
  readonly dryRun?: boolean;
  /** The most parts of a slice. */
  readonly most?: number;
  /** Returns the secrets of a slice, which are on the disk. */
  readonly secretsFor?: (slice: Part) => Promise<Readonly<Record<string, string>>>;
}

/**
 * Has parts applied, a slice at a time.
 * @returns the outcome of each record once, although its customer comes with each key
 */
async function* outcomesOf(
  at: OperationsAt,
  set: string,
  parts: readonly Part[],
  { dryRun = false, most = MAX_SLICE, secretsFor = async () => ({}) }: Slicing,
): AsyncGenerator<Outcome> {
  const seen = new Set<string>();
  for await (const some of inSlices(parts, most)) {
    const slice: Part = {
      customers: Object.assign({}, ...some.map(({ customers }) => customers)),
      keys: Object.assign({}, ...some.map(({ keys }) => keys)),
      prune: some.flatMap(({ prune }) => prune),
    };
    const { outcomes } = (await at.perform(applyKeys, { set, ...slice, secrets: await secretsFor(slice), dryRun }))
      .output;
    for (const outcome of outcomes) if (!seen.has(outcome.id)) yield outcome;
    for (const { id } of outcomes) seen.add(id);
  }
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
async function prepareFolder(secrets: SecretFolder | null, { file, changes }: Plan, isDry: boolean): Promise<void> {
  const created = changes.filter((change) => needsSecret(change, file));
  if (created.length === 0) return;
  if (secrets === null) {
    if (isDry) return;
    const what = `${created.length} ${created.length === 1 ? 'key is' : 'keys are'} to be made`;
    throw new Failure('bad_usage', `${what}: give --secrets FOLDER, where their secrets are to be written.`);
  }
  const { set } = file;
  const taken = created.filter(({ entry: name }) => secrets.has({ set, name }));
  if (taken.length > 0) {
    const first = secrets.fileOf({ set, name: taken[0]!.entry });
    const more = taken.length === 1 ? '' : ` (and ${taken.length - 1} more)`;
    throw new Failure(
      'refused',
      `${first}${more} exists already, and the store has no such key: it may be the secret of a key in another store. Name another folder, or move it away.`,
    );
  }
  if (!isDry) await secrets.make();
}

/** Asks before keys are revoked. @throws Failure `bad_usage` if there is no terminal to ask on */
async function isConfirmed({ changes }: Plan, { options }: Words, terminal: Terminal): Promise<boolean> {
  const revoked = changes.filter(({ action }) => action === 'revoke');
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

/** Parts that are applied together: an interruption leaves no more without a report. */
const AT_ONCE = 100;

/** @throws the error that ended the changes early, after the report of those that were made */
async function apply(
  { file, plan, secrets }: { readonly file: string; readonly plan: Plan; readonly secrets: SecretFolder | null },
  at: OperationsAt,
  words: Words,
  terminal: Terminal,
): Promise<ExitCode> {
  const { changes } = plan;
  const changeOf = new Map(changes.map((change) => [change.id, change]));
  const prepared = new Map<string, string>();
  const outcomes: Outcome[] = [];
  const progress = new Progress(terminal, () => performance.now());
  let failure: unknown = null;
  try {
    const secretsFor = (slice: Part) => preparedSecrets(plan, secrets, slice, prepared);
    const parts = partsToApply(plan, secrets);
    for await (const made of outcomesOf(at, plan.file.set, parts, { most: AT_ONCE, secretsFor })) {
      const change = changeOf.get(made.id);
      const as = { set: plan.file.set, name: made.entry };
      const secret = kindOf(made.id) === 'key' ? prepared.get(made.entry) : undefined;
      const isNew = change !== undefined && isNewKey(change);
      const said = secret === undefined ? null : await settled(secrets!, { as, secret, isNew }, made);
      if (change === undefined) {
        if (said !== null) terminal.error(`warning: ${said}\n`);
        continue;
      }
      // Another command may have done it since.
      outcomes.push({ ...(made.action === null ? { ...change, kind: made.kind } : made), why: made.why ?? said });
      progress.show('applying', outcomes.length, changes.length, String);
    }
  } catch (error) {
    failure = error;
  }
  progress.end();
  report(plan, outcomes, file, words, terminal);
  if (failure !== null) {
    warnOfMore(failure, terminal);
    throw failure;
  }
  return isIncomplete(plan, words) || outcomes.some(({ kind }) => kind === 'refused' || kind === 'unknown') ? 1 : 0;
}

function isNewKey({ action, id }: Outcome): boolean {
  return action === 'create' && kindOf(id) === 'key';
}

/** Whether a secret has to be made for a change. The holder of a key whose entry has a digest has its secret already. */
function needsSecret(change: Outcome, { keys }: KeysFile): boolean {
  return isNewKey(change) && keys[change.entry]!.sha256 === undefined;
}

/** The changes, and the entries for which an interrupted command has prepared a secret. */
function partsToApply({ file, changes }: Plan, secrets: SecretFolder | null): readonly Part[] {
  const ids = new Set(changes.map(({ id }) => id));
  const begun = entriesIn(file, 'key').filter(({ as, id }) => !ids.has(id) && secrets?.hasPending(as));
  return [
    ...begun.map(({ as }) => partOf(file, 'key', as.name)),
    ...changes.map(({ action, entry: name, id }) => {
      return action === 'revoke' ? { customers: {}, keys: {}, prune: [{ id, name }] } : partOf(file, kindOf(id), name);
    }),
  ];
}

/**
 * The secrets of a slice: those of the keys that it makes, and those that an interrupted command has prepared. All of them are on the disk
 * before the store has their keys.
 * @param prepared gets them, by the names of the entries
 */
async function preparedSecrets(
  { file, changes }: Plan,
  secrets: SecretFolder | null,
  { keys }: Part,
  prepared: Map<string, string>,
): Promise<Readonly<Record<string, string>>> {
  if (secrets === null) return {};
  const created = new Set(changes.filter((change) => needsSecret(change, file)).map(({ entry }) => entry));
  const own = await Promise.all(
    Object.keys(keys).map(async (name): Promise<[string, string][]> => {
      const as = { set: file.set, name };
      if (created.has(name)) return [[name, await secrets.prepare(as, mint(randomBytes))]];
      const secret = secrets.hasPending(as) ? await secrets.pending(as) : null;
      return secret === null ? [] : [[name, secret]];
    }),
  );
  const all = own.flat();
  if (all.length > 0) await secrets.sync();
  for (const [name, secret] of all) prepared.set(name, secret);
  return Object.fromEntries(all);
}

interface Prepared {
  readonly as: AppliedEntry;
  readonly secret: string;
  /** Whether the key was to be made. */
  readonly isNew: boolean;
}

/**
 * Gives a prepared secret the name of its file once its key exists, or removes it if the key has another one.
 * @returns a sentence for the operator; null if there is nothing to say
 */
async function settled(
  secrets: SecretFolder,
  { as, secret, isNew }: Prepared,
  { id, kind, hasSecret }: Outcome,
): Promise<string | null> {
  // If a failover undoes the key, the next apply makes it again with this secret.
  if (hasSecret === null || (isNew && kind === 'unknown')) return null;
  if (isNew && kind === 'refused') {
    await secrets.drop(as);
    return null;
  }
  if (hasSecret) return keptSecret(secrets, as, secret);
  if (!isNew) return `${secrets.fileOf(as)}.pending is not a secret of ${id}; it belongs to no key here.`;
  await secrets.drop(as);
  return 'was made by another apply at the same moment, which has its secret.';
}

/** @returns a sentence if the file of a secret could not get its name: the key is made all the same, and its secret is not lost */
async function keptSecret(secrets: SecretFolder, as: AppliedEntry, secret: string): Promise<string | null> {
  try {
    await secrets.keep(as, secret);
    return null;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return `was made, and its secret stays in ${secrets.fileOf(as)}.pending: ${error.message}`;
  }
}

function warnOfUnreadable({ unreadable }: Plan, terminal: Terminal): void {
  const records = unreadableText(unreadable);
  if (records === '') return;
  const what = 'Whether they are keys of this set that the file lacks is not known; they stay as they are.';
  terminal.error(`warning: ${records}. ${what}\n`);
}

/** Whether entries are left as they are, or keys that cannot be read may be some that --prune should revoke. */
function isIncomplete(plan: Plan, { options }: Words): boolean {
  return plan.ended.length > 0 || (options.prune === true && plan.unreadable.length > 0);
}

const COUNTED = { create: 'created', update: 'changed', revoke: 'revoked' } as const;

/** Prints what was done; with --dry-run, what would be. */
function report(plan: Plan, listed: readonly Outcome[], file: string, { options }: Words, terminal: Terminal): void {
  const isDry = options['dry-run'] === true;
  const { changes, ended } = plan;
  const { set } = plan.file;
  const same = plan.unchanged.customer + plan.unchanged.key;
  const counts = { created: 0, changed: 0, revoked: 0, unchanged: same, refused: ended.length, unknown: 0 };
  for (const { kind, action } of listed) {
    if (kind === 'done' || kind === 'planned') counts[COUNTED[action!]]++;
    else counts[kind === 'same' ? 'unchanged' : kind]++;
  }
  if (options.json === true) {
    const [customers, keys] = KINDS.map((of) => [...listed, ...ended].filter(({ id }) => kindOf(id) === of).map(shown));
    const left = { notInFile: plan.unpruned, unreadable: plan.unreadable };
    terminal.out(json({ set, dryRun: isDry, ...counts, ...left, customers, keys }));
    return;
  }
  for (const outcome of listed) {
    const { kind, why, entry } = outcome;
    if (kind !== 'same' && kind !== 'refused') terminal.out(`${lineOf(outcome)}\n`);
    if (why !== null) terminal.error(`${entry}: ${kind === 'refused' ? `refused: ${why}` : why}\n`);
  }
  for (const { entry, why } of ended) terminal.error(`${entry}: ${why}\n`);
  if (changes.length + ended.length === 0) {
    const { key, customer } = plan.unchanged;
    const some = `${numberOf(key, 'key')}${customer === 0 ? '' : ` and ${numberOf(customer, 'customer')}`}`;
    terminal.out(`Nothing to do: ${some} of the set ${set} as ${file} says.\n${unprunedText(plan)}`);
    return;
  }
  terminal.out(`${countsText(counts, isDry)}.\n${unprunedText(plan)}`);
  // Customers that are made have no secrets, and then none is asked for.
  if (!isDry && options.secrets !== undefined && listed.some((one) => needsSecret(one, plan.file)))
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

/** The outcome of a record in the JSON. */
function shown({ entry, id, action, kind, changes, why }: Outcome) {
  return { entry, id, action, outcome: kind, changes, why };
}

/** At most this many names of keys that the file lacks are printed; --json has all of them. */
const MAX_NAMED = 10;

/** The sentence about keys that the file lacks and that stay without --prune; empty if there are none. */
function unprunedText({ unpruned }: Plan): string {
  if (unpruned.length === 0) return '';
  const more = unpruned.length - MAX_NAMED;
  const names = `${unpruned.slice(0, MAX_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  const [are, them] = unpruned.length === 1 ? ['is', 'it'] : ['are', 'them'];
  return `${numberOf(unpruned.length, 'key')} of this set ${are} not in the file (${names}); --prune revokes ${them}.\n`;
}

/** One line for a change: `~ acme key_…: plan: free → pro`. */
function lineOf({ entry, id, action, changes }: Outcome): string {
  const sign = { create: '+', update: '~', revoke: '-' }[action!];
  const texts = Object.entries(changes).map(([member, { from, to }]) =>
    action === 'create' ? `${member}: ${textOf(to)}` : `${member}: ${textOf(from)} → ${textOf(to)}`,
  );
  return `${sign} ${entry} ${id}: ${action === 'revoke' ? 'revoked' : texts.join(', ')}`;
}

function textOf(value: unknown): string {
  if (value === null) return '-';
  if (typeof value !== 'object') return escapedText(JSON.stringify(value)).replace(/^"([\w.:+@-]+)"$/, '$1');
  if (Array.isArray(value)) return escapedText(valueText(value));
  return Object.entries(value as object)
    .map(([window, limit]) => `${window}=${limit}`)
    .join(' ');
}
