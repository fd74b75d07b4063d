import { type Command, helpOf, inColumns, parseWords, runParsed, type Terminal } from './cli/terminal/command.ts';
import { meantBy } from './cli/terminal/did-you-mean.ts';
import { withTonedLead } from './cli/terminal/style.ts';
import { type ExitCode, Failure } from './failure.ts';
import { styleFor } from './io/terminal-text.ts';

/** Every command by its name. The module of a command is imported only when the command runs. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import('./cli/serve.ts')).serve,
  init: async () => (await import('./cli/init.ts')).init,
  start: async () => (await import('./cli/start.ts')).start,
  pets: async () => (await import('./cli/pets.ts')).pets,
  'keys create': async () => (await import('./cli/keys/create.ts')).keysCreate,
  'keys list': async () => (await import('./cli/keys/show.ts')).keysList,
  'keys find': async () => (await import('./cli/keys/find.ts')).keysFind,
  'keys show': async () => (await import('./cli/keys/show.ts')).keysShow,
  'keys rotate': async () => (await import('./cli/keys/change.ts')).keysRotate,
  'keys end-secret': async () => (await import('./cli/keys/change.ts')).keysEndSecret,
  'keys suspend': async () => (await import('./cli/keys/change.ts')).keysSuspend,
  'keys resume': async () => (await import('./cli/keys/change.ts')).keysResume,
  'keys revoke': async () => (await import('./cli/keys/change.ts')).keysRevoke,
  'keys delete': async () => (await import('./cli/keys/change.ts')).keysDelete,
  'keys update': async () => (await import('./cli/keys/change.ts')).keysUpdate,
  'keys move': async () => (await import('./cli/keys/change.ts')).keysMove,
  'keys topup': async () => (await import('./cli/usage-changes.ts')).keysTopUp,
  'keys undo-topup': async () => (await import('./cli/usage-changes.ts')).keysUndoTopUp,
  'keys apply': async () => (await import('./cli/keys/apply.ts')).keysApply,
  'keys import': async () => (await import('./cli/keys/import.ts')).keysImport,
  'keys export': async () => (await import('./cli/keys/export.ts')).keysExport,
  'keys backup': async () => (await import('./cli/keys/backup.ts')).keysBackup,
  'keys restore': async () => (await import('./cli/keys/backup.ts')).keysRestore,
  'customers create': async () => (await import('./cli/customers/change.ts')).customersCreate,
  'customers list': async () => (await import('./cli/customers/show.ts')).customersList,
  'customers show': async () => (await import('./cli/customers/show.ts')).customersShow,
  'customers edit': async () => (await import('./cli/customers/change.ts')).customersEdit,
  'customers topup': async () => (await import('./cli/usage-changes.ts')).customersTopUp,
  'customers undo-topup': async () => (await import('./cli/usage-changes.ts')).customersUndoTopUp,
  'customers suspend': async () => (await import('./cli/customers/change.ts')).customersSuspend,
  'customers resume': async () => (await import('./cli/customers/change.ts')).customersResume,
  'customers delete': async () => (await import('./cli/customers/change.ts')).customersDelete,
  doctor: async () => (await import('./cli/doctor.ts')).doctor,
  'gateway check': async () => (await import('./cli/gateway/check.ts')).gatewayCheck,
  'plans show': async () => (await import('./cli/plans/show.ts')).plansShow,
  'plans check': async () => (await import('./cli/plans/check.ts')).plansCheck,
  'plans diff': async () => (await import('./cli/plans/diff.ts')).plansDiff,
  'plans history': async () => (await import('./cli/plans/history.ts')).plansHistory,
  'plans rollback': async () => (await import('./cli/plans/rollback.ts')).plansRollback,
  'plans simulate': async () => (await import('./cli/plans/simulate.ts')).plansSimulate,
  'routes import': async () => (await import('./cli/routes/import.ts')).routesImport,
  'bans list': async () => (await import('./cli/bans/list.ts')).bansList,
  'bans lift': async () => (await import('./cli/usage-changes.ts')).bansLift,
  audit: async () => (await import('./cli/audit.ts')).audit,
  usage: async () => (await import('./cli/usage.ts')).usage,
  'usage reset': async () => (await import('./cli/usage-changes.ts')).usageReset,
  'usage export': async () => (await import('./cli/usage-export.ts')).usageExport,
  console: async () => (await import('./cli/console.ts')).consoleLink,
  now: async () => (await import('./cli/now.ts')).now,
  deprecations: async () => (await import('./cli/deprecations.ts')).deprecations,
  schema: async () => (await import('./cli/schema.ts')).schema,
  completion: async () => completion,
  help: async () => help,
  version: async () => (await import('./cli/version.ts')).version,
};

/** Every command, in the order of the help. */
export function allCommands(): Promise<Command[]> {
  return Promise.all(Object.values(COMMANDS).map((load) => load()));
}

