import { Failure } from '../../src/failure.ts';

export interface Program<O> {
  /**
   * @param args the words after `npm run NAME --`
   * @returns null where the help is asked for
   * @throws Failure `bad_usage`
   */
  readonly readOptions: (args: readonly string[]) => O | null;
  readonly help: () => string;
  /** @param interrupted aborted by the first Ctrl-C: what has been found until then is still told */
  readonly run: (options: O, interrupted: AbortSignal) => Promise<0 | 1>;
}

/** Runs a program of tools/: 0 all is well, 1 it is not, 2 wrong usage. */
export async function runProgram<O>({ readOptions, help, run }: Program<O>): Promise<void> {
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      // The second one is meant: what was started ends with this process in any case.
      if (interrupted.signal.aborted) process.exit(1);
      interrupted.abort();
    });
  }
  try {
    const options = readOptions(process.argv.slice(2));
    if (options === null) process.stdout.write(help());
    else process.exitCode = await run(options, interrupted.signal);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = error.code === 'bad_usage' ? 2 : 1;
  }
}
