import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { allowanceOf } from '../admit/allowance.ts';
import { portOf } from '../config/environment.ts';
import { configurationFrom, filesOf } from '../config/settings.ts';
import { Failure } from '../failure.ts';
import { digestOf } from '../identify/api-key.ts';
import { urlOfListener } from '../io/listening.ts';
import type { Plan } from '../model/plan.ts';
import { WINDOWS, type WindowName } from '../model/values.ts';
import { newKey } from '../operations/key-changes.ts';
import { changeOfRecord } from '../operations/recorded.ts';
import { offerSignIn } from '../operations/sign-in-links.ts';
import { isLoopback, StartLink } from '../operations/start-link.ts';
import { startPets } from '../pets/server.ts';
import { leavesStoreUnused, type OpenStore, withStore } from '../serve/open-store.ts';
import { serveUntil, untilSignalled } from '../serve/run-until-signal.ts';
import { startGateway } from '../serve/start-gateway.ts';
import type { LogRecord } from '../telemetry/terminal-line.ts';
import { commandOf, type DemoKey, greetingOf, hintFor, reminderOf, type Surroundings } from './first-steps.ts';
import { recordedByCommand } from './recorded-change.ts';
import { ACCEPT_ROLLBACK } from './serve.ts';
import type { Command } from './terminal/command.ts';
import { JSON_LOG, withLog } from './terminal/log-option.ts';
import { OF_GATEWAY } from './terminal/variables.ts';

/**
 * `npm start`: runs the pet service and a gateway in front of it, and prints a demo key for each plan and a link that signs in
 * to the console. All of it runs in one
 * process unless WORKERS asks for several.
 */
export const start: Command = {
  name: 'start',
  about:
    'Runs the bundled pet service and the gateway before it, and prints a demo key for each plan and a link to the console: for trying. ' +
    'Before a service of yours run `tollgate serve`. Reads PORT (8080), ADMIN_PORT (9090) and PETS_PORT (9000).',
  positionals: [],
  environment: [...OF_GATEWAY, 'PETS_PORT'],
  examples: ['tollgate start', 'tollgate start --json', 'PORT=8081 ADMIN_PORT=9091 PETS_PORT=9001 tollgate start'],
  options: { json: JSON_LOG, 'accept-rollback': ACCEPT_ROLLBACK },
  async run(words, terminal) {
    const signalled = untilSignalled();
    const given = terminal.env;
    const petsPort = portOf(given, 'PETS_PORT', 9000);
    if ('faults' in petsPort) throw new Failure('bad_settings', petsPort.faults.join('\n'));
    const dataFolder = resolve(given.TOLLGATE_DATA || 'data');
    mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
    const settings = withSettings(given, dataFolder);
    if (await leavesStoreUnused(settings, dataFolder)) terminal.error(unusedStoreText(settings, dataFolder));
    const { isNeeded, replaced } = await petsOf(settings);
    const pets = await startPets({
      host: '127.0.0.1',
      port: petsPort.port,
      databaseFile: join(dataFolder, 'pets.db'),
      report: (error) => terminal.error(`${error instanceof Error ? error.stack : error}\n`),
    });
    try {
      const env = isNeeded ? { ...settings, UPSTREAM_URL: `http://127.0.0.1:${pets.port}` } : settings;
      const configuration = await configurationFrom(env);
      const { token, tokensFile } = configuration.settings.admin;
      // Without a token of the operator's own, the console would be off: an admin whom only the printed link signs in keeps it on.
      const startLink = token === null && tokensFile === null ? new StartLink(STARTER_NAME) : null;
      const command = commandOf(settings);
      const hints = { ...configuration.settings, hintFor: (record: LogRecord) => hintFor(record, command) };
      return await withLog(terminal, words, hints, async (log) => {
        const gateway = await startGateway(configuration, env, {
          startLink,
          terminal: log,
          acceptsRollback: words.options['accept-rollback'] === true,
        });
        const greeted = withDemoKeys(env, startLink, gateway.adminHost).then(({ keys, signIn }) => {
          const surroundings: Surroundings = {
            origin: urlOfListener(gateway.host, gateway.port, gateway.scheme),
            adminOrigin: urlOfListener(gateway.adminHost, gateway.adminPort, gateway.adminScheme),
            petsPort: pets.port,
            signIn,
            replaced,
            ownSettings: settings === given ? null : filesOf(env),
            keys,
            plans: configuration.plans.plans,
            env: settings,
          };
          const [upToKeys, steps] = greetingOf(surroundings);
          const print = log === null ? terminal.out : (text: string) => log.print(text);
          print(upToKeys);
          log?.keepInSight((columns) => reminderOf(surroundings, columns));
          print(steps);
        });
        return serveUntil(
          greeted.then(() => signalled),
          gateway,
        );
      });
    } finally {
      await pets.close();
    }
  },
};

