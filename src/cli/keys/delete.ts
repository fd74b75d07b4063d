import { type ExitCode, Failure } from '../../failure.ts';
import type { StoredKey } from '../../identify/key-store.ts';
import { keyStateOf } from '../../operations/audit-trail.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import { exitCodeOf, operationsOn } from '../operations.ts';
import { outcomeOfDurability, recorded } from '../recorded-change.ts';
import type { Command } from '../terminal/command.ts';
import { json } from './text-form.ts';

/** `tollgate keys delete`: permanently removes a key that is revoked or has expired. */
export const keysDelete: Command = {
  name: 'keys delete',
  about:
    'Removes a revoked or expired API key for good, with its name, owner, notes, counters and ban. An import does not bring it back.',
  positionals: ['KEY_ID'],
  options: {
    yes: {
      type: 'boolean',
      short: 'y',
      about: 'Deletes without asking; required where there is no terminal to ask on.',
    },
    json: { type: 'boolean', about: 'Prints {"id","deleted"}.' },
  },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    const question = terminal.question ?? null;
    if (options.yes !== true && question === null) {
      throw new Failure('bad_usage', 'A key that is deleted cannot be had back. Give --yes to delete it.');
    }
    const work = async (store: OpenStore): Promise<ExitCode> => {
      if (options.yes !== true) {
        const key = await store.keys.get(id);
        // Nothing is asked about a key that does not exist or was deleted before.
        if (key !== null && !(await isConfirmed(key, question!))) {
          terminal.error('Nothing was deleted.\n');
          return 1;
        }
      }
      const { before, durability } = await recorded(store, {
        action: 'key.delete',
        target: id,
        warn: terminal.error,
        work: () => operationsOn(store).delete(id),
        resultOf: (deleted) => {
          const wasDeleted = deleted.before.deletedAtMs !== undefined;
          return {
            outcome: outcomeOfDurability(deleted.durability, wasDeleted),
            code: null,
            target: id,
            before: wasDeleted ? null : keyStateOf(deleted.before),
            after: null,
          };
        },
      });
      if (options.json === true) terminal.out(json({ id, deleted: true }));
      else terminal.out(`${id} ${before.deletedAtMs === undefined ? 'is deleted' : 'was deleted before'}.\n`);
      return exitCodeOf(durability, terminal);
    };
    return withStore(terminal.env, work, { needsPlans: false, warn: terminal.error });
  },
};

async function isConfirmed(
  { id, plan, name }: StoredKey,
  question: (text: string) => Promise<string>,
): Promise<boolean> {
  const named = name === null ? '' : `, "${name}"`;
  const answer = await question(`Delete ${id} (plan ${plan}${named}) for good? It cannot be had back. [y/N] `);
  return /^\s*y(es)?\s*$/i.test(answer);
}
