import { runCommand } from '../../support/run-command.ts';

/** What a command prints with `--json`; an Error with its complaint when it fails. */
export async function jsonOf(env: Readonly<Record<string, string>>, ...args: string[]) {
  const { code, stdout, stderr } = await runCommand(env, ...args, '--json');
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

export const createKey = (env: Readonly<Record<string, string>>, plan: string) =>
  jsonOf(env, 'keys', 'create', '--plan', plan) as Promise<{ readonly id: string; readonly key: string }>;