/** `tollgate completion`: made of the declarations of all commands, so it is here, where they are known. */
const completion: Command = {
  name: 'completion',
  about: 'Prints a script that completes commands and options in a shell: bash, zsh or fish.',
  positionals: ['SHELL'],
  options: {},
  environment: [],
  examples: ['source <(tollgate completion bash)', 'tollgate completion fish | source'],
  async run({ positionals: [shell] }, terminal) {
    const { completionScript } = await import('./cli/completion.ts');
    terminal.out(completionScript(shell!, await allCommands()));
    return 0;
  },
};

const help: Command = {
  name: 'help',
  about: 'Lists the commands, or shows the help of one.',
  positionals: ['[COMMAND]', '[WORD]'],
  options: {},
  environment: [],
  examples: ['tollgate help', 'tollgate help keys create'],
  run: ({ positionals }, terminal) =>
    positionals.length === 0 ? printOverview('', terminal) : main([...positionals, '--help'], terminal),
};

/**
 * Runs the command that the arguments name and turns its outcome into an exit code.
 * @returns 0 done, 1 refused or failed, 2 wrong usage (contract section 1)
 */
export async function main(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  try {
    const found = findCommand(args);
    if (found === null) return await answerWithoutCommand(args, terminal);
    const command = await found.load();
    if (asksForHelp(found.rest)) {
      terminal.out(helpOf(command));
      return 0;
    }
    return await runParsed(command, parseWords(command, found.rest), terminal);
  } catch (error) {
    if (!(error instanceof Failure)) {
      terminal.error(`${defectText(error)}\n`);
      return 1;
    }
    terminal.error(`${error.message}\n`);
    return error.code === 'bad_usage' ? 2 : 1;
  }
}

/** What a command prints for an error that it did not expect: the first line of it and where it arose, for a report. */
function defectText(error: unknown): string {
  const { message, stack = '' } = error instanceof Error ? error : { message: String(error) };
  const place = /\/((?:src|node_modules)\/[^\s()]+:\d+:\d+)/.exec(stack.slice(stack.indexOf('\n    at ')))?.[1];
  const at = place === undefined ? '' : ` (${place})`;
  const reason = message.split('\n', 1)[0]!.replace(/[.\s]+$/, '');
  return `Tollgate has a defect, and the command failed: ${reason}${at}. Please report this with the command and \`tollgate version\`.`;
}

function findCommand(args: readonly string[]) {
  for (const length of [2, 1]) {
    const load = COMMANDS[args.slice(0, length).join(' ')];
    if (load !== undefined && args.length >= length) return { load, rest: args.slice(length) };
  }
  return null;
}

function asksForHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return (end === -1 ? args : args.slice(0, end)).some((word) => word === '--help' || word === '-h');
}

async function answerWithoutCommand(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const [first, second] = args;
  if (first === undefined) {
    terminal.error(shortHelp());
    return 2;
  }
  const isGroup = Object.keys(COMMANDS).some((name) => name.startsWith(`${first} `));
  if (first === '--version') return await main(['version'], terminal);
  const hasSecond = second !== undefined && !second.startsWith('-');
  if (asksForHelp(args) && (first.startsWith('-') || (isGroup && !hasSecond))) {
    return printOverview(isGroup ? `${first} ` : '', terminal);
  }
  const given = args.slice(0, isGroup && hasSecond ? 2 : 1).join(' ');
  const known = isGroup
    ? namesUnder(`${first} `)
    : [...new Set(namesUnder('').flatMap((name) => [name, name.split(' ')[0]!]))];
  // `tollgate key create` has its second word right.
  const meant = meantBy(args.slice(0, 2).join(' '), known) ?? meantBy(given, known);
  const wrong = isGroup && !hasSecond ? `\`tollgate ${first}\` needs another word.` : `There is no command '${given}'.`;
  const help = `See \`tollgate${isGroup ? ` ${first}` : ''} --help\`.`;
  const hint =
    meant === null
      ? isGroup
        ? `The commands are: ${namesUnder(`${first} `).join(', ')}. ${help}`
        : '`tollgate help` lists the commands.'
      : `Did you mean \`tollgate ${meant}\`? ${help}`;
  terminal.error(`${wrong} ${hint}\n`);
  return 2;
}

/** What `tollgate` alone prints: the names of all commands, in groups, and where to begin. */
function shortHelp(): string {
  const groups = Object.entries(Object.groupBy(Object.keys(COMMANDS), (name) => name.split(' ')[0]!));
  const rows = groups.flatMap(([first, names = []]): [string, string][] => {
    const seconds = names.filter((name) => name !== first).map((name) => name.slice(first.length + 1));
    return seconds.length === 0 ? [] : [[first, seconds.join(', ')]];
  });
  const alone = groups.flatMap(([first, names = []]) => (names.includes(first) ? [first] : []));
  return (
    `${ABOUT}\n\nUsage: tollgate COMMAND [options]\n\n` +
    `${wrapped(alone.join(', '), '  ')}\n\n${rows.map(([first, seconds]) => `${wrapped(seconds, `  ${first.padEnd(9)}`)}\n`).join('')}\n` +
    'To try it: `tollgate start`. Before a service of yours: `tollgate init`.\n' +
    '`tollgate help` says what each command does.\n'
  );
}

