import { type Configuration, loadConfiguration } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import type { Command } from './command.ts';
import { runGateway } from './run-gateway.ts';
import { untilSignalled } from './signals.ts';

/** `tollgate serve`: the gateway alone (contract section 1). */
export const serve: Command = {
  name: 'serve',
  about: 'Runs the gateway alone, by config/gateway.yaml, plans.yaml and the environment, until SIGTERM or SIGINT.',
  positionals: [],
  options: {},
  async run(_words, terminal) {
    const signalled = untilSignalled();
    const gateway = await runGateway(configurationFrom(terminal.env), terminal.env);
    await signalled;
    await gateway.stop();
    return 0;
  },
};

/** @throws Failure `bad_settings` with every fault on a line of its own */
export function configurationFrom(env: NodeJS.ProcessEnv): Configuration {
  const configuration = loadConfiguration(env);
  if ('faults' in configuration) throw new Failure('bad_settings', configuration.faults.join('\n'));
  return configuration;
}
