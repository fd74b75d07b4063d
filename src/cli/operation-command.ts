import type { z } from 'zod';
import { type ExitCode, Failure, Refused } from '../failure.ts';
import { momentText } from '../io/time-text.ts';
import { isCustomerId } from '../model/record.ts';
import { isOptional, kindOf, membersOf, pathMembersOf, readWords } from '../operations/catalogue/input.ts';
import type { InputOf } from '../operations/catalogue/operation.ts';
import type { AnyOperation } from '../operations/catalogue/perform.ts';
import { unreadableText } from '../operations/unreadable.ts';
import type { OpenOptions } from '../serve/open-store.ts';
import { type Meaning, meantId, type Placeholder } from './meant-id.ts';
import { type OperationsAt, type Performed, withOperations } from './operations-at.ts';
import { exitCodeOf } from './recorded-change.ts';
import type { Command, Option, Terminal, Words } from './terminal/command.ts';
import { OF_OPERATIONS } from './terminal/variables.ts';

// A command that does one operation of operators. Its options and their help are made of the input of the operation.

/** How a command spells and prints an operation. */
interface OperationCommand<O extends AnyOperation> {
  /** For example `keys topup`. */
  readonly name: string;
  readonly operation: O;
  /** The word that names what it is done to: KEY_ID unless given. Null: it makes something new. */
  readonly positional?: Placeholder | null;
  /** The operation in place of `operation` if it is done to a customer, where there is another one. */
  readonly ofCustomer?: AnyOperation & Pick<O, 'run'>;
  /** The command is for revoked keys too, so a name may mean one although another key has it. */
  readonly isForRevoked?: boolean;
  /** The word for the second member of the path, if there is one. */
  readonly part?: string;
  readonly examples: readonly string[];
  /** How a member of the input is spelled, where that is not `--member VALUE` with the description of the member. */
  readonly spelled?: Readonly<Record<string, Spelling>>;
  /** Options beside the members of the input. */
  readonly options?: Command['options'];
  /** Members of the input that those options stand for. @throws Failure `bad_usage` */
  readonly given?: (words: Words) => object;
  /** The help of `--json`. */
  readonly json: string;
  /** What `--json` prints; the output of the operation unless given. */
  readonly asJson?: (done: Performed<O>) => object;
  readonly text: (done: Performed<O>, print: Print) => string;
  readonly open?: OpenOptions;
  /** Called before the store is opened. @throws Failure `bad_usage` */
  readonly check?: (words: Words, terminal: Terminal) => void;
  /** Asks the person. Returns what is printed instead if the answer is no, or null. */
  readonly confirm?: (at: OperationsAt, words: Words, terminal: Terminal) => Promise<string | null>;
  /** Asks the person for members of the input that were not given. @throws Failure `refused` if the person ends the input */
  readonly ask?: (at: OperationsAt, words: Words, terminal: Terminal) => Promise<Readonly<Record<string, unknown>>>;
}

export interface Spelling {
  /** The name of the option. */
  readonly option?: string;
  readonly value?: string;
  readonly about?: string;
  /** Makes the member of what was given. @throws Failure `bad_usage` */
  readonly read?: (given: never, words: Words) => unknown;
  /** The member is an id of this kind, for which a name may stand. */
  readonly idOf?: Placeholder;
}

/** What a text is made with. */
export interface Print {
  /** Writes Unix seconds. */
  readonly seconds: (at: number) => string;
  /** Writes Unix milliseconds or an RFC 3339 time. */
  readonly moment: (at: number | string) => string;
  readonly id: string;
  readonly terminal: Terminal;
  readonly nowMs: number;
}

const ONCE: Option = {
  type: 'string',
  value: 'ID',
  about: 'Makes the change once: the same command with the same ID changes nothing for 24 h.',
};
const MAX_CHARACTERS = 255;

