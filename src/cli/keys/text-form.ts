import { Failure } from '../../failure.ts';
import { limitsCell, UNBOUNDED } from '../../model/plan.ts';
import { isSuspended, type StoredKey, type UnreadableRecord } from '../../model/record.ts';
import { isLimitName, WINDOWS } from '../../model/values.ts';
import type { KeyReport } from '../../operations/key-report.ts';
import {
  DURATION_RULE,
  durationFrom,
  type GivenLimits,
  isWindow,
  limitFrom,
  MOMENT_RULE,
  momentFrom,
} from '../../operations/values.ts';
import type { CellsOf } from '../reading-command.ts';
import type { Words } from '../terminal/command.ts';
import type { Column } from '../terminal/table.ts';

// The text form of what a key has, for every command under `keys`: limits and times as options give them, and what
// is printed of a key.

/**
 * Reads every `--limit WINDOW=NUMBER`. The operator may give it once for each window.
 * @param withDefault whether `WINDOW=default` is allowed, which restores the plan's own number
 * @throws Failure `bad_usage`
 */
export function readLimits({ options }: Words, withDefault: boolean): GivenLimits {
  const limits: GivenLimits = {};
  for (const text of (options.limit ?? []) as readonly string[]) {
    const given = limitFrom(text);
    if (given === null || (given.limit === null && !withDefault)) throw wrong(text, withDefault);
    if (given.window in limits) throw new Failure('bad_usage', `--limit is given twice for ${given.window}.`);
    limits[given.window] = given.limit;
  }
  return limits;
}

function wrong(text: string, withDefault: boolean): Failure {
  const [name = ''] = text.split('=');
  if (isLimitName(name) && !isWindow(name)) {
    return new Failure(
      'bad_usage',
      `--limit is '${text}'; the limit ${name}, of a group of routes or a unit, is that of the plan for all its keys. Change it in plans.yaml, give another plan with --plan, or add to it for a while: \`tollgate keys topup\` or \`tollgate customers topup\` with --window ${name}.`,
    );
  }
  const words = withDefault ? '`unlimited` or `default`' : '`unlimited`';
  return new Failure(
    'bad_usage',
    `--limit is '${text}'; it must be WINDOW=NUMBER, such as minute=500: the window one of ${WINDOWS.join(', ')}, the number whole from 0 to ${UNBOUNDED}, or ${words}.`,
  );
}

/**
 * Reads the duration of an option, such as `30m`, `24h`, `90d` or `0s`.
 * @returns milliseconds
 * @throws Failure `bad_usage`
 */
export function readDuration(option: string, text: string): number {
  const ms = durationFrom(text);
  if (ms !== null) return ms;
  throw new Failure('bad_usage', `${option} is '${text}'; it ${DURATION_RULE}.`);
}

/**
 * Reads the moment of an option: a duration from now (`90d`), a date (midnight UTC) or an RFC 3339 time.
 * @returns Unix milliseconds
 * @throws Failure `bad_usage`
 */
export function readMoment(option: string, text: string, nowMs: number): number {
  const atMs = momentFrom(text, nowMs);
  if (atMs !== null) return atMs;
  throw new Failure('bad_usage', `${option} is '${text}'; it ${MOMENT_RULE}.`);
}

/** The limits that a key or a customer is held to; those that are set, if no request of it is admitted. */
export function heldText({ limits, heldTo }: Pick<KeyReport, 'limits' | 'heldTo'>): string {
  return limitsCell(heldTo ?? limits);
}

/** The column of the customers of keys. Without a customer among them the table is that of earlier versions. */
export const CUSTOMER: CellsOf<{ readonly customer?: CustomerOfKey | undefined }> = {
  head: 'customer',
  rank: 2.5,
  cell: ({ customer }) => customerCell(customer),
  isThere: ({ customer }) => customer !== undefined,
};
type CustomerOfKey = { readonly id: string; readonly name: string | null };

export function customerCell(customer: CustomerOfKey | undefined): string {
  return customer === undefined ? '-' : (customer.name ?? customer.id);
}

/** Whether a key can be used at `nowMs`: `active`, or a word that says why not. */
export function stateOf(
  { revokedAtMs, expiresAtMs, suspended }: StoredKey,
  customer: KeyReport['customer'],
  nowMs: number,
): string {
  if (revokedAtMs !== null) return 'revoked';
  if (expiresAtMs !== null && nowMs >= expiresAtMs) return 'expired';
  if (isSuspended(suspended, nowMs)) return 'suspended';
  return customer === undefined || customer.state === 'active' ? 'active' : `${customer.state} with its customer`;
}

/** What identifies a secret to operators without showing it: its last four characters, if they are known. */
export function secretLabelOf({ last4 }: { readonly last4: string | null }): string {
  return last4 === null || last4 === '' ? 'known by its hash' : `…${last4}`;
}

export function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** What lists print of a record that cannot be read, in JSON. */
export function unreadableEntry({ id, message }: UnreadableRecord) {
  return { id, unreadable: message };
}

/** The row of a table for it: its id, and its state, outcome or ban where the table has one. */
export function unreadableCells(id: string, columns: readonly Column[]): string[] {
  return columns.map(({ head }) =>
    head === 'id' ? id : ['state', 'outcome', 'ban'].includes(head) ? 'unreadable' : '-',
  );
}
