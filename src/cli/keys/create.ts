import { existsSync } from 'node:fs';
import type { Limits } from '../../admit/plan.ts';
import { configurationFrom } from '../../config/settings.ts';
import { type ExitCode, Failure } from '../../failure.ts';
import { momentText } from '../../io/time-text.ts';
import { keyReportWithSecret } from '../../operations/key-report.ts';
import { changeOfKey } from '../../operations/recorded.ts';
import { nameOfStore, withStore } from '../../serve/open-store.ts';
import { exitCodeOf, operationsOn } from '../operations.ts';
import { recordedByCommand } from '../recorded-change.ts';
import type { Command, Words } from '../terminal/command.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { json, limitsText, readLimits, readMoment } from './text-form.ts';

/** `tollgate keys create` (contract section 5). */
export const keysCreate: Command = {
  name: 'keys create',
  about: 'Makes an API key, shows its secret once, and names the store that has the key.',
  positionals: [],
  environment: OF_STORE,
  examples: [
    'tollgate keys create --plan pro --name "Jo\'s shop" --limit minute=500 --expires 90d',
    'tollgate keys create --plan free --data ./data --json',
  ],
  options: {
    plan: { type: 'string', value: 'PLAN', about: 'The plan that it belongs to, one of plans.yaml. Required.' },
    name: { type: 'string', value: 'NAME', about: 'What to call it, up to 100 characters.' },
    owner: { type: 'string', value: 'OWNER', about: 'Whose it is, up to 100 characters.' },
    notes: { type: 'string', value: 'TEXT', about: 'Notes for those who look after keys, up to 1000 characters.' },
    limit: {
      type: 'string',
      multiple: true,
      value: 'WINDOW=NUMBER',
      about: "A limit of its own in place of its plan's, such as minute=500. May be given once per window.",
    },
    expires: {
      type: 'string',
      value: 'WHEN',
      about: 'When it ends: in 90d, or on 2030-12-31, or at an RFC 3339 time. Never, unless given.',
    },
    data: {
      type: 'string',
      value: 'FOLDER',
      about:
        'The folder of the embedded store, in place of TOLLGATE_DATA; it is made where it is missing. Required without ' +
        'REDIS_URL and TOLLGATE_DATA where there is no ./data.',
    },
    json: {
      type: 'boolean',
      about: 'Prints one JSON object: id, key, plan, name, owner, limits, createdAt, expiresAt.',
    },
  },
  async run(words, terminal) {
    // This throws for a wrong option before the store is opened.
    attributesOf(words, Date.now());
    const env = await storeIn(terminal.env, words);
    return withStore<ExitCode>(
      env,
      async (store) => {
        const { key, secret, durability } = await recordedByCommand(store, terminal.error, {
          action: 'key.create',
          target: null,
          work: () => operationsOn(store).create((nowMs) => attributesOf(words, nowMs)),
          changeOf: changeOfKey,
        });
        const report = keyReportWithSecret(key, secret, store.plans);
        if (words.options.json === true) terminal.out(json(report));
        else {
          const ends =
            report.expiresAt === null
              ? ''
              : `, expires ${momentText(Date.parse(report.expiresAt), Date.now(), terminal)}`;
          terminal.out(`${key.id} on plan ${key.plan} (${limitsText(report.limits)})${ends}\n\n  ${secret}\n\n`);
          terminal.out('This is the only time that the key is shown. Keep it where you keep secrets.\n');
          terminal.out(`It is in ${nameOfStore(store.settings)}; gateways on another store do not know it.\n`);
        }
        return exitCodeOf(durability, terminal);
      },
      { makesSecrets: true, missingStore: 'make' },
    );
  },
};

/**
 * The environment, with `--data` in place of TOLLGATE_DATA. The command makes a new embedded store only if the operator
 * names its folder: an operator in the wrong folder, or without REDIS_URL, would otherwise put the key into a new store
 * that no gateway uses.
 * @throws Failure `bad_usage`
 */
export async function storeIn(env: NodeJS.ProcessEnv, { options }: Words): Promise<NodeJS.ProcessEnv> {
  const data = options.data as string | undefined;
  if (data === '') throw new Failure('bad_usage', "--data is empty; it must be the embedded store's folder.");
  const named = data === undefined ? env : { ...env, TOLLGATE_DATA: data };
  const { redis, dataFolder } = (await configurationFrom(named)).settings;
  if (redis.url !== null) {
    if (data === undefined) return env;
    throw new Failure('bad_usage', 'The keys are in Redis, as REDIS_URL says; leave --data out, or unset REDIS_URL.');
  }
  if (named.TOLLGATE_DATA || existsSync(dataFolder)) return named;
  throw new Failure(
    'bad_usage',
    `There is no store in ${dataFolder}, and REDIS_URL is not set. Set REDIS_URL or TOLLGATE_DATA as the gateways have ` +
      'it, or name the folder of the embedded store: `--data ./data` makes one here.',
  );
}

function attributesOf(words: Words, nowMs: number) {
  const { plan, name, owner, notes, expires } = words.options as Readonly<Record<string, string | undefined>>;
  if (plan === undefined) {
    throw new Failure('bad_usage', '--plan is missing. See `tollgate keys create --help`.');
  }
  return {
    plan,
    name: name ?? null,
    owner: owner ?? null,
    notes: notes ?? null,
    limits: readLimits(words, false) as Limits,
    expiresAtMs: expires === undefined ? null : readMoment('--expires', expires, nowMs),
  };
}