/** Says that the gateway uses the keys in Redis and not those in the data folder, and how to move them. */
function unusedStoreText(env: NodeJS.ProcessEnv, dataFolder: string): string {
  const command = commandOf(env);
  return (
    `warning: the keys are in Redis, as REDIS_URL says; those in ${dataFolder} are not used. To move them: ` +
    `\`${command} keys backup FILE\` without REDIS_URL, then \`${command} keys restore FILE\` with it and, in KEY_PEPPER, the pepper of ${dataFolder}.\n`
  );
}

/** The folder of the clone, the package or the executable, which has a gateway.yaml and a plans.yaml to start from. */
const PACKAGE = join(import.meta.dirname, '..', '..');

/**
 * The environment, with settings in the data folder if the working directory has none: `npx tollgate start` works in an empty
 * folder. They are those that come with Tollgate until somebody changes them. Only `start` does so, because a gateway before a
 * real service must not run with settings that its operator has not written.
 */
function withSettings(env: NodeJS.ProcessEnv, dataFolder: string): NodeJS.ProcessEnv {
  if (env.TOLLGATE_CONFIG || env.TOLLGATE_PLANS || filesOf(env).some((file) => existsSync(file))) return env;
  const [TOLLGATE_CONFIG, TOLLGATE_PLANS] = filesOf({}).map((file) => {
    const own = join(dataFolder, basename(file));
    if (!existsSync(own)) writeWhole(own, readFileSync(join(PACKAGE, file), 'utf8'));
    return own;
  });
  return { ...env, TOLLGATE_CONFIG, TOLLGATE_PLANS };
}

/**
 * Whether the gateway forwards to the pet service, and the targets in gateway.yaml that the service replaces, without its own default
 * address. A gateway that forwards nothing needs none, and UPSTREAM_URL names another one.
 * @throws Failure `bad_settings` if gateway.yaml has several upstreams, or faults
 */
async function petsOf(
  env: NodeJS.ProcessEnv,
): Promise<{ readonly isNeeded: boolean; readonly replaced: readonly string[] }> {
  if (env.UPSTREAM_URL) return { isNeeded: false, replaced: [] };
  const { upstreams } = (await configurationFrom(env)).settings;
  if (upstreams.size > 1) {
    const names = [...upstreams.keys()].join(', ');
    const remedy = 'Run `tollgate serve`, which forwards to what gateway.yaml says.';
    throw new Failure('bad_settings', `The pet service can stand for one upstream, and there are ${names}. ${remedy}`);
  }
  const targets = [...upstreams.values()].flatMap(({ targets }) => targets.map(({ url }) => url));
  return { isNeeded: upstreams.size === 1, replaced: targets.filter((target) => target !== DEFAULT_PETS_ORIGIN) };
}

/** The admin whom the printed link signs in. Names of tokens have no spaces, so none can be the same. */
const STARTER_NAME = 'npm start';

const DEFAULT_PETS_ORIGIN = 'http://127.0.0.1:9000';

/** The limits of a demo key where its plan says `custom` (contract section 1: enterprise with 1000/100000). */
const CUSTOM_LIMITS: Readonly<Record<WindowName, number>> = {
  second: 100,
  minute: 1_000,
  hour: 20_000,
  day: 100_000,
  week: 500_000,
  month: 2_000_000,
};

