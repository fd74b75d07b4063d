import { UNBOUNDED } from '../admit/plan.ts';
import { WINDOWS, type WindowName } from '../admit/windows.ts';
import { type ExitCode, Failure } from '../failure.ts';
import { momentText } from '../io/time-text.ts';
import type { Action } from '../operations/audit-trail.ts';
import { isWindow, visible } from '../operations/input-values.ts';
import type { Operations } from '../operations/operations.ts';
import { changeOfUsage } from '../operations/recorded.ts';
import { insistOnMade, type UsageChange } from '../operations/usage-changes.ts';
import { withStore } from '../serve/open-store.ts';
import { operationsOn } from './operations.ts';
import { exitCodeOf, recordedByCommand } from './recorded-change.ts';
import type { Command, Terminal, Words } from './terminal/command.ts';
import { OF_STORE } from './terminal/variables.ts';

// The commands that change what a key has counted: `keys topup` and `usage reset`.

const ID_OPTION = {
  type: 'string',
  value: 'ID',
  about: 'Makes the change once: the same command with the same ID changes nothing for 24 h.',
} as const;

/** `tollgate keys topup`: adds to one window of a key until that window ends. */
export const keysTopUp: Command = {
  name: 'keys topup',
  about: 'Adds to the limit of one window of a key until that window ends. Running gateways apply it within a second.',
  positionals: ['KEY_ID'],
  environment: OF_STORE,
  examples: ['tollgate keys topup KEY_ID --window day --amount 500'],
  options: {
    window: { type: 'string', value: 'WINDOW', about: `The window, one of ${WINDOWS.join(', ')}.` },
    amount: { type: 'string', value: 'NUMBER', about: 'How much to add, a whole number from 1.' },
    id: ID_OPTION,
    json: { type: 'boolean', about: 'Prints {"id","window","amount","limit","until"}, the time in Unix seconds.' },
  },
  async run(words, terminal) {
    const topUp = { window: windowOf(words.options.window as string | undefined), amount: amountOf(words) };
    return changeUsage(words, terminal, {
      action: 'key.topup',
      change: (operations, id, once) => operations.topUp(id, topUp, once),
      textOf: ({ id, limit, until }, ends) =>
        until === null
          ? `The top-up has ended: ${id} has ${limit} a ${topUp.window}.\n`
          : `${id} has ${limit} a ${topUp.window}; the top-up ends ${ends(until)}.\n`,
    });
  },
};

/** `tollgate usage reset`: sets what a key has used to nothing. */
export const usageReset: Command = {
  name: 'usage reset',
  about:
    'Sets what a key has used to nothing and clears its strikes. Running gateways apply it within a second. A ban stays.',
  positionals: ['KEY_ID'],
  environment: OF_STORE,
  examples: ['tollgate usage reset KEY_ID', 'tollgate usage reset KEY_ID --window day'],
  options: {
    window: {
      type: 'string',
      multiple: true,
      value: 'WINDOW',
      about: 'Only this window; may be given once per window. Without it, all windows that the plan of the key counts.',
    },
    id: ID_OPTION,
    json: { type: 'boolean', about: 'Prints {"id","windows","ban"}; `ban` is the ban that stays, or null.' },
  },
  async run(words, terminal) {
    const given = words.options.window as readonly string[] | undefined;
    const windows = given === undefined ? null : [...new Set(given.map(windowOf))];
    return changeUsage(words, terminal, {
      action: 'usage.reset',
      change: (operations, id, once) => operations.resetUsage(id, windows, once),
      textOf: ({ id, windows: reset, ban }, ends) =>
        `The usage of ${id} is reset: ${reset.join(', ')}.\n${
          ban === null
            ? ''
            : `It is still banned; the ban ends ${ends(ban.until)}. \`tollgate bans lift ${id}\` lifts it.\n`
        }`,
    });
  },
};

interface UsageCommand<T> {
  readonly action: Action;
  readonly change: (operations: Operations, id: string, once: string | null) => Promise<UsageChange<T>>;
  /** @param moment writes Unix seconds */
  readonly textOf: (report: T, moment: (seconds: number) => string) => string;
}

async function changeUsage<T extends object>(
  { options, positionals }: Words,
  terminal: Terminal,
  { action, change, textOf }: UsageCommand<T>,
): Promise<ExitCode> {
  const [id] = positionals as [string];
  const once = (options.id as string | undefined) ?? null;
  if (once !== null && (once === '' || once.length > MAX_CHARACTERS)) {
    throw new Failure('bad_usage', `--id must have 1 to ${MAX_CHARACTERS} characters.`);
  }
  return withStore<ExitCode>(terminal.env, async (store) => {
    const { kind, report, durability } = await recordedByCommand(store, terminal.error, {
      action,
      target: id,
      work: async () => insistOnMade(await change(operationsOn(store), id, once), REUSED),
      changeOf: (changed) => changeOfUsage(id, changed),
    });
    const moment = (seconds: number) => momentText(seconds * 1000, Date.now(), terminal);
    if (kind === 'repeated') terminal.error('Nothing was changed: this change was made under this --id before.\n');
    terminal.out(options.json === true ? `${JSON.stringify(report, null, 2)}\n` : textOf(report, moment));
    return exitCodeOf(durability, terminal);
  });
}

const MAX_CHARACTERS = 255;
const REUSED = 'Another change of this key was made under this --id. Use a new one.';

function windowOf(text: string | undefined): WindowName {
  if (text !== undefined && isWindow(text)) return text;
  const was = text === undefined ? 'is missing' : `is '${visible(text)}'`;
  throw new Failure('bad_usage', `--window ${was}; it must be one of ${WINDOWS.join(', ')}.`);
}

function amountOf({ options }: Words): number {
  const text = options.amount as string | undefined;
  const amount = Number(text);
  if (text !== undefined && /^[1-9][0-9]{0,14}$/.test(text) && amount <= UNBOUNDED) return amount;
  const was = text === undefined ? 'is missing' : `is '${visible(text)}'`;
  throw new Failure('bad_usage', `--amount ${was}; it must be a whole number from 1 to ${UNBOUNDED}.`);
}