const ABOUT = 'Tollgate, an API gateway that holds every caller to the quotas of its plan.';
/** Columns of the narrowest usual terminal. */
const WIDTH = 80;

/** A text in lines of at most 80 columns; those after the first are indented as far as `lead` is long. */
function wrapped(text: string, lead: string): string {
  const lines = [lead];
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!;
    if (line.length + word.length <= WIDTH) lines[lines.length - 1] = `${line}${word} `;
    else lines.push(`${' '.repeat(lead.length)}${word} `);
  }
  return lines.map((line) => line.trimEnd()).join('\n');
}

function namesUnder(prefix: string): string[] {
  return Object.keys(COMMANDS).filter((name) => name.startsWith(prefix));
}

/** Prints the commands whose names begin with `prefix`. */
async function printOverview(prefix: string, terminal: Terminal): Promise<ExitCode> {
  const rows = await Promise.all(
    namesUnder(prefix).map(async (name) => [name, (await COMMANDS[name]!()).about] as const),
  );
  terminal.out(
    `${ABOUT}\n\nUsage: tollgate ${prefix}COMMAND [options]\n\n` +
      `Commands:\n${inColumns(rows)}\n\`tollgate help ${prefix}COMMAND\` tells the options of each.\n`,
  );
  return 0;
}

/** Asks the person at the terminal. Resolves to null if the person closes the input (Ctrl-C, Ctrl-D). */
async function question(text: string): Promise<string | null> {
  const { createInterface } = await import('node:readline/promises');
  // The question goes to standard error, because another program may read standard output.
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const ended = new Promise<null>((resolve) => lines.once('close', () => resolve(null)));
  try {
    return await Promise.race([lines.question(text), ended]);
  } finally {
    lines.close();
  }
}

const MAX_INPUT = 65_536;

/** Reads standard input to its end; on a terminal one line, which is not shown. */
async function hiddenInput(prompt: string): Promise<string> {
  if (process.stdin.isTTY === true) return hiddenLine(prompt);
  let text = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk;
    if (text.length > MAX_INPUT) throw new Failure('refused', 'Standard input is longer than 64 KiB.');
  }
  return text;
}

async function hiddenLine(prompt: string): Promise<string> {
  const [{ createInterface }, { Writable }] = await Promise.all([
    import('node:readline/promises'),
    import('node:stream'),
  ]);
  process.stderr.write(prompt);
  // What readline would echo goes nowhere.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
  try {
    return await Promise.race([lines.question(''), ended]);
  } finally {
    lines.close();
    process.stderr.write('\n');
  }
}

/** Resolves when the stream has flushed everything that was written to it, or its reader has gone. */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write('', () => resolve());
  });
}

/** Runs the command in the arguments of this process, and ends with its exit code. */
export async function runProcess(): Promise<void> {
  // The reader may close the pipe early, as in `tollgate keys list | head`. The command then ends without a stack trace.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    // A full disk, for example. What is printed comes last: the change that it is about was made and recorded.
    process.stderr.write(
      `Standard output cannot be written, and output is lost: ${error.message}. ` +
        'If the command was to change something, it has done so: see `tollgate audit`. A secret that is lost is replaced by `tollgate keys rotate KEY_ID`.\n',
    );
    process.exit(1);
  });
  // A command keeps running when standard error is closed.
  process.stderr.on('error', () => {});
  const errorStyle = styleFor(process.stderr, process.env);
  process.exitCode = await main(process.argv.slice(2), {
    env: process.env,
    out: (text) => process.stdout.write(text),
    error: (text) => process.stderr.write(withTonedLead(text, errorStyle)),
    style: styleFor(process.stdout, process.env),
    flushed: () => flushed(process.stdout),
    isTerminal: process.stdout.isTTY === true,
    columns: process.stdout.columns || null,
    size: () => ({ columns: process.stdout.columns || 80, rows: process.stdout.rows || 24 }),
    question: process.stdin.isTTY === true ? question : null,
    hiddenInput,
  });
  // A pipe holds 64 KiB, and its reader may pause for any time. If the process ended before the rest was flushed, an export
  // would be truncated although its exit code is 0. A command that handles SIGTERM ends because an operator stopped it,
  // and does not wait for the reader of its log.
  const runsUntilSignalled = process.listenerCount('SIGTERM') > 0;
  if (!runsUntilSignalled) await Promise.all([flushed(process.stdout), flushed(process.stderr)]);
  // A library may still hold a timer or a socket open, for example to a trace collector that does not answer.
  setTimeout(() => process.exit(), 500).unref();
}

if (import.meta.main) await runProcess();
