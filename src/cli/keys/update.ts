import { type ExitCode, Failure } from '../../failure.ts';
import type { KeyEdits } from '../../operations/key-changes.ts';
import { keyReport } from '../../operations/key-report.ts';
import { withStore } from '../../serve/open-store.ts';
import { exitCodeOf, operationsOn } from '../operations.ts';
import { recorded, resultOfKey } from '../recorded-change.ts';
import type { Command, Words } from '../terminal/command.ts';
import { json, limitsText, readLimits, readMoment } from './text-form.ts';

/** `tollgate keys update`: changes the attributes of a key. Its secrets, counters and bans stay. */
export const keysUpdate: Command = {
  name: 'keys update',
  about: 'Changes the plan, limits, name, owner, notes or end of an API key. What it has used and its bans stay.',
  positionals: ['KEY_ID'],
  options: {
    plan: { type: 'string', value: 'PLAN', about: 'Moves it to another plan of plans.yaml.' },
    name: {
      type: 'string',
      value: 'NAME',
      about: 'What to call it, up to 100 characters; an empty one takes the name away.',
    },
    owner: {
      type: 'string',
      value: 'OWNER',
      about: 'Whose it is, up to 100 characters; an empty one takes the owner away.',
    },
    notes: { type: 'string', value: 'TEXT', about: 'Notes, up to 1000 characters; empty ones take the notes away.' },
    limit: {
      type: 'string',
      multiple: true,
      value: 'WINDOW=NUMBER',
      about:
        "A limit of its own, such as minute=500; minute=default goes back to its plan's. May be given once per window.",
    },
    expires: {
      type: 'string',
      value: 'WHEN',
      about: 'When it ends: in 90d, or on 2030-12-31, or at an RFC 3339 time, or never.',
    },
    json: { type: 'boolean', about: 'Prints the key as `keys list` does.' },
  },
  async run(words, terminal) {
    const [id] = words.positionals as [string];
    const edits = editsOf(words, Date.now());
    return withStore<ExitCode>(terminal.env, async (store) => {
      const { key, durability } = await recorded(store, {
        action: 'key.update',
        target: id,
        warn: terminal.error,
        work: () => operationsOn(store).update(id, edits),
        resultOf: resultOfKey,
      });
      const report = keyReport(key, store.plans);
      if (words.options.json === true) terminal.out(json(report));
      else {
        const ends = report.expiresAt === null ? 'never expires' : `expires ${report.expiresAt}`;
        terminal.out(`${id} is on plan ${report.plan} (${limitsText(report.limits)}) and ${ends}.\n`);
      }
      return exitCodeOf(durability, terminal);
    });
  },
};

function editsOf(words: Words, nowMs: number): KeyEdits {
  const { plan, name, owner, notes, expires } = words.options as Readonly<Record<string, string | undefined>>;
  const limits = readLimits(words, true);
  const edits: KeyEdits = {
    ...(plan === undefined ? {} : { plan }),
    ...(name === undefined ? {} : { name }),
    ...(owner === undefined ? {} : { owner }),
    ...(notes === undefined ? {} : { notes }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    ...(expires === undefined
      ? {}
      : { expiresAtMs: expires === 'never' ? null : readMoment('--expires', expires, nowMs) }),
  };
  if (Object.keys(edits).length > 0) return edits;
  throw new Failure('bad_usage', 'Nothing is to be changed. See `tollgate keys update --help`.');
}
