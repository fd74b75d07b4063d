import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readEnvironment } from '../config/environment.ts';
import { printFault } from '../config/fault.ts';
import { parseGatewayFile } from '../config/gateway-file.ts';
import { jsonSchemas } from '../config/json-schema.ts';
import { parsePlans } from '../config/plans-schema.ts';
import { reasonOf } from '../config/read-file.ts';
import { faultOfTarget } from '../config/setting-values.ts';
import { DEFAULT_GATEWAY_FILE, DEFAULT_PLANS_FILE } from '../config/settings.ts';
import { GATEWAY_SCHEMA, settingsHead } from '../config/settings-head.ts';
import { type ExitCode, Failure } from '../failure.ts';
import { isWindow } from '../model/plan.ts';
import { visible } from '../operations/operation-values.ts';
import { commandOf } from './first-steps.ts';
import type { Command, Terminal, Words } from './terminal/command.ts';

// `tollgate init`: the settings files for a gateway before one's own service.

const ENV_FILE = 'tollgate.env';
const SCHEMA_FOLDER = dirname(DEFAULT_GATEWAY_FILE);
/** What must not get into a repository. */
const IGNORED = [ENV_FILE, 'data/', 'secrets/'];
const DEFAULT_TARGET = 'http://127.0.0.1:9000';
const DEFAULT_REDIS = 'redis://127.0.0.1:6379';

/** The plans that one can choose by name. */
const PRESETS: Readonly<Record<string, string>> = {
  tiers: `  free: { limits: { minute: 60, day: 1000 } }
  pro: { limits: { minute: 300, day: 10000 } }
  business: { limits: { minute: 1000, day: 100000 } }
  enterprise: { limits: { minute: custom, day: custom } } # each key brings its own: --limit minute=5000
`,
  single: '  standard: { limits: { minute: 60, day: 10000 } }\n',
  sliding: `  free: { limits: { minute: { limit: 60, window: sliding }, month: 10000 } }
  pro: { limits: { minute: { limit: 300, window: sliding }, month: 100000 } }
`,
};

export const init: Command = {
  name: 'init',
  about:
    'Writes commented settings for a gateway before your service: config/gateway.yaml, plans.yaml, the JSON Schemas by which editors ' +
    'complete them, a .gitignore for secrets and data, and, with --env or a Redis, ' +
    `${ENV_FILE} with a new pepper and admin token, for its owner alone. On a terminal it asks three questions; it replaces no file ` +
    'but the schemas.',
  positionals: ['[FOLDER]'],
  environment: ['REDIS_URL'],
  options: {
    upstream: {
      type: 'string',
      value: 'ADDRESS',
      about: `Where the service is, such as ${DEFAULT_TARGET} or unix:/run/shop.sock. Required without a terminal.`,
    },
    plans: {
      type: 'string',
      value: 'PLANS',
      about: `${Object.keys(PRESETS).join(', ')}, or plans of your own as NAME=NUMBER/WINDOW, such as basic=60/minute,big=1000/minute; default tiers.`,
    },
    store: {
      type: 'string',
      value: 'STORE',
      about:
        'Where keys and counts are kept: embedded, the default; the address of a Redis without a password, such as redis://cache:6379; or redis for that of REDIS_URL, by default one on this machine.',
    },
    env: {
      type: 'boolean',
      about: `Writes ${ENV_FILE} with the embedded store too. It is never replaced: without its pepper no key works.`,
    },
    force: { type: 'boolean', about: 'Replaces gateway.yaml and plans.yaml if they exist.' },
  },
  examples: [
    'tollgate init',
    'tollgate init shop --upstream http://127.0.0.1:3000 --plans basic=60/minute,big=1000/minute --env',
  ],
  async run(words, terminal) {
    const folder = words.positionals[0] ?? '.';
    const isForced = words.options.force === true;
    const places = {
      gateway: join(folder, DEFAULT_GATEWAY_FILE),
      plans: join(folder, DEFAULT_PLANS_FILE),
      env: join(folder, ENV_FILE),
      ignore: join(folder, '.gitignore'),
    };
    refuseExisting([places.gateway, places.plans], isForced);
    const answers = await answersOf(words, terminal);
    const gateway = gatewayText(answers.upstream);
    insistOn(parseGatewayFile(gateway, places.gateway));
    const plans = plansText(answers.plans);
    insistOn(parsePlans(plans, places.plans));
    const hasEnv = words.options.env === true || answers.redisUrl !== null;
    // An environment file that is there is kept, also with --force.
    const keepsEnv = hasEnv && existsSync(places.env);
    write(places.gateway, gateway, isForced);
    write(places.plans, plans, isForced);
    if (hasEnv && !keepsEnv) write(places.env, envText(answers.redisUrl), false, 0o600);
    const schemas = [GATEWAY_SCHEMA, 'plans.schema.json'];
    for (const name of schemas) write(join(folder, SCHEMA_FOLDER, name), jsonSchemas().get(name)!, true);
    const isIgnoring = existsSync(places.ignore);
    if (!isIgnoring) write(places.ignore, IGNORED.map((line) => `${line}\n`).join(''), false);
    const written = [
      ...[places.gateway, places.plans, ...schemas.map((name) => join(folder, SCHEMA_FOLDER, name))],
      ...(isIgnoring ? [] : [places.ignore]),
      ...(hasEnv && !keepsEnv ? [places.env] : []),
    ];
    terminal.out(`${written.map((file) => `${file} is written.`).join('\n')}\n`);
    if (keepsEnv) terminal.out(`${places.env} was there and is kept, with its pepper.\n`);
    if (isIgnoring) terminal.out(`${places.ignore} was there and is kept. It should have ${IGNORED.join(', ')}.\n`);
    terminal.out(
      nextText(
        folder,
        { hasEnv, isEmbedded: answers.redisUrl === null },
        {
          plan: Object.keys(parsedPlans(plans))[0]!,
          command: commandOf({ npm_lifecycle_event: terminal.env.npm_lifecycle_event }),
        },
      ),
    );
    return 0 satisfies ExitCode;
  },
};

