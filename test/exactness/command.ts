import { main } from '../../src/main.ts';

/** Runs a command without a process of its own, which would cost most of a second each time. */
export async function command(env: Readonly<Record<string, string>>, ...args: string[]) {
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
    isTerminal: false,
  });
  return { code, stdout, stderr };
}

/** What a command prints with `--json`; an Error with its complaint when it fails. */
export async function jsonOf(env: Readonly<Record<string, string>>, ...args: string[]) {
  const { code, stdout, stderr } = await command(env, ...args, '--json');
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

export const createKey = (env: Readonly<Record<string, string>>, plan: string) =>
  jsonOf(env, 'keys', 'create', '--plan', plan) as Promise<{ readonly id: string; readonly key: string }>;
