import { keyReportWithSecret } from '../admin/key-report.ts';
import type { Limits } from '../admit/plan.ts';
import { Failure } from '../failure.ts';
import type { Command, ExitCode, Words } from './command.ts';
import { readMoment } from './duration.ts';
import { readLimits } from './keys-limits.ts';
import { operationsOn } from './keys-operations.ts';
import { json, limitsText } from './keys-report.ts';
import { withStore } from './open-store.ts';

/** `tollgate keys create` (contract section 5). */
export const keysCreate: Command = {
  name: 'keys create',
  about: 'Makes an API key and shows its secret, this once.',
  positionals: [],
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
    json: {
      type: 'boolean',
      about: 'Prints one JSON object: id, key, plan, name, owner, limits, createdAt, expiresAt.',
    },
  },
  async run(words, terminal) {
    // Faults of the words are told before a store is opened.
    wishesOf(words, Date.now());
    return withStore<ExitCode>(
      terminal.env,
      async (store) => {
        const { key, secret } = await operationsOn(store).create((nowMs) => wishesOf(words, nowMs));
        const report = keyReportWithSecret(key, secret, store.plans);
        if (words.options.json === true) terminal.out(json(report));
        else {
          const ends = report.expiresAt === null ? '' : `, until ${report.expiresAt}`;
          terminal.out(`${key.id} on plan ${key.plan} (${limitsText(report.limits)})${ends}\n\n  ${secret}\n\n`);
          terminal.out('This is the only time that the key is shown. Keep it where you keep secrets.\n');
        }
        return 0;
      },
      { makesSecrets: true },
    );
  },
};

function wishesOf(words: Words, nowMs: number) {
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
