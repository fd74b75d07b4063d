import { type ExitCode, Failure, Refused } from '../failure.ts';
import { isTokenHolder } from '../identify/api-key.ts';
import { escapedText } from '../io/terminal-text.ts';
import { momentText } from '../io/time-text.ts';
import { isCustomerId } from '../model/record.ts';
import type { StoreOperation } from '../operations/catalogue/all.ts';
import { showCustomer } from '../operations/catalogue/customer-operations.ts';
import { membersOf, pathMembersOf } from '../operations/catalogue/input.ts';
import { showKey } from '../operations/catalogue/key-operations.ts';
import { effectOf, type InputOf } from '../operations/catalogue/operation.ts';
import type { AnyOperation } from '../operations/catalogue/perform.ts';
import { unreadableText } from '../operations/unreadable.ts';
import type { OpenOptions } from '../serve/open-store.ts';
import { inputOf, optionsOf, withMeantId, withMeantIds } from './operation-options.ts';
import { type OperationsAt, openingFor, type Performed, withOperations } from './operations-at.ts';
import { exitCodeOf } from './recorded-change.ts';
import { type Command, isYes, type Option, type Placeholder, type Terminal, type Words } from './terminal/command.ts';
import { OF_OPERATIONS } from './terminal/variables.ts';

// A command that changes something by one operation of operators. Its name, its options, its help, its question and its JSON are made of
// the operation.

/** What a command has beside its operation. */
export interface Look<O extends AnyOperation> {
  /** What it prints for people; each member of the output unless given. */
  readonly text?: (done: Performed<O>, print: Print) => string;
  readonly examples?: readonly string[];
  /** The operation in place of this one if it is done to a customer, where there is another one. */
  readonly ofCustomer?: AnyOperation & Pick<O, 'run'>;
  /** The command is for revoked keys too, so a name may mean one although another key has it. */
  readonly isForRevoked?: boolean;
  /** Options beside those of the operation. */
  readonly options?: Command['options'];
  /** How the store is opened, beside what the operation says. */
  readonly open?: OpenOptions;
}

/** What the commands of operations have beside them, by the names of the operations. */
export type Looks = { readonly [O in StoreOperation as O['name']]?: Look<O> };

/** What a text is made with. */
export interface Print {
  /** Writes Unix seconds. */
  readonly seconds: (at: number) => string;
  /** Writes Unix milliseconds or an RFC 3339 time. */
  readonly moment: (at: number | string) => string;
  readonly id: string;
  /** Where the operation was done, in words. */
  readonly at: string;
  readonly terminal: Terminal;
  readonly nowMs: number;
}

export function operationCommand<O extends AnyOperation>(operation: O, look: Look<O> = {}): Command {
  const [name] = operation.command!;
  const { ofCustomer = operation, isForRevoked = false } = look;
  const positionals = positionalsOf(operation, look);
  return {
    name,
    about: [operation.sentence, effectOf(operation)].filter((text) => text !== undefined).join(' '),
    positionals,
    environment: OF_OPERATIONS,
    examples: look.examples ?? [`tollgate ${[name, ...positionals].join(' ')}`],
    options: {
      ...optionsOf({ operation }),
      ...look.options,
      ...(operation.asksFirst === true ? { yes: yesOf(operation) } : {}),
      ...(isNamed(operation) ? { id: ONCE } : {}),
      json: jsonOf(operation),
    },
    run(words, terminal) {
      insistOnYes(operation, words, terminal);
      const members = inputOf({ name, operation }, words);
      const once = isNamed(operation) ? onceOf(words) : null;
      const meaning = { isRead: false, isForRevoked, note: terminal.error };
      const work = async (at: OperationsAt): Promise<ExitCode> => {
        const { positionals: path } = await withMeantId(at, positionals[0] as Placeholder, words, meaning);
        const [id = null] = path;
        if (once !== null && id !== (words.positionals[0] ?? null)) throw new Failure('bad_usage', NAME_WITH_ONCE);
        const input = {
          ...(await withMeantIds(at, { operation }, members, meaning)),
          ...Object.fromEntries(pathMembersOf(operation).map((member, i) => [member, path[i]])),
        };
        const answers = await answersTo(operation, { at, id, isForRevoked, words, terminal });
        if (answers === null) {
          terminal.error('Nothing was changed.\n');
          return 1;
        }
        const on = (id !== null && isCustomerId(id) ? ofCustomer : operation) as O;
        const done = await at.perform(on, { ...input, ...answers } as InputOf<O>, { once }).catch(asCommand);
        if (done.isRepeated) terminal.error('Nothing was changed: this change was made under this --id before.\n');
        const text = look.text ?? membersText;
        if (words.options.json === true) terminal.out(`${JSON.stringify(done.output, null, 2)}\n`);
        else terminal.out(text(done, printOn(terminal, id ?? '', at.name)));
        return codeOf(done, terminal);
      };
      return withOperations(terminal, work, { ...openingFor(operation), ...look.open });
    },
  };
}

