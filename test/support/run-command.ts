import { main } from '../../src/main.ts';
import { ROOM } from './room.ts';

/**
 * Runs a command without a process of its own, which would cost most of a second each time, on the store that `env`
 * names; TEST_TERMINAL makes its output a terminal, of TEST_COLUMNS columns if that is set, and TEST_INPUT is on its standard input.
 */
export async function runCommand(env: NodeJS.ProcessEnv, ...args: string[]) {
  let stdout = '';
  let stderr = '';
  const code = await main(args, {
    env,
    out: (text) => {
      stdout += text;
    },
    error: (text) => {
      stderr += text;
    },
    hiddenInput: async () => env.TEST_INPUT ?? '',
    isTerminal: env.TEST_TERMINAL === 'yes',
    answerWithinMs: 5_000 * ROOM,
    ...(env.TEST_COLUMNS === undefined ? {} : { columns: Number(env.TEST_COLUMNS) }),
    ...(env.TEST_TERMINAL === 'yes' ? { question: async () => env.TEST_INPUT ?? '' } : {}),
  });
  return { code, stdout, stderr };
}

/** The entries of a list that a command printed with `--json`. */
export function entriesOf(stdout: string) {
  return Object.values(JSON.parse(stdout))[0] as ReturnType<typeof JSON.parse>;
}
