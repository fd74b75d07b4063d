import { filesOf } from '../../config/settings.ts';
import type { ExitCode } from '../../failure.ts';
import { type CheckedSettings, checkSettings } from '../../serve/check-settings.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { OF_GATEWAY } from '../terminal/variables.ts';

const STRICT_ABOUT = 'Warnings make the exit code 1 too.';

/** `tollgate gateway check`: makes the checks of a start, and starts nothing. */
export const gatewayCheck: Command = {
  name: 'gateway check',
  about:
    'Checks all settings as a start of the gateway does, and starts nothing: gateway.yaml, plans.yaml, the environment, and the ' +
    'certificates, keys and admin tokens that they name. Reports every fault ' +
    'of both files and the environment, and once gateway.yaml and the environment have none, those of the files that they name.',
  positionals: ['[FILE]'],
  environment: OF_GATEWAY,
  options: {
    strict: { type: 'boolean', about: STRICT_ABOUT },
    json: {
      type: 'boolean',
      about: 'Prints one JSON object: gateway, plans, valid, faults, warnings; the last two are lists of texts.',
    },
  },
  examples: ['tollgate gateway check', 'tollgate gateway check new-gateway.yaml --strict'],
  run({ options, positionals: [file] }, terminal) {
    const env = file === undefined ? terminal.env : { ...terminal.env, TOLLGATE_CONFIG: file };
    return printCheck(env, { isStrict: options.strict === true, isJson: options.json === true }, terminal);
  },
};

/** Checks the settings and prints what was found. */
export async function printCheck(
  env: NodeJS.ProcessEnv,
  { isStrict, isJson }: { readonly isStrict: boolean; readonly isJson: boolean },
  terminal: Terminal,
): Promise<ExitCode> {
  const checked = await checkSettings(env);
  const { faults, warnings } = checked;
  const [gateway, plans] = filesOf(env);
  if (isJson) {
    terminal.out(`${JSON.stringify({ gateway, plans, valid: faults.length === 0, faults, warnings }, null, 2)}\n`);
  } else {
    for (const fault of faults) terminal.error(`${fault}\n`);
    for (const warning of warnings) terminal.error(`warning: ${warning}\n`);
    if (faults.length === 0) terminal.out(summaryOf(checked, gateway, plans));
  }
  return faults.length > 0 || (isStrict && warnings.length > 0) ? 1 : 0;
}

/** Two lines for settings without faults. */
export function summaryOf({ configuration }: CheckedSettings, gateway: string, plans: string): string {
  const { settings, plans: inForce } = configuration!;
  const { routes, upstreams, listen, admin } = settings;
  const counted = (count: number, one: string) => `${count} ${one}${count === 1 ? '' : 's'}`;
  const services = upstreams.size === 0 ? '' : ` (${[...upstreams.keys()].join(', ')})`;
  return (
    `${gateway}: ${counted(routes.length, 'route')}, ${counted(upstreams.size, 'upstream')}${services}, ` +
    `clients on ${listen.host}:${listen.port}${listen.tls === null ? '' : ' with TLS'}, admin on ${admin.host}:${admin.port}.\n` +
    `${plans}: ${counted(inForce.plans.size, 'plan')} (${[...inForce.plans.keys()].join(', ')}).\n`
  );
}