/** The words for the members of the path: which record, and which part of it. */
function positionalsOf({ line }: AnyOperation, { ofCustomer }: { readonly ofCustomer?: unknown }): readonly string[] {
  return pathMembersOf({ line }).map((member) => {
    if (member !== 'id') return member.replaceAll(/[A-Z]/g, '_$&').toUpperCase();
    if (line.includes(' /keys/') && ofCustomer === undefined) return 'KEY_ID';
    return line.includes(' /customers/') ? 'CUSTOMER_ID' : 'ID';
  });
}

function jsonOf({ output }: AnyOperation): Option {
  return { type: 'boolean', about: `Prints one JSON object: ${Object.keys(membersOf(output)).join(', ')}.` };
}

const ONCE: Option = {
  type: 'string',
  value: 'ID',
  about: 'Makes the change once: the same command with the same ID changes nothing for 24 h.',
};
const MAX_CHARACTERS = 255;

/** Whether a change may be named. The name of one that makes a secret would lead to the secret, and arguments can be read by others. */
function isNamed({ once, makesSecret }: AnyOperation): boolean {
  return once !== undefined && makesSecret !== true;
}

/** Another key may have the name when the command is repeated. */
const NAME_WITH_ONCE =
  '--id needs the id of what is changed, not its name: by the time of a repetition another may have the name.';

function onceOf({ options }: Words): string | null {
  const once = (options.id as string | undefined) ?? null;
  if (once !== null && (once === '' || once.length > MAX_CHARACTERS)) {
    throw new Failure('bad_usage', `--id must have 1 to ${MAX_CHARACTERS} characters.`);
  }
  return once;
}

const REUSED = 'Another change was made under this --id. Use a new one.';

function asCommand(error: unknown): never {
  if (error instanceof Refused && error.refusal === 'idempotency_key_reused') throw new Failure('conflict', REUSED);
  throw error;
}

/**
 * Whether `--yes` is required where there is no person to ask. What only an admin may do is not urgent. A program must be able to revoke a
 * leaked key at once.
 */
function insistsOnYes({ asksFirst, role }: AnyOperation): boolean {
  return asksFirst === true && role === 'admin';
}

function yesOf(operation: AnyOperation): Option {
  const rest = insistsOnYes(operation)
    ? '; required where there is no terminal to ask on.'
    : '. Only on a terminal the command asks first.';
  return { type: 'boolean', short: 'y', about: `Does it without asking${rest}` };
}

/** @throws Failure `bad_usage` */
function insistOnYes(operation: AnyOperation, { options }: Words, { question = null }: Terminal): void {
  if (!insistsOnYes(operation) || options.yes === true || question !== null) return;
  throw new Failure('bad_usage', `${effectOf(operation)} Give --yes to do it.`);
}

interface Asking {
  readonly at: OperationsAt;
  readonly id: string | null;
  readonly isForRevoked: boolean;
  readonly words: Words;
  readonly terminal: Terminal;
}