interface Answers {
  readonly upstream: string;
  /** The lines below `plans:`. */
  readonly plans: string;
  /** Null: the embedded store. */
  readonly redisUrl: string | null;
}

async function answersOf({ options }: Words, terminal: Terminal): Promise<Answers> {
  const given = options as Readonly<Record<string, string | undefined>>;
  const question = terminal.question ?? null;
  if (given.upstream === undefined && question === null) {
    throw new Failure(
      'bad_usage',
      '--upstream is missing: the address of your service, such as http://127.0.0.1:3000.',
    );
  }
  // What options say is checked before anything is asked.
  if (given.upstream !== undefined) upstreamFrom(given.upstream);
  if (given.plans !== undefined) plansFrom(given.plans);
  if (given.store !== undefined) storeFrom(given.store, terminal.env, false);
  const asked = async <T>(
    option: string | undefined,
    text: string,
    fallback: string,
    read: (answer: string) => T,
  ): Promise<T> => {
    if (option !== undefined) return read(option);
    if (question === null) return read(fallback);
    for (;;) {
      const answer = await question(`${text} [${fallback}]: `);
      if (answer === null) throw new Failure('refused', 'Nothing was written.');
      try {
        return read(answer.trim() || fallback);
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        terminal.error(`${error.message}\n`);
      }
    }
  };
  const upstream = await asked(given.upstream, 'Where is your service?', DEFAULT_TARGET, upstreamFrom);
  const presets = Object.keys(PRESETS).join(', ');
  const plans = await asked(
    given.plans,
    `Which plans? ${presets}, or such as basic=60/minute,big=1000/minute`,
    'tiers',
    plansFrom,
  );
  const storeText = 'Where are keys and counts? embedded (one gateway), redis, or the address of a Redis';
  const redisUrl = await asked(given.store, storeText, terminal.env.REDIS_URL ? 'redis' : 'embedded', (answer) =>
    storeFrom(answer, terminal.env, given.store === undefined),
  );
  return { upstream, plans, redisUrl };
}

