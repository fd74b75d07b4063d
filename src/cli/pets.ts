import { join } from 'node:path';
import { Failure } from '../failure.ts';
import { type PetsSettings, startPets } from '../pets/server.ts';
import { untilSignalled } from '../serve/run-until-signal.ts';
import type { Command } from './terminal/command.ts';

/** `tollgate pets`: the pet service alone (contract section 1). Runs until SIGTERM or SIGINT, then drains. */
export const pets: Command = {
  name: 'pets',
  about:
    'Runs the bundled pet service alone. It asks for no key: loopback or an internal network only. ' +
    'Reads PORT (default 9000), HOST (127.0.0.1) and TOLLGATE_DATA (./data).',
  positionals: [],
  environment: ['PORT', 'HOST', 'TOLLGATE_DATA'],
  examples: ['tollgate pets', 'PORT=9001 tollgate pets'],
  options: {},
  async run(_words, terminal) {
    const settings = settingsFrom(terminal.env);
    const service = await startPets({
      ...settings,
      report: (error) => terminal.error(`${error instanceof Error ? error.stack : error}\n`),
    });
    const stopped = untilSignalled();
    const host = service.host.includes(':') ? `[${service.host}]` : service.host;
    terminal.out(`Pet service on http://${host}:${service.port}, animals kept in ${settings.databaseFile}\n`);
    await stopped;
    await service.close();
    return 0;
  },
};

/** An empty variable counts as unset, so that `PORT=` in an env file selects the default. */
function settingsFrom(env: NodeJS.ProcessEnv): PetsSettings {
  const port = env.PORT || '9000';
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    throw new Failure('bad_settings', `PORT is '${port}'; it must be a whole number from 0 to 65535.`);
  }
  return {
    host: env.HOST || '127.0.0.1',
    port: Number(port),
    databaseFile: join(env.TOLLGATE_DATA || './data', 'pets.db'),
  };
}
