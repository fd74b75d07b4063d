import { configurationFrom } from '../config/settings.ts';
import { serveUntil, untilSignalled } from '../serve/run-until-signal.ts';
import { startGateway } from '../serve/start-gateway.ts';
import type { Command } from './terminal/command.ts';

/** `tollgate serve`: runs the gateway alone (contract section 1). */
export const serve: Command = {
  name: 'serve',
  about: 'Runs the gateway alone, by config/gateway.yaml, plans.yaml and the environment, until SIGTERM or SIGINT.',
  positionals: [],
  options: {},
  async run(_words, terminal) {
    const signalled = untilSignalled();
    const gateway = await startGateway(configurationFrom(terminal.env), terminal.env);
    return serveUntil(signalled, gateway);
  },
};