export function operationCommand<O extends AnyOperation>(spec: OperationCommand<O>): Command {
  const {
    name,
    operation,
    positional = 'KEY_ID',
    ofCustomer = operation,
    part,
    examples,
    open = {},
    json,
    check,
    isForRevoked = false,
    confirm,
    ask: question,
  } = spec;
  return {
    name,
    about: operation.sentence,
    positionals: [positional, part].filter((word) => typeof word === 'string'),
    environment: OF_OPERATIONS,
    examples,
    options: {
      ...optionsOf(spec),
      ...spec.options,
      ...(operation.once === undefined ? {} : { id: ONCE }),
      json: { type: 'boolean', about: json },
    },
    async run(given, terminal) {
      check?.(given, terminal);
      const names = pathMembersOf(operation);
      const members = inputOf(spec, given);
      const once = operation.once === undefined ? null : onceOf(given);
      const work = async (at: OperationsAt): Promise<ExitCode> => {
        const meaning = { isRead: false, isForRevoked, note: terminal.error };
        const words = await withMeantId(at, positional, given, meaning);
        const [id = null] = words.positionals;
        if (once !== null && id !== given.positionals[0]) throw new Failure('bad_usage', NAME_WITH_ONCE);
        const meant = await withMeantIds(at, spec.spelled, members, meaning);
        const input = { ...meant, ...Object.fromEntries(words.positionals.map((word, i) => [names[i], word])) };
        const declined = (await confirm?.(at, words, terminal)) ?? null;
        if (declined !== null) {
          terminal.error(`${declined}\n`);
          return 1;
        }
        const answers = (await question?.(at, words, terminal)) ?? {};
        const on = id !== null && isCustomerId(id) ? ofCustomer : operation;
        const done = await at.perform(on as O, { ...input, ...answers } as InputOf<O>, { once }).catch(asCommand);
        if (done.isRepeated) terminal.error('Nothing was changed: this change was made under this --id before.\n');
        const report = spec.asJson === undefined ? done.output : spec.asJson(done);
        if (words.options.json === true) terminal.out(`${JSON.stringify(report, null, 2)}\n`);
        else terminal.out(spec.text(done, printOn(terminal, id ?? '')));
        return codeOf(done, terminal);
      };
      return withOperations(terminal, work, open);
    },
  };
}

/** Another key may have the name when the command is repeated. */
const NAME_WITH_ONCE =
  '--id needs the id of what is changed, not its name: by the time of a repetition another may have the name.';

/** The words with the id of what is meant, where the name of a key or a customer was given. */
export async function withMeantId(
  at: OperationsAt,
  positional: Placeholder | null,
  words: Words,
  meaning: Omit<Meaning, 'of'>,
): Promise<Words> {
  const [first, ...rest] = words.positionals;
  if (first === undefined || positional === null) return words;
  const id = await meantId(at, first, { of: positional, ...meaning });
  return { ...words, positionals: [id, ...rest] };
}

/** The members of the input with the ids of what is meant, where names were given. */
export async function withMeantIds(
  at: OperationsAt,
  spelled: Readonly<Record<string, Spelling>> = {},
  members: object,
  meaning: Omit<Meaning, 'of'>,
): Promise<object> {
  const meant = Object.entries(members).map(async ([member, word]) => {
    const { idOf } = spelled[member] ?? {};
    const isWord = idOf !== undefined && typeof word === 'string';
    return [member, isWord ? await meantId(at, word, { of: idOf, ...meaning }) : word] as const;
  });
  return Object.fromEntries(await Promise.all(meant));
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

export function optionsOf({ operation, spelled = {} }: Pick<OperationCommand<AnyOperation>, 'operation' | 'spelled'>) {
  const entries = Object.entries(membersOf(operation.input)).map(([member, type]): [string, Option] => {
    const {
      option = member,
      about = type.description ?? '',
      value = placeholderOf(option, type),
    } = spelled[member] ?? {};
    if (kindOf(type) === 'boolean') return [option, { type: 'boolean', about }];
    const isMultiple = ['array', 'object', 'record'].includes(kindOf(type) ?? '');
    return [option, { type: 'string', value, about, ...(isMultiple ? { multiple: true } : {}) }];
  });
  return Object.fromEntries(entries);
}

function placeholderOf(option: string, type: z.ZodType): string {
  return kindOf(type) === 'number' ? 'NUMBER' : option.toUpperCase();
}

export function inputOf<O extends AnyOperation>(
  {
    name,
    operation,
    spelled = {},
    given: beside,
  }: Pick<OperationCommand<O>, 'name' | 'operation' | 'spelled' | 'given'>,
  words: Words,
): object {
  const { input } = operation;
  if (input === undefined) return {};
  const optionOf = (member: string) => spelled[member]?.option ?? member;
  const given = Object.entries(membersOf(input)).flatMap(([member]) => {
    const value = words.options[optionOf(member)];
    if (value === undefined) return [];
    const read = spelled[member]?.read;
    return [[member, read === undefined ? value : read(value as never, words)] as const];
  });
  const mayBeEmpty =
    isOptional(input) || Object.values(membersOf(input)).some((type) => !type.safeParse(undefined).success);
  if (given.length === 0 && !mayBeEmpty) {
    throw new Failure('bad_usage', `Nothing is to be changed. See \`tollgate ${name} --help\`.`);
  }
  return readWords(
    input,
    { ...Object.fromEntries(given), ...beside?.(words) },
    (member) => `--${optionOf(member)}`,
  ) as object;
}

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

export function printOn(terminal: Terminal, id: string): Print {
  const nowMs = Date.now();
  return {
    id,
    terminal,
    nowMs,
    // Reports round times up to whole seconds. So is the present here: a ban of 10 minutes ends in 10 minutes, not in 11.
    seconds: (at) => momentText(at * 1000, Math.ceil(nowMs / 1000) * 1000, terminal),
    moment: (at) => momentText(typeof at === 'string' ? Date.parse(at) : at, nowMs, terminal),
  };
}
