import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { audit } from './cli/audit-command.ts';
import { bansList } from './cli/bans/list.ts';
import { completionScript } from './cli/completion.ts';
import { consoleLink } from './cli/console.ts';
import { customersList, customersShow } from './cli/customers/customers-show.ts';
import { customersUsage } from './cli/customers/customers-usage.ts';
import { deprecations } from './cli/deprecations-command.ts';
import { doctor } from './cli/doctor-command.ts';
import { docs } from './cli/documents/docs.ts';
import { explain } from './cli/explain-command.ts';
import { gatewayCheck } from './cli/gateway/gateway-check.ts';
import { importKong } from './cli/import-kong.ts';
import { init } from './cli/init.ts';
import { keysApply } from './cli/keys/apply.ts';
import { keysBackup, keysRestore } from './cli/keys/backup.ts';
import { keysExport } from './cli/keys/export.ts';
import { keysImport } from './cli/keys/keys-import.ts';
import { keysNetworks } from './cli/keys/keys-networks.ts';
import { keysFind, keysList, keysSecrets, keysShow } from './cli/keys/keys-show.ts';
import { now } from './cli/now-command.ts';
import { changesUnder, type Entry } from './cli/operation-commands.ts';
import { pets } from './cli/pets.ts';
import { plansDiff } from './cli/plans/diff.ts';
import { plansHistory } from './cli/plans/history-command.ts';
import { plansCheck } from './cli/plans/plans-check.ts';
import { plansShow } from './cli/plans/plans-show.ts';
import { plansRollback } from './cli/plans/rollback.ts';
import { plansSimulate } from './cli/plans/simulate.ts';
import { routesImport } from './cli/routes/routes-import.ts';
import { schema } from './cli/schema.ts';
import { serve } from './cli/serve.ts';
import { start } from './cli/start.ts';
import { type Command, helpOf, inColumns, parseWords, runParsed, type Terminal } from './cli/terminal/command.ts';
import { commandsMeantBy } from './cli/terminal/meant.ts';
import { withTonedLead } from './cli/terminal/style.ts';
import { traffic } from './cli/traffic-command.ts';
import { usage } from './cli/usage-command.ts';
import { usageExport } from './cli/usage-export.ts';
import { version } from './cli/version.ts';
import { type ExitCode, Failure } from './failure.ts';
import { styleFor } from './io/terminal-text.ts';

