import { type Configuration, loadConfiguration } from '../config/settings.ts';
import { Failure } from '../failure.ts';

/** @throws Failure `bad_settings` with every fault on a line of its own */
export function configurationFrom(env: NodeJS.ProcessEnv): Configuration {
  const configuration = loadConfiguration(env);
  if ('faults' in configuration) throw new Failure('bad_settings', configuration.faults.join('\n'));
  return configuration;
}
