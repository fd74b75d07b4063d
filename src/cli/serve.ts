import { configurationFrom } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import { serveUntil, untilSignalled } from '../serve/run-until-signal.ts';
import { startGateway } from '../serve/start-gateway.ts';
import { printCheck } from './gateway/gateway-check.ts';
import type { Command } from './terminal/command.ts';
import { JSON_LOG, withLog } from './terminal/log-option.ts';
import { OF_GATEWAY } from './terminal/variables.ts';

/** The option by which the embedded store is used although it lacks what it acknowledged. */
export const ACCEPT_ROLLBACK = {
  type: 'boolean',
  about:
    'Starts although the embedded store lacks changes that it acknowledged, because its -wal file was damaged or an older copy was put in its place. Needed once: from then on the store counts as complete.',
} as const;

/** `tollgate serve`: runs the gateway alone (contract section 1). */
export const serve: Command = {
  name: 'serve',
  about: 'Runs the gateway alone, by config/gateway.yaml, plans.yaml and the environment, until SIGTERM or SIGINT.',
  positionals: [],
  environment: OF_GATEWAY,
  options: {
    check: { type: 'boolean', about: 'Checks all settings, as `tollgate gateway check` does, and starts nothing.' },
    json: { ...JSON_LOG, about: `${JSON_LOG.about} With --check: prints the report as JSON.` },
    'accept-rollback': ACCEPT_ROLLBACK,
    strict: { type: 'boolean', about: 'With --check: warnings make the exit code 1 too.' },
  },
  examples: [
    'tollgate serve',
    'REDIS_URL=redis://127.0.0.1:6379 KEY_PEPPER_FILE=pepper WORKERS=auto tollgate serve',
    'tollgate serve --json',
    'tollgate serve --check',
  ],
  async run(words, terminal) {
    const { options } = words;
    if (options.check === true) {
      return printCheck(terminal.env, { isStrict: options.strict === true, isJson: options.json === true }, terminal);
    }
    if (options.strict === true)
      throw new Failure('bad_usage', '--strict belongs to --check. See `tollgate serve --help`.');
    const signalled = untilSignalled();
    const configuration = await configurationFrom(terminal.env);
    return withLog(terminal, words, configuration.settings, async (log) =>
      serveUntil(
        signalled,
        await startGateway(configuration, terminal.env, {
          terminal: log,
          acceptsRollback: options['accept-rollback'] === true,
        }),
      ),
    );
  },
};