/** `tollgate completion`: made of the declarations of all commands, so it is here, where they are known. */
const completion: Command = {
  name: 'completion',
  about: 'Prints a script that completes commands and options in a shell: bash, zsh or fish.',
  positionals: ['SHELL'],
  options: {},
  environment: [],
  examples: ['source <(tollgate completion bash)', 'tollgate completion fish | source'],
  async run({ positionals: [shell] }, terminal) {
    terminal.out(completionScript(shell!, ALL_COMMANDS));
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

/** Every command, in the groups of the help. Those that change something are made of the operations. */
const GROUPS: Readonly<Record<string, readonly Entry[]>> = {
  Run: [
    ['Run the pet service and a gateway before it, to try', start],
    ['Write settings for a gateway before your service', init],
    ['Run the gateway', serve],
    ['Print a link that signs in to the console', consoleLink],
    ['Look at all that the gateway depends on', doctor],
    ['Run the bundled pet service alone', pets],
  ],
  Settings: [
    ['Check all settings as a start does', gatewayCheck],
    ['Write routes of an OpenAPI description', routesImport],
    ['Write settings that do what Kong did', importKong],
    ['Write the JSON Schemas of the settings', schema],
    ['Show the plans, or an earlier version of them', plansShow],
    ['Check plans.yaml', plansCheck],
    ['Compare two files of plans, and name whom it affects', plansDiff],
    ['Replay recorded requests under other plans', plansSimulate],
    ['List the versions that were in force', plansHistory],
    ['Go back to an earlier version', plansRollback],
  ],
  Keys: [
    ...changesUnder('keys'),
    ['List the keys', keysList],
    ['Find the key of a secret', keysFind],
    ['Show a key', keysShow],
    ['Count secrets by pepper and form', keysSecrets],
    ['Show from where a key was called', keysNetworks],
    ['Make keys and customers as a file says', keysApply],
    ['Take in keys that were made elsewhere', keysImport],
    ['Print all keys, without secrets', keysExport],
    ['Write keys and customers to an encrypted file', keysBackup],
    ['Write them back to the store', keysRestore],
  ],
  Customers: [
    ...changesUnder('customers'),
    ['List the customers', customersList],
    ['Show a customer and its keys', customersShow],
    ['List customers by how much they have used', customersUsage],
  ],
  Look: [
    ['List the callers that are refused right now', now],
    ['Explain why a request was refused', explain],
    ['Show requests, errors and latency over time', traffic],
    ['Show what a caller has used', usage],
    ['Print what all callers used, for billing', usageExport],
    ...changesUnder('usage'),
    ['List the bans in force', bansList],
    ...changesUnder('bans'),
    ...changesUnder('cache'),
    ['List who still calls deprecated routes', deprecations],
    ['List who changed what', audit],
  ],
  Help: [
    ['Show the help of a command', help],
    ['List the documents or print one', docs],
    ['Print a completion script for a shell', completion],
    ['Print the version', version],
  ],
};

/** Every command, in the order of the help. */
export const ALL_COMMANDS: readonly Command[] = Object.values(GROUPS).flatMap((entries) =>
  entries.map(([, command]) => command),
);

const COMMANDS: ReadonlyMap<string, Command> = new Map(ALL_COMMANDS.map((command) => [command.name, command]));

/**
 * Runs the command that the arguments name and turns its outcome into an exit code.
 * @returns 0 done, 1 refused or failed, 2 wrong usage (contract section 1)
 */
export async function main(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  try {
    const found = findCommand(args);
    if (found === null) return await answerWithoutCommand(args, terminal);
    const { command } = found;
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
    const command = COMMANDS.get(args.slice(0, length).join(' '));
    if (command !== undefined && args.length >= length) return { command, rest: args.slice(length) };
  }
  return null;
}

function asksForHelp(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return (end === -1 ? args : args.slice(0, end)).some((word) => word === '--help' || word === '-h');
}

async function answerWithoutCommand(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const [first = '', second = ''] = args;
  if (first === '--version') return await main(['version'], terminal);
  const group = namesUnder(`${first} `).length > 0 ? `${first} ` : '';
  if (asksForHelp(args) && (first.startsWith('-') || (group !== '' && /^(-|$)/.test(second)))) {
    terminal.out(overview(group, terminal));
    return 0;
  }
  if (args.length === (group === '' ? 0 : 1)) {
    terminal.error(overview(group, terminal));
    return 2;
  }
  const given = group === '' ? first : `${group}${second}`;
  const { commands, sentence } = commandsMeantBy(args, namesUnder(''));
  const names = commands.map((name) => `\`tollgate ${name}\``).join(' or ');
  const known =
    group === '' ? '`tollgate help` lists the commands.' : `The commands are: ${namesUnder(group).join(', ')}.`;
  const help = names === '' && group === '' ? '' : ` See \`tollgate ${group}--help\`.`;
  const advice = sentence ?? `${names === '' ? known : `Did you mean ${names}?`}${help}`;
  terminal.error(`There is no command '${given}'. ${advice}\n`);
  return 2;
}

const ABOUT = 'Tollgate, an API gateway that holds every caller to the quotas of its plan.';
function namesUnder(prefix: string): string[] {
  return [...COMMANDS.keys()].filter((name) => name.startsWith(prefix));
}

/** The commands whose names begin with `prefix`, in their groups. */
function overview(prefix: string, terminal: Terminal): string {
  const width = Math.max(...namesUnder(prefix).map((name) => name.length));
  const groups = Object.entries(GROUPS).flatMap(([title, entries]) => {
    const rows = entries.flatMap(([line, { name }]) => (name.startsWith(prefix) ? [[name, line] as const] : []));
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
