import { type ChangeReport, differenceOf, listChanges } from '../admin/audit-report.ts';
import type { Actor } from '../admin/audit-trail.ts';
import { PAST_RULE, pastFrom } from '../admin/moment.ts';
import { Failure } from '../failure.ts';
import type { Command, ExitCode } from './command.ts';
import { type OpenStore, withStore } from './open-store.ts';
import { table } from './table.ts';

const DEFAULT_LIMIT = '50';

/** `tollgate audit`: who changed what, and when. */
export const audit: Command = {
  name: 'audit',
  about:
    'Lists the changes to keys and bans that were made or tried: by whom, when, and what became of each; newest first.',
  positionals: [],
  options: {
    limit: { type: 'string', value: 'N', about: `How many at most, ${DEFAULT_LIMIT} unless given.` },
    key: { type: 'string', value: 'ID', about: 'Only those of this key, or of this caller with tokens (jwt_…).' },
    since: {
      type: 'string',
      value: 'WHEN',
      about: 'Only those of the last 24h, or since 2030-12-31, or an RFC 3339 time.',
    },
    actor: {
      type: 'string',
      value: 'NAME',
      about: 'Only those by this user of a shell, or by this token (ADMIN_TOKEN).',
    },
    json: {
      type: 'boolean',
      about:
        'Prints an array of {"id","time","action","outcome","code","target","actor","requestId","clientAddress","before","after"}.',
    },
  },
  async run({ options }, terminal) {
    const {
      limit = DEFAULT_LIMIT,
      key = null,
      since = null,
      actor = null,
    } = options as Readonly<Record<string, string | undefined>>;
    if (!/^[1-9][0-9]{0,7}$/.test(limit)) {
      throw new Failure('bad_usage', `--limit is '${limit}'; it must be a whole number from 1 to 99999999.`);
    }
    const sinceMs = since === null ? null : pastFrom(since, Date.now());
    if (since !== null && sinceMs === null) throw new Failure('bad_usage', `--since is '${since}'; it ${PAST_RULE}.`);
    const work = async (store: OpenStore): Promise<ExitCode> => {
      const page = { limit: Number(limit), before: null };
      const { changes } = await listChanges(store.audit, { key, actor, sinceMs }, page);
      if (options.json === true) terminal.out(`${JSON.stringify(changes, null, 2)}\n`);
      else if (changes.length === 0) terminal.out('No change is recorded.\n');
      else terminal.out(table(['time', 'by', 'action', 'outcome', 'id', 'change'], changes.map(rowOf), terminal));
      return 0;
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};

function rowOf(change: ChangeReport): readonly string[] {
  const { time, actor, action, outcome, code, target } = change;
  const became = code === null ? outcome : `${outcome} (${code})`;
  return [time, byOf(actor), action, became, target ?? '-', differenceOf(change)];
}

function byOf(actor: Actor): string {
  return actor.kind === 'token' ? actor.name : `${actor.user}@${actor.host}`;
}
