import { parseArgs } from 'node:util';
import { type ExitCode, Failure } from '../../failure.ts';
import { isOwnForm } from '../../identify/api-key.ts';
import type { Style } from '../../io/terminal-text.ts';
import { visible } from '../../operations/operation-values.ts';
import { adviceOnOption } from './meant.ts';
import { OF_GATEWAY, OF_OPERATIONS, OF_STORE, VARIABLES, type Variable } from './variables.ts';

/** One option of a command. Every option has a sentence for `--help`. */
export interface Option {
  readonly type: 'string' | 'boolean';
  readonly multiple?: boolean;
  readonly short?: string;
  /** The placeholder for the value in the usage, for example `PLAN`. */
  readonly value?: string;
  readonly about: string;
}

/** How the help of a command names an argument that is a key, a customer, or either. */
export type Placeholder = 'KEY_ID' | 'CUSTOMER_ID' | 'ID';

/** How values of a kind are written in options. */
export interface Form {
  /** The name of the option, if it is not that of the member of the input. */
  readonly option?: string;
  readonly value: string;
  /** In place of the description of the member. */
  readonly about?: string;
  /** After the description of the member. */
  readonly hint?: string;
  readonly isMultiple?: true;
  /** It is the id of such a record, for which a name may stand. */
  readonly idOf?: Placeholder;
  /** Makes the member of what was given. @throws Failure `bad_usage` */
  readonly read?: (given: never, option: string) => unknown;
}

/** The parsed arguments after a command's name. */
export interface Words {
  readonly options: Readonly<Record<string, string | boolean | readonly string[] | undefined>>;
  readonly positionals: readonly string[];
}

/** Where a command reads from and writes to. Tests pass their own. */
export interface Terminal {
  readonly env: NodeJS.ProcessEnv;
  out(text: string): void;
  error(text: string): void;
  /** Resolves when the reader has taken what was printed so far. A long export waits for it, so that memory is bounded. */
  flushed?(): Promise<void>;
  /**
   * True if standard output is a terminal. Commands align tables, draw progress and write times relative to now only there.
   */
  readonly isTerminal: boolean;
  /** How many characters fit into a line of it. Null or absent if that is unknown. */
  readonly columns?: number | null;
  /** Gives what is printed its colours. Absent without any. */
  readonly style?: Style;
  /** False if tables have no header (`--no-header`). */
  readonly hasHeader?: boolean;
  /** Returns the size of the terminal at this moment: the person may resize it. Absent if standard output is not a terminal. */
  readonly size?: () => { readonly columns: number; readonly rows: number };
  /**
   * Asks the person at the terminal and resolves to the answer, or to null if the person ended the input. Null or absent if standard
   * input is not a terminal.
   */
  readonly question?: ((text: string) => Promise<string | null>) | null;
  /**
   * Reads what is on standard input, for a secret that must not be an argument. On a terminal it asks with `prompt`, reads one
   * line and does not show it.
   * @throws Failure `refused` if it is longer than 64 KiB
   */
  readonly hiddenInput?: (prompt: string) => Promise<string>;
  /** How long a command waits for the answer of a gateway, milliseconds. Absent: 5 s. */
  readonly answerWithinMs?: number;
}

export interface Command {
  /** For example `keys create`. */
  readonly name: string;
  /** What it does, for `--help`. */
  readonly about: string;
  /** The positional arguments as the usage shows them: `KEY_ID`, `[FILE]`; `[WORD...]`, the last one, stands for any number. */
  readonly positionals: readonly string[];
  readonly options: Readonly<Record<string, Option>>;
  /** Command lines for `--help`, as one would type them. */
  readonly examples: readonly string[];
  /** The environment variables that it reads. With those of the store (`OF_STORE`) goes `--data`. */
  readonly environment: readonly Variable[];
  /** True for a command that prints a table: it has `--no-header`. */
  readonly printsTable?: boolean;
  run(words: Words, terminal: Terminal): Promise<ExitCode>;
}

