import { type ExitCode, Failure } from '../failure.ts';
import { isCustomerId, UnreadableRecord } from '../model/record.ts';
import { membersOf, pathMembersOf } from '../operations/catalogue/input.ts';
import type { InputOf, OutputOf } from '../operations/catalogue/operation.ts';
import type { AnyOperation } from '../operations/catalogue/perform.ts';
import { type Print, printOn } from './operation-command.ts';
import { inputOf, optionOf, optionsOf, type Spelling, withMeantId, withMeantIds } from './operation-options.ts';
import { type OperationsAt, openingFor, withOperations } from './operations-at.ts';
import { pagesOf } from './operations-interface.ts';
import type { Command, Option, Placeholder, Terminal, Words } from './terminal/command.ts';
import { Progress } from './terminal/output.ts';
import { type Column, printTable } from './terminal/printed-table.ts';
import { OF_OPERATIONS } from './terminal/variables.ts';
import { UnreadableRecords } from './unreadable-records.ts';

// Commands that show what an operation returns, and change nothing. `--json` prints the output of the operation as it is.

interface Reading<O extends AnyOperation> {
  /** For example `keys list`. */
  readonly name: string;
  readonly operation: O;
  /** What it does; the sentence of the operation unless given. */
  readonly about?: string;
  readonly examples: readonly string[];
  /** How a member of the input is spelled, where that is not `--member VALUE` with the description of the member. */
  readonly spelled?: Readonly<Record<string, Spelling>>;
}

type Entries<Out> = Out extends { readonly [member: string]: unknown }
  ? {
      [M in keyof Out & string]: M extends 'unreadable' ? never : Out[M] extends readonly object[] ? M : never;
    }[keyof Out & string]
  : never;
/** One entry of the output of a list. */
export type EntryOf<O> =
  OutputOf<O> extends infer Out ? (Out[Entries<Out> & keyof Out] extends readonly (infer One)[] ? One : never) : never;

/** A column of a list, with its cells. Null is an empty cell. */
export interface CellsOf<Row> extends Column {
  readonly cell: (row: Row, print: Print) => string | null;
  /** The column is there only if this holds for some row; always unless given. */
  readonly isThere?: (row: Row) => boolean;
}

interface ListCommand<O extends AnyOperation, Row> extends Reading<O> {
  /** The member of the output that has the entries. */
  readonly entries: Entries<OutputOf<O>>;
  readonly columns: readonly CellsOf<NoInfer<Row>>[];
  /** The rows of an entry; one, the entry itself, unless given. */
  readonly rows?: (entry: EntryOf<O>) => readonly Row[];
  /** The order of the entries in a table; that of the operation unless given. */
  readonly order?: (a: EntryOf<O>, b: EntryOf<O>) => number;
  /** What is said where there are no entries. @param isFiltered whether some condition was given */
  readonly none: (isFiltered: boolean) => string;
  /** At most this many are listed without `--limit`; all unless given. */
  readonly limit?: number;
  /** How many entries a page has, where each takes long. */
  readonly page?: number;
  /** What is said of entries that cannot be read, which make the exit code 1. Left out, they are rows and no more. */
  readonly unread?: (isOne: boolean) => string;
}

