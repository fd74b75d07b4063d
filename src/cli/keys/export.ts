import { stringify } from 'csv-stringify/sync';
import { type ExitCode, Failure } from '../../failure.ts';
import { escapedText } from '../../io/terminal-text.ts';
import {
  type Attributes,
  allAttributes,
  cellOf,
  FIRST_ATTRIBUTES,
  FURTHER_ATTRIBUTES,
} from '../../model/attributes.ts';
import { type Limits, limitsCell } from '../../model/plan.ts';
import { UnreadableRecord } from '../../model/record.ts';
import { listKeys } from '../../operations/catalogue/key-operations.ts';
import type { KeyReport } from '../../operations/key-report.ts';
import { withOperations } from '../operations-at.ts';
import { pagesOf } from '../operations-interface.ts';
import type { Command, Terminal } from '../terminal/command.ts';
import { OF_OPERATIONS } from '../terminal/variables.ts';
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
  environment: OF_OPERATIONS,
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
    return withOperations<ExitCode>(terminal, async (at) => {
      if (!isJson) terminal.out(csvLine(HEADER, terminal));
      const unread = new UnreadableRecords();
      for await (const { keys, unreadable } of pagesOf(at, listKeys, { all: options.all === true })) {
        for (const { id, reason } of unreadable) unread.add(new UnreadableRecord(id, reason));
        for (const key of keys) {
          if (key.unreadable !== undefined) unread.add(new UnreadableRecord(key.customer!.id, key.unreadable));
          terminal.out(isJson ? `${JSON.stringify(membersOf(key))}\n` : csvLine(cellsOf(key), terminal));
        }
      }
      unread.describe(
        terminal,
        (isOne) => `${isOne ? 'is' : 'are'} left out, or the plan where it is that of a customer`,
      );
      return unread.exitCode;
    });
  },
};

function membersOf(key: KeyReport) {
  const { id, plan, ownLimits, createdAt, expiresAt, revokedAt, secrets, suspended, customer } = key;
  return {
    id,
    plan,
    limits: ownLimits as Limits,
    expires: expiresAt,
    created: createdAt,
    revoked: revokedAt,
    last4: secrets[0]?.last4 ?? null,
    suspended: suspended?.since ?? null,
    customer: customer?.id ?? null,
    ...allAttributes(key as Partial<Attributes>),
  };
}

function cellsOf(key: KeyReport): readonly (string | null)[] {
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
