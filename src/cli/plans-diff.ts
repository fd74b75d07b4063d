import type { Plans } from '../admit/plan.ts';
import { Failure } from '../failure.ts';
import type { Command, Terminal } from './command.ts';
import { withStore } from './open-store.ts';
import { changesBetween, type PlansChange } from './plans-changes.ts';
import { readPlansFile } from './plans-file.ts';
import { countLiveKeys } from './plans-live-keys.ts';
import { Progress } from './plans-progress.ts';
import { table } from './table.ts';

/** `tollgate plans diff`: what one file of plans changes in another (contract section 1). */
export const plansDiff: Command = {
  name: 'plans diff',
  about: 'Tells which limits and bans differ between two files of plans, and which keys that touches.',
  positionals: ['OLD', 'NEW'],
  options: {
    against: {
      type: 'boolean',
      about:
        'Counts the live keys that each change touches, in the store of the settings; a plan that live keys use and NEW ' +
        'lacks, without naming it in `removed`, makes the exit code 1.',
    },
    json: {
      type: 'boolean',
      about: 'Prints one JSON object: old, new, changes with plan, what, change, from, to, keys, breaks.',
    },
  },
  async run({ options, positionals }, terminal) {
    const [old, now] = positionals as [string, string];
    if (old === now) throw new Failure('bad_usage', 'OLD and NEW are the same file.');
    const [before, after] = [readPlansFile(old, terminal), readPlansFile(now, terminal)];
    if (before === null || after === null) return 1;
    const live = options.against === true ? await liveKeys(now, terminal) : null;
    const changes = changesBetween(before, after, live);
    if (options.json === true) terminal.out(`${JSON.stringify({ old, new: now, changes }, null, 2)}\n`);
    else if (changes.length === 0) terminal.out(`${old} and ${now} allow the same.\n`);
    else terminal.out(table(['plan', 'what', 'change', 'from', 'to', 'live keys', ''], changes.map(cellsOf), terminal));
    return changes.some((it) => isRefused(it, after)) ? 1 : 0;
  },
};

function liveKeys(plans: string, terminal: Terminal) {
  const progress = new Progress(terminal, () => performance.now());
  const env = { ...terminal.env, TOLLGATE_PLANS: plans };
  return withStore(
    env,
    async ({ keys }) => {
      const live = await countLiveKeys(keys, Date.now(), {
        goOn: (looked) => {
          progress.show('keys', looked, null, String);
          return true;
        },
      });
      progress.end();
      return live;
    },
    { warn: terminal.error },
  );
}

/** What a gateway would not take. */
function isRefused({ plan, what, change, keys }: PlansChange, { removed }: Plans): boolean {
  return what === 'plan' && change === 'removed' && keys !== null && keys > 0 && !removed.includes(plan!);
}

function cellsOf({ plan, what, change, from, to, keys, breaks }: PlansChange): string[] {
  const warning = breaks && keys !== 0 ? 'could not be served any more' : '';
  return [plan ?? '-', what, change, String(from ?? '-'), String(to ?? '-'), String(keys ?? '-'), warning];
}