/** A command that prints all pages of a list. */
export function listCommand<O extends AnyOperation, Row = EntryOf<O>>(spec: ListCommand<O, Row>): Command {
  const { name, operation, entries, limit: usual, page, unread } = spec;
  const members = membersOf(operation.input);
  const isPaged = Object.hasOwn(members, 'limit');
  const isSearch = Object.hasOwn(members, 'q');
  const spelled = { ...(isSearch ? SEARCH : {}), ...spec.spelled };
  const { limit: _, cursor: __, ...filters } = optionsOf({ operation, spelled });
  return {
    name,
    about: spec.about ?? operation.sentence,
    positionals: isSearch ? ['[TEXT]'] : [],
    environment: OF_OPERATIONS,
    printsTable: true,
    examples: spec.examples,
    options: {
      ...filters,
      ...(isPaged ? { limit: limitOption(usual) } : {}),
      json: jsonOption(operation, isPaged ? ', with the entries of all pages in one' : ''),
    },
    run(words, terminal) {
      const { limit, ...options } = withText(words).options;
      const given = inputOf({ name, operation, spelled }, { options, positionals: [] });
      const isFiltered = Object.entries(filters).some(([option, { type }]) => type === 'string' && options[option]);
      const most = limit === undefined ? usual : limitFrom(limit);
      return reading(terminal, spec, async (at) => {
        const input = await withMeantIds(at, { operation, spelled }, given, { isRead: true, note: terminal.error });
        const progress = new Progress(terminal, () => performance.now());
        let whole: Page | null = null;
        for await (const found of pagesOf(at, operation, input as InputOf<O>, { entries, page, most })) {
          whole = whole === null ? (found as Page) : joined(whole, found as Page);
          const { searched = (whole[entries] as readonly unknown[]).length } = whole;
          progress.show(entries, searched as number, null, String);
        }
        progress.end();
        if (words.options.json === true) terminal.out(json(whole));
        else printList(spec, whole!, isFiltered, terminal);
        const records = unread === undefined ? [] : unreadableIn(whole!);
        const lost = new UnreadableRecords(records.map(({ id, reason }) => new UnreadableRecord(id, reason)));
        lost.describe(terminal, unread ?? String);
        return lost.exitCode;
      });
    },
  };
}

/** The text that a list is searched for stands without an option, too. */
const SEARCH: Readonly<Record<string, Spelling>> = { q: { option: 'search', value: 'TEXT' } };

/** @throws Failure `bad_usage` */
function withText({ options, positionals: [text] }: Words): Words {
  if (text === undefined) return { options, positionals: [] };
  if (options.search !== undefined) {
    throw new Failure('bad_usage', 'TEXT is given twice, with --search and without; give it once.');
  }
  return { options: { ...options, search: text }, positionals: [] };
}

function limitOption(usual: number | undefined): Option {
  return { type: 'string', value: 'N', about: `Lists at most this many; ${usual ?? 'all'} by default.` };
}

/** @throws Failure `bad_usage` */
function limitFrom(given: Words['options'][string]): number {
  if (/^[1-9][0-9]{0,7}$/.test(String(given))) return Number(given);
  throw new Failure('bad_usage', `--limit is '${given}'; it must be a whole number from 1 to 99999999.`);
}

function jsonOption({ line }: AnyOperation, pages: string): Option {
  const [method, path] = line.split(' ');
  return { type: 'boolean', about: `Prints one JSON object, as \`${method} /admin${path}\` gives it${pages}.` };
}

/** A page of a list, or several as one. */
type Page = Readonly<Record<string, unknown>>;

/** Two pages as one: lists are joined and counts are added; anything else is that of the second. */
function joined(before: Page, page: Page): Page {
  const members = Object.entries(page).map(([member, value]) => {
    const earlier = before[member];
    if (Array.isArray(earlier) && Array.isArray(value)) return [member, [...earlier, ...value]];
    return [member, typeof earlier === 'number' && typeof value === 'number' ? earlier + value : value];
  });
  return Object.fromEntries(members);
}

function unreadableIn({ unreadable = [] }: Page): readonly { readonly id: string; readonly reason: string }[] {
  return unreadable as never;
}

function printList<O extends AnyOperation, Row>(
  { columns, entries, rows, order, none }: ListCommand<O, Row>,
  output: Page,
  isFiltered: boolean,
  terminal: Terminal,
): void {
  const all = output[entries] as readonly EntryOf<O>[];
  const inOrder = order === undefined ? all : all.toSorted(order);
  const shown = rows === undefined ? (inOrder as readonly Row[]) : inOrder.flatMap(rows);
  const there = columns.filter(({ isThere }) => isThere === undefined || shown.some(isThere));
  const print = printOn(terminal);
  const cells = [
    ...shown.map((row) => there.map(({ cell }) => cell(row, print) ?? '')),
    ...unreadableIn(output).map(({ id }) => there.map(({ head }) => cellOfUnreadable(head, id))),
  ];
  printTable(terminal, there, cells, `${none(isFiltered)}\n`);
}

