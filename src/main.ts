import {
  type Command,
  helpOf,
  inColumns,
  meantBy,
  parseWords,
  runParsed,
  type Terminal,
} from './cli/terminal/command.ts';
import { withTonedLead } from './cli/terminal/style.ts';
import { type ExitCode, Failure } from './failure.ts';
import { styleFor } from './io/terminal-text.ts';

/** A command of the overview, and its module, which is imported only when the command runs. */
type Entry = readonly [line: string, load: () => Promise<Command>];

/** Every command by its name, in the groups of the help, with a line of at most 52 characters. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, Entry>>>> = {
  Run: {
    start: ['Run the pet service and a gateway before it, to try', async () => (await import('./cli/start.ts')).start],
    init: ['Write settings for a gateway before your service', async () => (await import('./cli/init.ts')).init],
    serve: ['Run the gateway', async () => (await import('./cli/serve.ts')).serve],
    console: ['Print a link that signs in to the console', async () => (await import('./cli/console.ts')).consoleLink],
    doctor: ['Look at all that the gateway depends on', async () => (await import('./cli/doctor.ts')).doctor],
    pets: ['Run the bundled pet service alone', async () => (await import('./cli/pets.ts')).pets],
  },
  Settings: {
    'gateway check': [
      'Check all settings as a start does',
      async () => (await import('./cli/gateway/check.ts')).gatewayCheck,
    ],
    'routes import': [
      'Write routes of an OpenAPI description',
      async () => (await import('./cli/routes/import.ts')).routesImport,
    ],
    schema: ['Write the JSON Schemas of the settings', async () => (await import('./cli/schema.ts')).schema],
    'plans show': [
      'Show the plans, or an earlier version of them',
      async () => (await import('./cli/plans/show.ts')).plansShow,
    ],
    'plans check': ['Check plans.yaml', async () => (await import('./cli/plans/check.ts')).plansCheck],
    'plans diff': [
      'Compare two files of plans, and name whom it affects',
      async () => (await import('./cli/plans/diff.ts')).plansDiff,
    ],
    'plans simulate': [
      'Replay recorded requests under other plans',
      async () => (await import('./cli/plans/simulate.ts')).plansSimulate,
    ],
    'plans history': [
      'List the versions that were in force',
      async () => (await import('./cli/plans/history.ts')).plansHistory,
    ],
    'plans rollback': [
      'Go back to an earlier version',
      async () => (await import('./cli/plans/rollback.ts')).plansRollback,
    ],
  },
  Keys: {
    'keys create': [
      'Make a key and show its secret once',
      async () => (await import('./cli/keys/create.ts')).keysCreate,
    ],
    'keys list': ['List the keys', async () => (await import('./cli/keys/show.ts')).keysList],
    'keys find': ['Find the key of a secret', async () => (await import('./cli/keys/find.ts')).keysFind],
    'keys show': ['Show a key', async () => (await import('./cli/keys/show.ts')).keysShow],
    'keys update': [
      'Change a key: plan, limits, name, end, who may call',
      async () => (await import('./cli/keys/change.ts')).keysUpdate,
    ],
    'keys topup': ['Add to a limit for a while', async () => (await import('./cli/usage-changes.ts')).keysTopUp],
    'keys undo-topup': ['Take a top-up back', async () => (await import('./cli/usage-changes.ts')).keysUndoTopUp],
    'keys rotate': ['Give a key a new secret', async () => (await import('./cli/keys/change.ts')).keysRotate],
    'keys end-secret': ['End one of several secrets', async () => (await import('./cli/keys/change.ts')).keysEndSecret],
    'keys suspend': ['Suspend a key', async () => (await import('./cli/keys/change.ts')).keysSuspend],
    'keys resume': ['End the suspension of a key', async () => (await import('./cli/keys/change.ts')).keysResume],
    'keys revoke': ['Revoke a key for good', async () => (await import('./cli/keys/change.ts')).keysRevoke],
    'keys delete': ['Remove a revoked or expired key', async () => (await import('./cli/keys/change.ts')).keysDelete],
    'keys move': [
      'Move a key to a customer, or away from one',
      async () => (await import('./cli/keys/change.ts')).keysMove,
    ],
    'keys apply': [
      'Make keys and customers as a file says',
      async () => (await import('./cli/keys/apply.ts')).keysApply,
    ],
    'keys import': [
      'Take in keys that were made elsewhere',
      async () => (await import('./cli/keys/import.ts')).keysImport,
    ],
    'keys export': ['Print all keys, without secrets', async () => (await import('./cli/keys/export.ts')).keysExport],
    'keys backup': [
      'Write keys and customers to an encrypted file',
      async () => (await import('./cli/keys/backup.ts')).keysBackup,
    ],
    'keys restore': ['Write them back to the store', async () => (await import('./cli/keys/backup.ts')).keysRestore],
  },
  Customers: {
    'customers create': [
      'Make a customer, whose keys share a plan',
      async () => (await import('./cli/customers/change.ts')).customersCreate,
    ],
    'customers list': ['List the customers', async () => (await import('./cli/customers/show.ts')).customersList],
    'customers show': [
      'Show a customer and its keys',
      async () => (await import('./cli/customers/show.ts')).customersShow,
    ],
    'customers edit': ['Change a customer', async () => (await import('./cli/customers/change.ts')).customersEdit],
    'customers topup': [
      'Add to a shared limit for a while',
      async () => (await import('./cli/usage-changes.ts')).customersTopUp,
    ],
    'customers undo-topup': [
      'Take a top-up back',
      async () => (await import('./cli/usage-changes.ts')).customersUndoTopUp,
    ],
    'customers suspend': [
      'Suspend a customer with all its keys',
      async () => (await import('./cli/customers/change.ts')).customersSuspend,
    ],
    'customers resume': [
      'End the suspension of a customer',
      async () => (await import('./cli/customers/change.ts')).customersResume,
    ],
    'customers delete': ['Remove a customer', async () => (await import('./cli/customers/change.ts')).customersDelete],
  },
  Look: {
    now: ['List the callers that are refused right now', async () => (await import('./cli/now.ts')).now],
    usage: ['Show what a caller has used', async () => (await import('./cli/usage.ts')).usage],
    'usage export': [
      'Print what all callers used, for billing',
      async () => (await import('./cli/usage-export.ts')).usageExport,
    ],
    'usage reset': [
      'Set what a key has used to nothing',
      async () => (await import('./cli/usage-changes.ts')).usageReset,
    ],
    'bans list': ['List the bans in force', async () => (await import('./cli/bans/list.ts')).bansList],
    'bans lift': ['Lift a ban', async () => (await import('./cli/usage-changes.ts')).bansLift],
    deprecations: [
      'List who still calls deprecated routes',
      async () => (await import('./cli/deprecations.ts')).deprecations,
    ],
    audit: ['List who changed what', async () => (await import('./cli/audit.ts')).audit],
  },
  Help: {
    help: ['Show the help of a command', async () => help],
    docs: ['List the documents or print one', async () => (await import('./cli/documents/docs.ts')).docs],
    completion: ['Print a completion script for a shell', async () => completion],
    version: ['Print the version', async () => (await import('./cli/version.ts')).version],
  },
};

const COMMANDS: Readonly<Record<string, Entry>> = Object.assign({}, ...Object.values(GROUPS));

/** Every command, in the order of the help. */
export function allCommands(): Promise<Command[]> {
  return Promise.all(Object.values(COMMANDS).map(([, load]) => load()));
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
    main(positionals.length === 0 ? ['--help'] : [...positionals, '--help'], terminal),
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
      terminal.out(helpOf(command, terminal));
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
    const entry = COMMANDS[args.slice(0, length).join(' ')];
    if (entry !== undefined && args.length >= length) return { load: entry[1], rest: args.slice(length) };
  }
  return null;
}