/**
 * The demo keys, one for each plan. `demo-keys.json` in the data folder keeps their secrets, readable by its owner only, so
 * that every start prints the same keys. A key that no longer works is replaced. Only `npm start` makes demo keys.
 */
export async function demoKeys(env: NodeJS.ProcessEnv): Promise<readonly DemoKey[]> {
  return (await withDemoKeys(env, null, '')).keys;
}

/**
 * The demo keys, and a link that signs in to the console if one is wanted. On loopback it is that of this process. Elsewhere it could
 * be used from other machines, so it is a one-time link.
 */
function withDemoKeys(env: NodeJS.ProcessEnv, startLink: StartLink | null, adminHost: string) {
  return withStore(
    env,
    async (store) => {
      const file = join(store.settings.dataFolder, 'demo-keys.json');
      const before = readKeptKeys(file);
      const keys: DemoKey[] = [];
      for (const plan of store.plans.plans.values()) {
        const kept = before.get(plan.name);
        const key = kept !== undefined && (await works(store, kept, plan)) ? kept : await makeDemoKey(store, plan);
        keys.push({ plan: plan.name, key });
      }
      const kept = byPlan(keys);
      if (!isDeepStrictEqual(before, kept)) writeWhole(file, `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`);
      const sources = { ...store, random: randomBytes };
      const isOnce = !isLoopback(adminHost);
      const signIn =
        startLink === null
          ? null
          : { isOnce, code: isOnce ? await offerSignIn(STARTER_NAME, sources) : startLink.make(randomBytes) };
      return { keys: keys as readonly DemoKey[], signIn };
    },
    { makesSecrets: true, missingStore: 'make' },
  );
}

const byPlan = (keys: readonly DemoKey[]) => new Map(keys.map(({ plan, key }) => [plan, key]));

async function works({ keys, peppers }: OpenStore, secret: string, plan: Plan): Promise<boolean> {
  const nowMs = Date.now();
  const hasEnded = ({ expiresAtMs }: { expiresAtMs: number | null }) => expiresAtMs !== null && expiresAtMs <= nowMs;
  for (const digest of peppers.map((pepper) => digestOf(secret, pepper))) {
    const key = await keys.findByDigest(digest);
    if (key === null) continue;
    const isDead =
      key.revokedAtMs !== null ||
      hasEnded(key) ||
      key.secrets.some((stored) => stored.digest === digest && hasEnded(stored));
    return !isDead && key.plan === plan.name && !('missing' in allowanceOf(plan, key.limits));
  }
  return false;
}

async function makeDemoKey(store: OpenStore, plan: Plan): Promise<string> {
  const { keys, peppers, plans } = store;
  const custom = WINDOWS.filter((window) => plan.limits[window] === 'custom');
  const limits = Object.fromEntries(custom.map((window) => [window, CUSTOM_LIMITS[window]]));
  const attributes = { plan: plan.name, limits, name: `demo ${plan.name}`, owner: null, expiresAtMs: null };
  const { key, secret } = newKey(attributes, {
    plans: plans.plans,
    pepper: peppers[0]!,
    random: randomBytes,
    nowMs: Date.now(),
  });
  await recordedByCommand(store, (line) => process.stderr.write(line), {
    action: 'key.create',
    target: null,
    work: () => keys.create(key),
    changeOf: (durability) => changeOfRecord({ record: key, durability }),
  });
  return secret;
}

/** The secrets by plan. A file that is missing or unreadable counts as empty, and is overwritten. */
function readKeptKeys(file: string): ReadonlyMap<string, string> {
  try {
    const kept: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return new Map(Object.entries(kept ?? {}).filter(([, key]) => typeof key === 'string'));
  } catch {
    return new Map();
  }
}

/** Writes a draft that only its owner can read and renames it, so that the file is never half written. */
function writeWhole(file: string, text: string): void {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, text, { mode: 0o600 });
  renameSync(draft, file);
}
