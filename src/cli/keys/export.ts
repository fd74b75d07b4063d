import { stringify } from 'csv-stringify/sync';
import { type ExitCode, Failure } from '../../failure.ts';
import { escapedText } from '../../io/terminal-text.ts';
import { allAttributes, cellOf, FIRST_ATTRIBUTES, FURTHER_ATTRIBUTES } from '../../model/attributes.ts';
import { limitsCell } from '../../model/plan.ts';
import { isReadable, isSuspended, type StoredKey, UnreadableRecord } from '../../model/record.ts';
import { timeOf } from '../../operations/key-report.ts';
import { customersOf, everyRecord } from '../../operations/operator-store.ts';
import { type OpenStore, withStore } from '../../serve/open-store.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { OF_STORE } from '../terminal/variables.ts';
import { UnreadableRecords } from '../unreadable-records.ts';

const HEADER = [
  ...(['id', 'plan'] as const),
  ...FIRST_ATTRIBUTES,
  ...(['limits', 'expires', 'created', 'revoked', 'last4', 'suspended', 'customer'] as const),
  ...FURTHER_ATTRIBUTES,
] as const;

/** `tollgate keys export`: prints every key, without its secrets. */
export const keysExport: Command = {
  name: 'keys export',
  about: 'Prints every API key without its secret, oldest first, as CSV by default, without those that are revoked.',
  positionals: [],
  environment: OF_STORE,
  examples: ['tollgate keys export > keys.csv', 'tollgate keys export --all --json'],
  options: {
    csv: {
      type: 'boolean',
      about:
        `Prints CSV with the header ${HEADER.join(',')}; limits are the key's own. What a spreadsheet would take for a ` +
        "formula (it begins with =, +, -, @, one of these in full width, a tab or CR) has a ' before it.",
    },
    json: {
      type: 'boolean',
      about:
        'Prints one JSON object a line, with the same members, limits as an object and null for what is not there.',
    },
    all: { type: 'boolean', about: 'Prints the revoked ones too.' },
  },
  async run({ options }, terminal) {
    if (options.csv === true && options.json === true) {
      throw new Failure('bad_usage', '--csv and --json are both given; give one of them.');
    }
    const isJson = options.json === true;
    return withStore<ExitCode>(terminal.env, async (store) => {
      if (!isJson) terminal.out(csvLine(HEADER, terminal));
      const unread = new UnreadableRecords();
      const planOf = plansOfKeys(store, unread);
      for await (const stored of everyRecord(store.keys)) {
        if (!isReadable(stored)) {
          unread.add(stored);
          continue;
        }
        if (options.all !== true && stored.revokedAtMs !== null) continue;
        const key = { ...stored, plan: await planOf(stored) };
        terminal.out(isJson ? `${JSON.stringify(membersOf(key))}\n` : csvLine(cellsOf(key), terminal));
      }
      unread.describe(
        terminal,
        (isOne) => `${isOne ? 'is' : 'are'} left out, or the plan where it is that of a customer`,
      );
      return unread.exitCode;
    });
  },
};

/** Finds the plan of a key: that of its customer, if it has one; null if that cannot be read. Each customer is read once. */
function plansOfKeys(store: OpenStore, unread: UnreadableRecords) {
  const known = new Map<string, Promise<string | null>>();
  const planOf = async (customer: string, key: StoredKey) => {
    const found = (await customersOf([key], store)).get(customer);
    if (!(found instanceof UnreadableRecord)) return found?.plan ?? key.plan;
    unread.add(found);
    return null;
  };
  return async (key: StoredKey) =>
    key.customer === undefined
      ? key.plan
      : known.getOrInsertComputed(key.customer, (customer) => planOf(customer, key));
}

type ExportedKey = Omit<StoredKey, 'plan'> & { readonly plan: string | null };

function membersOf(key: ExportedKey) {
  const { id, plan, limits, createdAtMs, expiresAtMs, revokedAtMs, customer } = key;
  return {
    id,
    plan,
    limits,
    expires: timeOf(expiresAtMs),
    created: timeOf(createdAtMs),
    revoked: timeOf(revokedAtMs),
    last4: key.secrets[0]?.last4 || null,
    suspended: isSuspended(key.suspended, Date.now()) ? timeOf(key.suspended.atMs) : null,
    customer: customer ?? null,
    ...allAttributes(key),
  };
}

function cellsOf(key: ExportedKey): readonly (string | null)[] {
  const { limits, ...rest } = membersOf(key);
  const members = { ...rest, limits: limitsCell(limits) };
  return HEADER.map((column) => {
    const cell = members[column];
    return cell === null ? null : cellOf(cell);
  });
}

/**
 * One record as text, with its line end. Attack: someone who may name keys names one `=HYPERLINK(...)`, and the
 * spreadsheet of the operator who opens the export runs it. A cell that a spreadsheet would run as a formula gets a `'` in
 * front.
 *
 * Attack: another program writes a name with escape sequences into the store. On a terminal they are escaped; a file has every cell as it is.
 */
export function csvLine(cells: readonly (string | null)[], { isTerminal }: Pick<Terminal, 'isTerminal'>): string {
  const shown = isTerminal ? cells.map((cell) => (cell === null ? null : escapedText(cell))) : cells;
  return stringify([shown], { escape_formulas: true, quoted_match: /^\s|\s$/ });
}
