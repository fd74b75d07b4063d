import { main } from '../../src/main.ts';

/**
 * Runs a command without a process of its own, which would cost most of a second each time, on the store that `env`
 * names; TEST_TERMINAL makes its output a terminal.
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
    isTerminal: env.TEST_TERMINAL === 'yes',
  });
  return { code, stdout, stderr };
}