const NO_HEADER: Option = {
  type: 'boolean',
  about: 'Prints tables without their header.',
};

const DATA: Option = {
  type: 'string',
  value: 'FOLDER',
  about: 'The folder of the embedded store, in place of TOLLGATE_DATA.',
};

const AT_GATEWAY: Readonly<Record<string, Option>> = {
  gateway: {
    type: 'string',
    value: 'URL',
    about: 'Asks the gateway with this admin port, in place of TOLLGATE_GATEWAY, with the token of TOLLGATE_TOKEN.',
  },
  'plain-http': {
    type: 'boolean',
    about: 'Asks a gateway on another machine without TLS. Anyone on the way can read the token.',
  },
};

/** The options of a command, with those that it has in common with others. Its own texts come before the common ones. */
export function optionsOf(command: Command): Command['options'] {
  return {
    ...command.options,
    ...(takesStore(command) ? { data: command.options.data ?? DATA } : {}),
    ...(takesGateway(command) ? AT_GATEWAY : {}),
    ...(command.printsTable === true ? { 'no-header': NO_HEADER } : {}),
  };
}

/** Whether a command works on the store of the gateways, and so reads the variables that name it. */
function takesStore({ environment }: Command): boolean {
  return OF_STORE.every((name) => environment.includes(name));
}

/** Whether a gateway can do what the command asks for. */
function takesGateway({ environment }: Command): boolean {
  return OF_OPERATIONS.every((name) => environment.includes(name));
}

/**
 * Runs a command with arguments that `parseWords` has read.
 * @throws Failure `bad_usage` for a `--data` or a gateway that cannot be meant, and as the command
 */
export async function runParsed(command: Command, words: Words, terminal: Terminal): Promise<ExitCode> {
  const gateway = gatewayEnv(command, words, terminal);
  const env = takesStore(command) ? withDataFolder(gateway, words.options.data) : gateway;
  const hasHeader = words.options['no-header'] === true ? false : terminal.hasHeader;
  return command.run(words, { ...terminal, env, ...(hasHeader === undefined ? {} : { hasHeader }) });
}

/**
 * The environment, with `--gateway` in place of TOLLGATE_GATEWAY.
 *
 * Fault: TOLLGATE_GATEWAY names a gateway, and a command that no gateway can do changes the store of this machine instead.
 * @throws Failure `bad_usage`
 */
function gatewayEnv(command: Command, { options }: Words, { env }: Terminal): NodeJS.ProcessEnv {
  if (takesGateway(command)) {
    const address = (options.gateway as string | undefined) ?? env.TOLLGATE_GATEWAY;
    if (address && options.data !== undefined)
      throw new Failure('bad_usage', 'A gateway is asked, which has its own store: leave --data or the gateway out.');
    const plain = options['plain-http'] === true ? { TOLLGATE_PLAIN_HTTP: '1' } : {};
    return address === undefined ? env : { ...env, TOLLGATE_GATEWAY: address, ...plain };
  }
  const isOfGateway = OF_GATEWAY.every((name) => command.environment.includes(name));
  if (env.TOLLGATE_GATEWAY && takesStore(command) && !isOfGateway)
    throw new Failure(
      'bad_usage',
      `\`tollgate ${command.name}\` works on the store itself, and TOLLGATE_GATEWAY names a gateway. Unset it, and name the store.`,
    );
  return env;
}

/** The environment, with `--data` in place of TOLLGATE_DATA. */
function withDataFolder(env: NodeJS.ProcessEnv, folder: Words['options'][string]): NodeJS.ProcessEnv {
  if (folder === undefined) return env;
  if (folder === '') throw new Failure('bad_usage', "--data is empty; it must be the embedded store's folder.");
  if (env.REDIS_URL || env.REDIS_URL_FILE) {
    throw new Failure('bad_usage', 'The keys are in Redis, as REDIS_URL says; leave --data out, or unset REDIS_URL.');
  }
  return { ...env, TOLLGATE_DATA: folder as string };
}

