import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { portOf } from '../config/environment.ts';
import { Failure } from '../failure.ts';
import { startPets } from '../pets/server.ts';
import type { Command, Terminal } from './command.ts';
import { configurationFrom } from './configuration.ts';
import { demoKeys } from './demo-keys.ts';
import type { RunningGateway } from './run-gateway.ts';
import { serveUntil } from './serving.ts';
import { untilSignalled } from './signals.ts';
import { startGateway } from './workers/start-gateway.ts';

/** `npm start`: the pet service and the gateway before it, in one process unless WORKERS says otherwise, with a demo key for each plan. */
export const start: Command = {
  name: 'start',
  about:
    'Runs the bundled pet service and the gateway before it, and prints a demo key for each plan: for trying. ' +
    'Before a service of yours run `tollgate serve`. Obeys PORT (8080), ADMIN_PORT (9090) and PETS_PORT (9000).',
  positionals: [],
  options: {},
  async run(_words, terminal) {
    const signalled = untilSignalled();
    const petsPort = portOf(terminal.env, 'PETS_PORT', 9000);
    if ('faults' in petsPort) throw new Failure('bad_settings', petsPort.faults.join('\n'));
    const unused = targetsInPlaceOfPets(terminal.env);
    const dataFolder = resolve(terminal.env.TOLLGATE_DATA || 'data');
    mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
    const pets = await startPets({
      host: '127.0.0.1',
      port: petsPort.port,
      databaseFile: join(dataFolder, 'pets.db'),
      report: (error) => terminal.error(`${error instanceof Error ? error.stack : error}\n`),
    });
    try {
      const env = { ...terminal.env, UPSTREAM_URL: terminal.env.UPSTREAM_URL || `http://127.0.0.1:${pets.port}` };
      const gateway = await startGateway(configurationFrom(env), env);
      const greeted = greet(terminal, gateway, pets.port, env, unused);
      return await serveUntil(
        greeted.then(() => signalled),
        gateway,
      );
    } finally {
      await pets.close();
    }
  },
};

/**
 * The targets of gateway.yaml that the pets take the place of, other than where they usually are.
 * @throws Failure `bad_settings` where there are several upstreams, or other faults
 */
function targetsInPlaceOfPets(env: NodeJS.ProcessEnv): readonly string[] {
  if (env.UPSTREAM_URL) return [];
  const { upstreams } = configurationFrom(env).settings;
  if (upstreams.size > 1) {
    const names = [...upstreams.keys()].join(', ');
    const remedy = 'Run `tollgate serve`, which forwards to what gateway.yaml says.';
    throw new Failure('bad_settings', `The pet service can stand for one upstream, and there are ${names}. ${remedy}`);
  }
  return [...upstreams.values()].flatMap(({ targets }) => targets).filter((target) => target !== USUAL_PETS);
}

const USUAL_PETS = 'http://127.0.0.1:9000';

async function greet(
  terminal: Terminal,
  gateway: RunningGateway,
  petsPort: number,
  env: NodeJS.ProcessEnv,
  unused: readonly string[],
) {
  const keys = await demoKeys(env);
  const width = Math.max(...keys.map(({ plan }) => plan.length));
  const origin = originOf(gateway.host, gateway.port, gateway.scheme);
  const lines = [
    '',
    `Tollgate   ${origin}`,
    `admin      ${originOf(gateway.adminHost, gateway.adminPort)}  (/livez, /readyz, /metrics)`,
    `pets       http://127.0.0.1:${petsPort}  (asks for no key; only the gateway should reach it)`,
    ...(unused.length === 0
      ? []
      : [`           They stand for ${unused.join(', ')} of gateway.yaml, which \`tollgate serve\` forwards to.`]),
    '',
    'A demo key for each plan:',
    ...keys.map(({ plan, key }) => `  ${plan.padEnd(width)}  ${key}`),
    '',
    'Try it, and watch X-RateLimit-Remaining fall:',
    `  curl -i -H 'Authorization: Bearer ${keys[0]?.key}' ${origin}/v1/pets`,
    '',
    'Ctrl-C stops it.',
    '',
    '',
  ];
  terminal.out(lines.join('\n'));
}

/** Where a program on this machine reaches a listener: one that listens on every address, on loopback. */
export function originOf(host: string, port: number, scheme: 'http' | 'https' = 'http'): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${scheme}://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}
