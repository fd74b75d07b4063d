import type { ExitCode } from '../failure.ts';
import { wrapped } from '../io/text-width.ts';
import { examine, type Finding } from '../serve/doctor.ts';
import type { Command, Terminal } from './terminal/command.ts';
import { tonedStatus } from './terminal/style.ts';
import { OF_GATEWAY } from './terminal/variables.ts';

/** `tollgate doctor`: looks at everything on which a gateway with these settings depends. */
export const doctor: Command = {
  name: 'doctor',
  about:
    'Looks at all that a gateway with these settings depends on, and changes nothing: settings, Node.js, the store with its version, ' +
    'persistence, memory, rights, clock and pepper, every key and customer, the targets, certificates and open files. Prints a line for each, with what to do.',
  positionals: [],
  environment: OF_GATEWAY,
  options: {
    strict: { type: 'boolean', about: 'Warnings make the exit code 1 too.' },
    json: {
      type: 'boolean',
      about:
        'Prints {"state","findings"}: state is the worst; each finding has check, state (ok, warn or fail) and message.',
    },
  },
  examples: ['tollgate doctor', 'REDIS_URL=redis://127.0.0.1:6379 KEY_PEPPER_FILE=pepper tollgate doctor --json'],
  async run({ options }, terminal) {
    const findings: Finding[] = [];
    for await (const finding of examine(terminal.env, () => Date.now())) {
      findings.push(finding);
      if (options.json !== true) terminal.out(lineOf(finding, terminal));
    }
    const worst = (['fail', 'warn', 'ok'] as const).find((state) =>
      findings.some((finding) => finding.state === state),
    )!;
    if (options.json === true) terminal.out(`${JSON.stringify({ state: worst, findings }, null, 2)}\n`);
    const isBad = worst === 'fail' || (worst === 'warn' && options.strict === true);
    return (isBad ? 1 : 0) satisfies ExitCode;
  },
};

const INDENT = ' '.repeat(19);
/** A terminal with less room for the message breaks the lines itself. */
const MIN_WIDTH = 20;

/** A message may have several faults, each on a line of its own. On a terminal lines are broken between words, and indented. */
function lineOf({ check, state, message }: Finding, { isTerminal, columns, style }: Terminal): string {
  const room = (isTerminal && columns ? columns : 0) - INDENT.length;
  const lines = message.split('\n').flatMap((line) => (room < MIN_WIDTH ? [line] : wrapped(line, room)));
  const shown = tonedStatus(state, style) + ' '.repeat(4 - state.length);
  return `${shown}  ${check.padEnd(11)}  ${lines.join(`\n${INDENT}`)}\n`;
}