/**
 * Parses the arguments after a command's name.
 * @throws Failure `bad_usage` for an unknown option, a missing value, or too few or too many positional arguments
 */
export function parseWords(command: Command, args: readonly string[]): Words {
  const help = `See \`tollgate ${command.name} --help\`.`;
  const joined = withJoinedValues(command, args);
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({
      args: joined,
      options: Object.fromEntries(
        Object.entries(optionsOf(command)).map(([name, { type, multiple, short }]) => [
          name,
          { type, multiple: multiple ?? false, ...(short === undefined ? {} : { short }) },
        ]),
      ),
      allowPositionals: true,
      strict: true,
      tokens: true,
    });
  } catch (cause) {
    const sentence = (cause instanceof Error ? cause.message : String(cause)).split('. ')[0]!;
    const [, unknown] = /^Unknown option '--?([^']+)'/.exec(sentence) ?? [];
    const advice = unknown === undefined ? null : adviceOn(command, unknown);
    throw new Failure('bad_usage', `${sentence}. ${advice === null ? '' : `${advice} `}${help}`, cause);
  }
  const twice = optionGivenTwice(command, parsed.tokens ?? []);
  if (twice !== null) throw new Failure('bad_usage', `--${twice} is given several times; give it once. ${help}`);
  const least = command.positionals.filter((name) => !name.startsWith('[')).length;
  const given = parsed.positionals.length;
  if (given < least) throw new Failure('bad_usage', `${command.positionals[given]} is missing. ${help}`);
  const takesAny = command.positionals.at(-1)?.endsWith('...]') === true;
  if (given > command.positionals.length && !takesAny) {
    const word = parsed.positionals[command.positionals.length]!;
    // Standard error may be a log of CI.
    if (isOwnForm(word)) throw new Failure('bad_usage', `A secret must not be an argument. ${help}`);
    const isName = command.positionals.length === 0 && Object.hasOwn(command.options, 'name');
    const form = isName ? 'Did you mean --name?' : `The command is \`${usageOf(command)}\`.`;
    throw new Failure('bad_usage', `Unexpected word '${visible(word)}'. ${form} ${help}`);
  }
  return {
    options: parsed.values as Words['options'],
    positionals: parsed.positionals,
  };
}

/** What to type in place of an option that the command lacks; null if that is unknown. */
function adviceOn(command: Command, unknown: string): string | null {
  if (unknown === 'gateway' && takesStore(command)) return 'This command works on the store itself.';
  return adviceOnOption(unknown, Object.keys(optionsOf(command)), command.positionals);
}

/** An option with one value that was given several: parseArgs would take the last of them. */
function optionGivenTwice(
  command: Command,
  tokens: NonNullable<ReturnType<typeof parseArgs>['tokens']>,
): string | null {
  const options = optionsOf(command);
  const given = tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : []));
  const isSingle = (name: string) => options[name]!.type === 'string' && options[name]!.multiple !== true;
  return given.find((name, i) => isSingle(name) && given.indexOf(name) < i) ?? null;
}

const NEGATIVE = /^-[0-9]/;

/**
 * The arguments with each value that is a negative number joined to its option, as `--amount=-500`: parseArgs takes the value for an
 * option, and the command itself says best which numbers it takes.
 * @throws Failure `bad_usage` for an option whose value is missing, or begins with `-` otherwise
 */