/** What a row has of a record that cannot be read: its id, and the word where the table has a state, an outcome or a ban. */
function cellOfUnreadable(head: string, id: string): string {
  if (head === 'id') return id;
  return ['state', 'outcome', 'ban', 'version'].includes(head) ? 'unreadable' : '-';
}

interface ShowCommand<O extends AnyOperation> extends Reading<O> {
  /** The word that names what is shown; null: there is none. */
  readonly positional: Placeholder | 'VERSION' | 'REQUEST_ID' | null;
  /** The operation in place of `operation` for a customer, where there is another one. */
  readonly ofCustomer?: AnyOperation;
  /** Options beside the members of the input. */
  readonly options?: Command['options'];
  /** Members of the input without an option of their own. */
  readonly hidden?: readonly string[];
  /** Members of the input that options, further words or standard input stand for. @throws Failure `bad_usage` */
  readonly given?: (words: Words, terminal: Terminal) => object | Promise<object>;
  readonly text: (output: OutputOf<O>, print: Print, words: Words) => string;
  /** What is said on standard error. */
  readonly note?: (output: OutputOf<O>, words: Words) => string;
  /** Where it is done; on the store of the gateways unless given. */
  readonly at?: typeof withOperations<ExitCode>;
}

/** A command that prints what an operation returns about one thing. */
export function showCommand<O extends AnyOperation>(spec: ShowCommand<O>): Command {
  const { name, operation, positional, ofCustomer = operation, spelled = {}, hidden = [], given, text, note } = spec;
  const isId = positional !== null && positional !== 'VERSION' && positional !== 'REQUEST_ID';
  const own = Object.entries(optionsOf(spec)).filter(([option]) => !hidden.includes(option));
  return {
    name,
    about: spec.about ?? operation.sentence,
    positionals: positional === null ? [] : [positional],
    environment: OF_OPERATIONS,
    examples: spec.examples,
    options: { ...Object.fromEntries(own), ...spec.options, json: jsonOption(operation, '') },
    async run(words, terminal) {
      const beside = (await given?.(words, terminal)) ?? {};
      const members = inputOf({ name, operation, spelled, given: () => beside }, words);
      return reading(terminal, spec, async (at) => {
        const meaning = { isRead: true, note: terminal.error };
        const [word = null] = isId
          ? (await withMeantId(at, positional, words, meaning)).positionals
          : words.positionals;
        const on = word !== null && isCustomerId(word) ? ofCustomer : operation;
        const path = pathMembersOf(on).map((member) => [member, word]);
        const { output } = await at.perform(on as O, { ...members, ...Object.fromEntries(path) } as InputOf<O>);
        if (words.options.json === true) terminal.out(json(output));
        else terminal.out(text(output, printOn(terminal, word ?? ''), words));
        terminal.error(note?.(output, words) ?? '');
        return 0;
      });
    },
  };
}

/** Does the operations of a command that reads. */
function reading<O extends AnyOperation>(
  terminal: Terminal,
  { operation, spelled = {}, at = withOperations }: Pick<ShowCommand<O>, 'operation' | 'spelled' | 'at'>,
  work: (at: OperationsAt) => Promise<ExitCode>,
): Promise<ExitCode> {
  const asOptions = (error: unknown) => insistOnOption(error, operation, spelled);
  return at(terminal, (there) => work(there).catch(asOptions), openingFor(operation));
}

/**
 * A fault of the input, whose sentence begins with the name of a member, as one of the option of that member.
 * @throws the error
 */
function insistOnOption(error: unknown, operation: AnyOperation, spelled: Readonly<Record<string, Spelling>>): never {
  if (!(error instanceof Failure) || error.code !== 'refused') throw error;
  const [member = ''] = error.message.split(' ', 1);
  if (!Object.hasOwn(membersOf(operation.input), member)) throw error;
  const name = member === 'q' ? 'TEXT' : optionOf({ operation, spelled }, member);
  throw new Failure('bad_usage', `${name}${error.message.slice(member.length)}`);
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** Lines with two columns, one for each thing that is known of a record. */
export function linesOf(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  const indent = ' '.repeat(width + 2);
  return rows.map(([left, right]) => `${left.padEnd(width)}  ${right.replaceAll('\n', `\n${indent}`)}\n`).join('');
}
