import type { ExitCode } from '../../failure.ts';
import { PLAIN } from '../../io/terminal-text.ts';
import { TerminalLog, type TerminalLogOptions } from '../../telemetry/terminal-log.ts';
import type { Option, Terminal, Words } from './command.ts';

// How the commands that run a gateway print its log: as JSON, or on a terminal as rows for people.

/** The option of both commands. */
export const JSON_LOG: Option = {
  type: 'boolean',
  about:
    'Prints the log as JSON on a terminal too, as it is printed elsewhere. Without it a terminal gets a row for each request.',
};

/** The levels at which every request has a line. */
const LEVELS_OF_REQUESTS = ['trace', 'debug', 'info'];

/**
 * Runs a gateway and prints its log.
 * @param run gets the terminal that shows the log, or null if standard output gets it as JSON. Its gateway has ended when it
 *   resolves.
 */
export async function withLog(
  { isTerminal, ...terminal }: Pick<Terminal, 'isTerminal' | 'size' | 'style'>,
  { options }: Words,
  { logLevel, hintFor = () => null }: { readonly logLevel: string } & Pick<TerminalLogOptions, 'hintFor'>,
  run: (log: TerminalLog | null) => Promise<ExitCode>,
): Promise<ExitCode> {
  if (!isTerminal || options.json === true) return run(null);
  const log = new TerminalLog({
    fd: process.stdout.fd,
    size: terminal.size ?? (() => ({ columns: 80, rows: 24 })),
    style: terminal.style ?? PLAIN,
    hasAllRequests: LEVELS_OF_REQUESTS.includes(logLevel),
    monotonicMs: () => performance.now(),
    hintFor,
  });
  try {
    const code = await run(log);
    await log.end();
    return code;
  } finally {
    await log.close();
  }
}
