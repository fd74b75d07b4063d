import type { Command } from './command.ts';
import { configurationFrom } from './configuration.ts';
import { serveUntil } from './serving.ts';
import { untilSignalled } from './signals.ts';
import { startGateway } from './workers/start-gateway.ts';

/** `tollgate serve`: the gateway alone (contract section 1). */
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