function withJoinedValues(command: Command, args: readonly string[]): string[] {
  const options = optionsOf(command);
  const joined: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const word = args[i]!;
    if (word === '--') return [...joined, ...args.slice(i)];
    const name = word.startsWith('--') ? word.slice(2) : '';
    const isWithValue = Object.hasOwn(options, name) && options[name]!.type === 'string';
    const next = args[i + 1];
    if (!isWithValue || (next !== undefined && !/^-./.test(next))) {
      joined.push(word);
      // What follows is the value, whatever it looks like.
      if (isWithValue && next !== undefined) joined.push(args[++i]!);
      continue;
    }
    if (next === undefined || !NEGATIVE.test(next)) {
      const value = options[name]!.value ?? 'VALUE';
      const follows = next === undefined ? 'nothing follows' : `${visible(next)} follows`;
      const remedy = next === undefined ? '' : ` A value that begins with - is written as --${name}=-….`;
      const help = `See \`tollgate ${command.name} --help\`.`;
      throw new Failure('bad_usage', `--${name} needs a value, ${value}, but ${follows}.${remedy} ${help}`);
    }
    joined.push(`${word}=${next}`);
    i++;
  }
  return joined;
}

/** The variables that a command reads. NO_COLOR is for those that print more than a text of their own: tables, states, warnings. */
function variablesOf({ environment, printsTable }: Command): readonly Variable[] {
  return environment.length > 0 || printsTable === true ? [...environment, 'NO_COLOR'] : environment;
}

/** The text of `tollgate COMMAND --help`, in the width of the terminal. */
export function helpOf(command: Command, terminal: Pick<Terminal, 'columns'> = {}): string {
  const options: [string, string][] = [
    ...Object.entries(optionsOf(command)).map(([name, option]): [string, string] => [
      `${option.short ? `-${option.short}, ` : ''}--${name}${option.type === 'string' ? ` ${option.value ?? 'VALUE'}` : ''}`,
      option.about,
    ]),
    ['--help', 'Shows this text.'],
  ];
  const variables = variablesOf(command).map((name): [string, string] => [name, VARIABLES[name]]);
  return [
    `${wrapped(command.about, '', terminal)}\nUsage: ${usageOf(command)}\n`,
    `Options:\n${inColumns(options, terminal)}`,
    ...(variables.length === 0 ? [] : [`Environment:\n${inColumns(variables, terminal)}`]),
    `Examples:\n${command.examples.map((line) => `  ${line}\n`).join('')}`,
  ].join('\n');
}

function usageOf({ name, positionals }: Command): string {
  return ['tollgate', name, ...positionals, '[options]'].join(' ');
}

/** Two columns, indented. @param width of the first; by default as wide as needed, up to 30 */
export function inColumns(
  rows: readonly (readonly [string, string])[],
  terminal: Pick<Terminal, 'columns'>,
  width = Math.min(MAX_FIRST, Math.max(...rows.map(([left]) => left.length))),
): string {
  return rows
    .map(([left, right]) => {
      const lead = `  ${left.padEnd(width)}  `;
      // What is longer has a line of its own.
      if (left.length > width) return `  ${left}\n${wrapped(right, ' '.repeat(width + 4), terminal)}`;
      return wrapped(right, lead, terminal);
    })
    .join('');
}

const MAX_FIRST = 30;
/** Columns of the narrowest usual terminal, and of lines that are still easy to read. */
const WIDTHS = { least: 60, usual: 80, most: 110 };

/** A text in lines that fit the terminal; those after the first are indented as far as `lead` is long. Ends with a line break. */
export function wrapped(text: string, lead: string, { columns }: Pick<Terminal, 'columns'>): string {
  const width = Math.min(WIDTHS.most, Math.max(WIDTHS.least, columns ?? WIDTHS.usual));
  const lines = [lead];
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!;
    if (line.length === lead.length || line.length + word.length <= width) lines[lines.length - 1] = `${line}${word} `;
    else lines.push(`${' '.repeat(lead.length)}${word} `);
  }
  return lines.map((line) => `${line.trimEnd()}\n`).join('');
}

/** Whether the answer to a `question` is yes. Null, the end of the input, is no. */
export function isYes(answer: string | null): boolean {
  return /^\s*y(es)?\s*$/i.test(answer ?? '');
}