/**
 * Asks the person whether to do what asks first, and for what the operation asks for. Nothing is asked about what does not exist, or
 * was revoked before.
 * @returns members of the input; null if the person does not want it
 */
async function answersTo(
  operation: AnyOperation,
  { at, id, isForRevoked, words, terminal: { question = null } }: Asking,
): Promise<Readonly<Record<string, unknown>> | null> {
  const { asksFirst, asks = {} } = operation;
  const given = Object.keys(optionsOf({ operation })).filter((option) => words.options[option] !== undefined);
  const isSure = asksFirst !== true || words.options.yes === true;
  const questions = given.length === 0 ? Object.entries(asks) : [];
  if (question === null || id === null || (isSure && questions.length === 0)) return {};
  const facts = isTokenHolder(id) ? '' : await factsOf(at, id, isForRevoked);
  if (facts === null) return {};
  if (!isSure) {
    const verb = operation.command![0].split(' ').at(-1)!;
    const options = given.map((option) => ` --${option} ${words.options[option]}`).join('');
    const what = `${verb.charAt(0).toUpperCase()}${verb.slice(1)} ${id}${facts}${options}`;
    if (!isYes(await question(`${what}? ${effectOf(operation)} [y/N] `))) return null;
  }
  const answers: Record<string, boolean> = {};
  for (const [member, text] of questions) {
    const answer = await question(`${text} [y/N] `);
    if (answer === null) return null;
    if (isYes(answer)) answers[member] = true;
  }
  return answers;
}

/** What is known of a key or a customer, for the person who decides about it; null if there is none. */
async function factsOf(at: OperationsAt, id: string, isForRevoked: boolean): Promise<string | null> {
  try {
    const { output } = await at.perform(isCustomerId(id) ? showCustomer : showKey, { id });
    const { plan, name, owner } = output;
    const { revokedAt, lastUsedOn } = { revokedAt: null, lastUsedOn: undefined, ...output };
    if (revokedAt !== null && !isForRevoked) return null;
    const facts = [
      `plan ${plan}`,
      ...(name === null ? [] : [`"${escapedText(name)}"`]),
      ...(owner === null ? [] : [`of ${escapedText(owner)}`]),
      ...(lastUsedOn === undefined ? [] : [lastUsedOn === null ? 'no use on record' : `last used ${lastUsedOn}`]),
    ];
    return ` (${facts.join(', ')})`;
  } catch (error) {
    if (error instanceof Failure && error.code === 'not_found') return null;
    throw error;
  }
}

/** The exit code of a change. Names the records that it has left as they are, because they could not be read. */
function codeOf({ output, change }: Performed<AnyOperation>, terminal: Terminal): ExitCode {
  if (change === undefined) return 0;
  const { unreadable = [] } = output as { readonly unreadable?: readonly { readonly id: string }[] };
  const code = exitCodeOf(change.durability, terminal);
  if (unreadable.length === 0) return code;
  terminal.error(`warning: ${unreadableText(unreadable)}. They stay as they are.\n`);
  return 1;
}

/** A line for each member of an output. */
function membersText({ output }: { readonly output: unknown }): string {
  const members = Object.entries(output as object);
  const width = Math.max(...members.map(([name]) => name.length));
  const textOf = (value: unknown): string =>
    Array.isArray(value)
      ? value.map(textOf).join(', ')
      : escapedText(typeof value === 'string' ? value : JSON.stringify(value));
  return members.map(([name, value]) => `${name.padEnd(width)}  ${textOf(value)}\n`).join('');
}

export function printOn(terminal: Terminal, id = '', at = ''): Print {
  const nowMs = Date.now();
  return {
    id,
    at,
    terminal,
    nowMs,
    // Reports round times up to whole seconds. So is the present here: a ban of 10 minutes ends in 10 minutes, not in 11.
    seconds: (seconds) => momentText(seconds * 1000, Math.ceil(nowMs / 1000) * 1000, terminal),
    moment: (time) => momentText(typeof time === 'string' ? Date.parse(time) : time, nowMs, terminal),
  };
}
