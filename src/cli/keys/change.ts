import { type ExitCode, Failure } from '../../failure.ts';
import type { StoredKey } from '../../identify/key-store.ts';
import { escapedText } from '../../io/terminal-text.ts';
import { momentText } from '../../io/time-text.ts';
import type { KeyEdits } from '../../operations/key-changes.ts';
import { keyReport, keyReportWithSecret, timeOf } from '../../operations/key-report.ts';
import { changeOfDeletion, changeOfKey } from '../../operations/recorded.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { operationsOn } from '../operations.ts';
import { exitCodeOf, recordedByCommand } from '../recorded-change.ts';
import type { Command, Terminal, Words } from '../terminal/command.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { json, limitsText, readDuration, readLimits, readMoment } from './text-form.ts';

// The commands that change one key: `keys update`, `keys rotate`, `keys revoke` and `keys delete`.

/** `tollgate keys update`: changes the attributes of a key. Its secrets, counters and bans stay. */
export const keysUpdate: Command = {
  name: 'keys update',
  about: 'Changes the plan, limits, name, owner, notes or end of an API key. What it has used and its bans stay.',
  positionals: ['KEY_ID'],
  environment: OF_STORE,
  examples: [
    'tollgate keys update KEY_ID --plan business',
    'tollgate keys update KEY_ID --limit minute=500 --expires never',
  ],
  options: {
    plan: { type: 'string', value: 'PLAN', about: 'Moves it to another plan of plans.yaml.' },
    name: {
      type: 'string',
      value: 'NAME',
      about: 'What to call it, up to 100 characters; an empty one removes the name.',
    },
    owner: {
      type: 'string',
      value: 'OWNER',
      about: 'Whose it is, up to 100 characters; an empty one removes the owner.',
    },
    notes: { type: 'string', value: 'TEXT', about: 'Notes, up to 1000 characters; an empty text removes them.' },
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
      const { key, durability } = await recordedByCommand(store, terminal.error, {
        action: 'key.update',
        target: id,
        work: () => operationsOn(store).update(id, edits),
        changeOf: changeOfKey,
      });
      const report = keyReport(key, store.plans);
      if (words.options.json === true) terminal.out(json(report));
      else {
        const ends =
          report.expiresAt === null
            ? 'never expires'
            : `expires ${momentText(Date.parse(report.expiresAt), Date.now(), terminal)}`;
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

/** `tollgate keys rotate` (contract section 5). */
export const keysRotate: Command = {
  name: 'keys rotate',
  about: 'Makes a new secret for an API key and shows it once. The old secret keeps working for a while.',
  positionals: ['KEY_ID'],
  environment: OF_STORE,
  examples: ['tollgate keys rotate KEY_ID --overlap 24h', 'tollgate keys rotate KEY_ID --overlap 0s'],
  options: {
    overlap: {
      type: 'string',
      value: 'DURATION',
      about: 'How long the old secret keeps working; default 24h. 0s ends it at once.',
    },
    json: { type: 'boolean', about: 'Prints the same JSON object as `keys create`, with the new secret.' },
  },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    const overlapMs = readDuration('--overlap', (options.overlap as string | undefined) ?? '24h');
    return withStore<ExitCode>(
      terminal.env,
      async (store) => {
        const { key, secret, durability } = await recordedByCommand(store, terminal.error, {
          action: 'key.rotate',
          target: id,
          work: () => operationsOn(store).rotate(id, overlapMs),
          changeOf: changeOfKey,
        });
        if (options.json === true) terminal.out(json(keyReportWithSecret(key, secret, store.plans)));
        else {
          terminal.out(`${id} has a new secret; the old one ${oldSecretText(key, terminal)}.\n\n  ${secret}\n\n`);
          terminal.out('This is the only time that it is shown. Keep it where you keep secrets.\n');
        }
        return exitCodeOf(durability, terminal);
      },
      { makesSecrets: true },
    );
  },
};

/** Until when the previous secret works. No secret works longer than its key. */
function oldSecretText({ secrets, expiresAtMs }: StoredKey, terminal: Terminal): string {
  const [, old] = secrets;
  if (old === undefined) return 'no longer works';
  const endsAtMs = Math.min(old.expiresAtMs ?? Infinity, expiresAtMs ?? Infinity);
  return `stops working ${momentText(endsAtMs, Date.now(), terminal)}`;
}

/** `tollgate keys revoke`: ends a key for good. Running gateways obey within a second (contract section 1). */
export const keysRevoke: Command = {
  name: 'keys revoke',
  about: 'Revokes an API key and all its secrets for good. Running gateways refuse it within a second.',
  positionals: ['KEY_ID'],
  environment: OF_STORE,
  examples: ['tollgate keys revoke KEY_ID', 'tollgate keys revoke KEY_ID --yes'],
  options: {
    yes: { type: 'boolean', short: 'y', about: 'Revokes without asking. Only on a terminal the command asks first.' },
    json: { type: 'boolean', about: 'Prints the key as `keys list` does, with revokedAt.' },
  },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    const question = options.yes === true ? null : (terminal.question ?? null);
    const work = async (store: OpenStore): Promise<ExitCode> => {
      if (question !== null) {
        const key = await store.keys.get(id);
        // Nothing is asked about a key that does not exist or was revoked before.
        if (key !== null && key.revokedAtMs === null) {
          const usedOn = await operationsOn(store).lastUsedOn(id);
          const lastUse = usedOn === null ? 'no use on record' : `last used ${usedOn}`;
          if (!(await isConfirmed('Revoke', key, lastUse, question))) {
            terminal.error('Nothing was revoked.\n');
            return 1;
          }
        }
      }
      const { before, key, durability } = await recordedByCommand(store, terminal.error, {
        action: 'key.revoke',
        target: id,
        work: () => operationsOn(store).revoke(id),
        changeOf: (changed) => changeOfKey(changed, changed.before.revokedAtMs !== null),
      });
      if (options.json === true)
        terminal.out(json({ ...keyReport(key, store.plans), revokedAt: timeOf(key.revokedAtMs) }));
      else if (before.revokedAtMs === null) terminal.out(`${id} is revoked.\n`);
      else terminal.out(`${id} was already revoked ${momentText(key.revokedAtMs!, Date.now(), terminal)}.\n`);
      return exitCodeOf(durability, terminal);
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};

/** `tollgate keys delete`: permanently removes a key that is revoked or has expired. */
export const keysDelete: Command = {
  name: 'keys delete',
  about:
    'Removes a revoked or expired API key for good, with its name, owner, notes, counters and ban. An import does not bring it back.',
  positionals: ['KEY_ID'],
  environment: OF_STORE,
  examples: ['tollgate keys delete KEY_ID', 'tollgate keys delete KEY_ID --yes'],
  options: {
    yes: {
      type: 'boolean',
      short: 'y',
      about: 'Deletes without asking; required without a terminal to ask on.',
    },
    json: { type: 'boolean', about: 'Prints {"id","deleted"}.' },
  },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    const question = terminal.question ?? null;
    if (options.yes !== true && question === null) {
      throw new Failure('bad_usage', 'A deleted key cannot be restored. Give --yes to delete it.');
    }
    const work = async (store: OpenStore): Promise<ExitCode> => {
      if (options.yes !== true) {
        const key = await store.keys.get(id);
        // Nothing is asked about a key that does not exist or was deleted before.
        if (key !== null && !(await isConfirmed('Delete', key, null, question!))) {
          terminal.error('Nothing was deleted.\n');
          return 1;
        }
      }
      const { before, durability } = await recordedByCommand(store, terminal.error, {
        action: 'key.delete',
        target: id,
        work: () => operationsOn(store).delete(id),
        changeOf: changeOfDeletion,
      });
      if (options.json === true) terminal.out(json({ id, deleted: true }));
      else terminal.out(`${id} ${before.deletedAtMs === undefined ? 'is deleted' : 'was deleted before'}.\n`);
      return exitCodeOf(durability, terminal);
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};

/** @param lastUse when it was used last, in words; null if that does not matter */
async function isConfirmed(
  verb: 'Revoke' | 'Delete',
  { id, plan, name, owner }: StoredKey,
  lastUse: string | null,
  question: (text: string) => Promise<string | null>,
): Promise<boolean> {
  const facts = [
    `plan ${plan}`,
    ...(name === null ? [] : [`"${escapedText(name)}"`]),
    ...(owner === null ? [] : [`of ${escapedText(owner)}`]),
    ...(lastUse === null ? [] : [lastUse]),
  ];
  const answer = await question(`${verb} ${id} (${facts.join(', ')}) for good? This cannot be undone. [y/N] `);
  return /^\s*y(es)?\s*$/i.test(answer ?? '');
}