/** What people look for under another name. */
const HINTS: ReadonlyMap<string, string> = new Map([
  ['logs', 'The log is on the standard output of the gateway, one JSON object a line.'],
  ['log', 'The log is on the standard output of the gateway, one JSON object a line.'],
  ['reload', 'A gateway reads changed files by itself, and at once when it gets SIGHUP.'],
  ['stop', 'Send SIGTERM to the gateway: it finishes what is under way and ends.'],
  ['explain', '`tollgate console` opens Explain; for programs there is GET /admin/refusals/ID on the admin port.'],
  ['status', '`tollgate doctor` looks at all that a gateway depends on, and `tollgate now` lists who is refused.'],
  ['run', '`tollgate serve` runs the gateway; `tollgate start` also runs a service to try it with.'],
  ['server', '`tollgate serve` runs the gateway; `tollgate start` also runs a service to try it with.'],
  ['start-server', '`tollgate serve` runs the gateway; `tollgate start` also runs a service to try it with.'],
]);

function asksForHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return (end === -1 ? args : args.slice(0, end)).some((word) => word === '--help' || word === '-h');
}

async function answerWithoutCommand(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const [first, second] = args;
  if (first === undefined) {
    terminal.error(overview('', terminal));
    return 2;
  }
  const isGroup = Object.keys(COMMANDS).some((name) => name.startsWith(`${first} `));
  if (first === '--version') return await main(['version'], terminal);
  const hasSecond = second !== undefined && !second.startsWith('-');
  if (asksForHelp(args) && (first.startsWith('-') || (isGroup && !hasSecond))) {
    terminal.out(overview(isGroup ? `${first} ` : '', terminal));
    return 0;
  }
  const given = args.slice(0, isGroup && hasSecond ? 2 : 1).join(' ');
  const known = isGroup
    ? namesUnder(`${first} `)
    : [...new Set(namesUnder('').flatMap((name) => [name, name.split(' ')[0]!]))];
  // `tollgate key create` has its second word right.
  const meant = meantBy(args.slice(0, 2).join(' '), known) ?? meantBy(given, known);
  const advice = HINTS.get(given);
  if (advice !== undefined) {
    terminal.error(`There is no command '${given}'. ${advice}\n`);
    return 2;
  }
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

const ABOUT = 'Tollgate, an API gateway that holds every caller to the quotas of its plan.';
function namesUnder(prefix: string): string[] {
  return Object.keys(COMMANDS).filter((name) => name.startsWith(prefix));
}

/** The commands whose names begin with `prefix`, in their groups. */
function overview(prefix: string, terminal: Terminal): string {
  const width = Math.max(...namesUnder(prefix).map((name) => name.length));
  const groups = Object.entries(GROUPS).flatMap(([title, entries]) => {
    const rows = Object.entries(entries).flatMap(([name, [line]]) =>
      name.startsWith(prefix) ? [[name, line] as const] : [],
    );
    return rows.length === 0 ? [] : [`${title}:\n${inColumns(rows, terminal, width)}`];
  });
  const begin = 'To try it: `tollgate start`. Before a service of yours: `tollgate init`.\n';
  return (
    `${ABOUT}\n\nUsage: tollgate ${prefix}COMMAND [options]\n\n${groups.join('\n')}\n` +
    `${prefix === '' ? begin : ''}\`tollgate help ${prefix}COMMAND\` shows the options of each.\n`
  );
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