/** The address as a target. `localhost:3100` is taken for http, as curl takes it. @throws Failure `bad_usage` */
function upstreamFrom(text: string): string {
  const target = /^(?:[\w.-]+|\[[0-9a-f:.]+\]):[0-9]{1,5}$/i.test(text) ? `http://${text}` : text;
  const fault = faultOfTarget(target);
  if (fault === null) return target;
  throw new Failure('bad_usage', `The address of the service ${fault}.`);
}

function plansFrom(text: string): string {
  const preset = Object.hasOwn(PRESETS, text) ? PRESETS[text] : undefined;
  if (preset !== undefined) return preset;
  const byName = new Map<string, Map<string, number>>();
  for (const part of text.split(',')) {
    const [, name, number, window] = /^\s*([\w-]{1,64})=([0-9]{1,15})\/(\w+)\s*$/.exec(part) ?? [];
    if (name === undefined || !isWindow(window!)) throw wrongPlan(part.trim());
    const limits = byName.get(name) ?? new Map();
    if (limits.has(window))
      throw new Failure('bad_usage', `The plan ${name} has two limits for the ${window}. Give one.`);
    byName.set(name, limits.set(window, Number(number)));
  }
  const limitsText = (limits: ReadonlyMap<string, number>) => [...limits].map((limit) => limit.join(': ')).join(', ');
  return [...byName].map(([name, limits]) => `  ${name}: { limits: { ${limitsText(limits)} } }\n`).join('');
}

function wrongPlan(part: string): Failure {
  const presets = Object.keys(PRESETS).join(', ');
  const ofKeys = /=\s*(?:custom|unlimited)\b/.test(part)
    ? ' A limit `custom` or `unlimited` can be written into plans.yaml afterwards; tiers has a plan with custom ones.'
    : '';
  return new Failure(
    'bad_usage',
    `The plans must be ${presets}, or plans such as basic=60/minute,basic=1000/day,big=1000/minute: '${visible(part)}' is not NAME=NUMBER/WINDOW, with a whole number and second, minute, hour, day, week or month.${ofKeys}`,
  );
}

/** @param mayHavePassword false for an argument, which other users of the machine see */
function storeFrom(text: string, env: NodeJS.ProcessEnv, mayHavePassword: boolean): string | null {
  if (text === 'embedded') return null;
  if (text === 'redis') return env.REDIS_URL || DEFAULT_REDIS;
  const url = URL.parse(text);
  if (!mayHavePassword && (url === null || url.username !== '' || url.password !== '' || url.search !== '')) {
    throw new Failure(
      'bad_usage',
      '--store must be embedded, redis, or the address of a Redis without a name or a password, such as redis://cache:6379. One with a password belongs into ' +
        'REDIS_URL, because other users of this machine see the arguments.',
    );
  }
  const read = readEnvironment({ REDIS_URL: text, KEY_PEPPER: '0123456789abcdef' });
  if (!('faults' in read)) return text;
  throw new Failure(
    'bad_usage',
    read.faults.join('\n').replace(/^environment: REDIS_URL: /, 'The address of the Redis '),
  );
}

function gatewayText(upstream: string): string {
  return `${settingsHead()}upstreams:
  service:
    targets: [${JSON.stringify(upstream)}] # several share the load
    responseTimeout: 30s # until the head of the response
    # health: { path: /healthz, interval: 5s } # asks each target, and leaves out those that do not answer

# Only what is listed reaches the service, and a request needs a key unless its route has \`auth: none\`. The more specific route wins.
# Begin with everything, then name the paths that you have: then others are 404 here, and none of them is forgotten.
# The gateway answers /usage itself.
routes:
  - path: /**
    methods: [GET, POST, PUT, PATCH, DELETE]
    upstream: service
  # - { path: '/v1/items/{id}', methods: [GET], upstream: service }
  # - { path: /v1/reports, methods: [POST], upstream: service, cost: 5 } # counts for five
  # - { path: /health, methods: [GET], upstream: service, auth: none, limits: { minute: 60 } } # no key, 60 a minute and address
`;
}

