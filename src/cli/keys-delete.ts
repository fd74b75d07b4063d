import { stateOf } from '../admin/audit.ts';
import { Failure } from '../failure.ts';
import type { StoredKey } from '../identify/key-store.ts';
import type { Command, ExitCode } from './command.ts';
import { exitCodeOf, operationsOn } from './keys-operations.ts';
import { json } from './keys-report.ts';
import { type OpenStore, withStore } from './open-store.ts';
import { outcomeBy, recorded } from './recorded.ts';

/** `tollgate keys delete`: removes a key that is revoked or has expired, for good. */
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
        // A key that is not there, or was deleted before, is no question.
        if (key !== null && !(await isMeant(key, question!))) {
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
            outcome: outcomeBy(deleted.durability, wasDeleted),
            code: null,
            target: id,
            before: wasDeleted ? null : stateOf(deleted.before),
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

async function isMeant({ id, plan, name }: StoredKey, question: (text: string) => Promise<string>): Promise<boolean> {
  const named = name === null ? '' : `, "${name}"`;
  const answer = await question(`Delete ${id} (plan ${plan}${named}) for good? It cannot be had back. [y/N] `);
  return /^\s*y(es)?\s*$/i.test(answer);
}