function plansText(plans: string): string {
  return `# yaml-language-server: $schema=${SCHEMA_FOLDER}/plans.schema.json
# What each plan allows. \`tollgate plans check\` checks this file, and the gateway reads it again when it changes.
# Windows are second, minute, hour, day, week and month; a limit is a number, \`unlimited\`, or \`custom\` if each key brings its own.
# The first line is for editors, which then explain and complete every setting; \`tollgate docs plans-yaml\` lists them.

plans:
${plans}
# Callers that keep sending after a 429 are banned for a while, each time for longer.
bans:
  after: 10 # refusals
  within: 1m # since the first of them
  first: 1m # the first ban
  factor: 2 # each further ban is twice as long
  longest: 24h
  forget: 24h # after this long without a ban the next one is a first one again

# What one client address may try with missing or wrong keys before it gets 429 instead of 401.
failed-authentication:
  minute: 30
`;
}

function envText(redisUrl: string | null): string {
  const secret = () => randomBytes(32).toString('base64url');
  return `# Secrets of the gateway, for its owner alone. Keep a copy of KEY_PEPPER elsewhere: without it no key works.
KEY_PEPPER=${secret()}
# The token for the admin API and its console, http://127.0.0.1:9090/console/
ADMIN_TOKEN=${secret()}
${redisUrl === null ? '# REDIS_URL=redis://127.0.0.1:6379\n' : `REDIS_URL=${shellWord(redisUrl)}\n`}`;
}

/** Quotes only if a shell would need it: \`docker run --env-file\` takes quotes literally. */
function shellWord(text: string): string {
  return /^[\w.~:/@%+,=-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function nextText(
  folder: string,
  { hasEnv, isEmbedded }: { readonly hasEnv: boolean; readonly isEmbedded: boolean },
  { plan, command }: { readonly plan: string; readonly command: string },
): string {
  const lines = [
    ...(folder === '.' ? [] : [`cd ${shellWord(folder)}`]),
    ...(hasEnv ? [`set -a; . ./${ENV_FILE}; set +a`] : []),
    `${command} doctor`,
    `${command} keys create --plan ${plan} --name "My first key"${isEmbedded ? ' --data ./data' : ''}`,
    `${command} serve`,
  ];
  return `\nNext:\n${lines.map((line) => `  ${line}\n`).join('')}`;
}

function parsedPlans(text: string): Readonly<Record<string, unknown>> {
  const parsed = parsePlans(text, DEFAULT_PLANS_FILE);
  return 'value' in parsed ? Object.fromEntries(parsed.value.plans) : {};
}

/** @throws Failure `bad_usage` for a plan of the operator's that has a fault */
function insistOn(parsed: ReturnType<typeof parsePlans> | ReturnType<typeof parseGatewayFile>): void {
  if ('faults' in parsed) throw new Failure('bad_usage', parsed.faults.map(printFault).join('\n'));
}

function refuseExisting(files: readonly string[], isForced: boolean): void {
  const there = files.filter((file) => existsSync(file));
  if (isForced || there.length === 0) return;
  const [verb, them] = there.length === 1 ? ['exists', 'it'] : ['exist', 'them'];
  throw new Failure(
    'refused',
    `${there.join(' and ')} ${verb}. Name another folder, or give --force to replace ${them}.`,
  );
}

/** Writes a draft and moves it into place, so that the file is whole or not there. A link replaces no file. */
function write(file: string, text: string, replaces: boolean, mode = 0o644): void {
  const draft = `${file}.${randomBytes(6).toString('hex')}.draft`;
  try {
    mkdirSync(dirname(file), { recursive: true });
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new Failure('refused', `The folder ${dirname(file)} cannot be made (${code}). Name another one.`, cause);
  }
  try {
    writeFileSync(draft, text, { flag: 'wx', mode, flush: true });
    if (replaces) renameSync(draft, file);
    else linkSync(draft, file);
  } catch (cause) {
    const isThere = cause instanceof Error && 'code' in cause && cause.code === 'EEXIST';
    throw new Failure(
      'refused',
      `${file} ${isThere ? 'exists' : `${reasonOf(cause).replace(/read/g, 'written')}`}.`,
      cause,
    );
  } finally {
    rmSync(draft, { force: true });
  }
}
