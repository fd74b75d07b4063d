import type { Step } from '../admit/history.ts';
import { instantText, STEP_MS, STEPS_KEPT } from '../admit/history-report.ts';
import { Failure } from '../failure.ts';
import type { OutputOf } from '../operations/catalogue/operation.ts';
import {
  showCustomerHistory,
  showCustomerUsage,
  showHistory,
  showUsage,
} from '../operations/catalogue/usage-operations.ts';
import type { KeyUsageReport } from '../operations/key-usage-report.ts';
import type { Print } from './operation-command.ts';
import { showCommand } from './reading-command.ts';
import type { Command, Words } from './terminal/command.ts';
import { barsOf } from './terminal/output.ts';
import { table } from './terminal/printed-table.ts';

const standing = showCommand({
  name: 'usage',
  operation: showUsage,
  ofCustomer: showCustomerUsage,
  positional: 'ID',
  examples: ['tollgate usage KEY_ID', 'tollgate usage CUSTOMER_ID --days 30'],
  spelled: { plan: { about: 'For a token caller (jwt_…): its plan, which only the tokens contain.' } },
  text: asText,
});

const history = showCommand({
  name: 'usage',
  operation: showHistory,
  ofCustomer: showCustomerHistory,
  positional: 'ID',
  examples: [],
  spelled: {
    unit: {
      about:
        'With --days or --hours: what to count, requests or a unit of plans.yaml, such as tokens; default requests.',
    },
  },
  hidden: ['from', 'to', 'step'],
  given(words) {
    const { step, fromMs } = stepsOf(words, Date.now())!;
    return { step, from: instantText(fromMs) };
  },
  text: asChart,
  note: ({ isKept }) => (isKept ? '' : NOT_KEPT),
});

/** `tollgate usage`: prints what a key has used in each window, or by hour or day. */
export const usage: Command = {
  ...standing,
  about:
    'Shows what a key, a token caller or a customer has used in each window of its plan, its strikes and its ban; with --days or ' +
    '--hours, what it used in each of the last days or hours.',
  printsTable: true,
  options: {
    ...standing.options,
    days: {
      type: 'string',
      value: 'N',
      about: `What was used in each of the last days (UTC), today included: 1 to ${STEPS_KEPT.day}.`,
    },
    hours: {
      type: 'string',
      value: 'N',
      about: `What was used in each of the last hours, the present one included: 1 to ${STEPS_KEPT.hour}.`,
    },
    unit: history.options.unit!,
    json: {
      type: 'boolean',
      about: `${standing.options.json!.about} With --days or --hours, as \`GET /admin/keys/{id}/history\` gives it.`,
    },
  },
  async run(words, terminal) {
    if (stepsOf(words, Date.now()) !== null) return history.run(words, terminal);
    if (words.options.unit === undefined) return standing.run(words, terminal);
    throw new Failure('bad_usage', '--unit is for --days or --hours; give one of them.');
  },
};

/** For a report of a history that the settings switch off. */
export const NOT_KEPT = 'warning: no history is kept at present. Set `usage: { history: on }` in gateway.yaml.\n';

interface LastSteps {
  readonly step: Step;
  /** The beginning of the first hour or day, and the end of the present one; Unix milliseconds. */
  readonly fromMs: number;
  readonly toMs: number;
}

/** Null if neither days nor hours are asked for. @throws Failure `bad_usage` */
function stepsOf({ options: { days, hours } }: Words, nowMs: number): LastSteps | null {
  if (days !== undefined && hours !== undefined) {
    throw new Failure('bad_usage', '--days and --hours are both given; give one of them.');
  }
  if (days === undefined && hours === undefined) return null;
  const step = days === undefined ? 'hour' : 'day';
  const given = String(days ?? hours);
  const most = STEPS_KEPT[step];
  if (!/^[1-9][0-9]?$/.test(given) || Number(given) > most) {
    throw new Failure('bad_usage', `--${step}s must be a whole number from 1 to ${most}.`);
  }
  const toMs = nowMs - (nowMs % STEP_MS[step]) + STEP_MS[step];
  return { step, fromMs: toMs - Number(given) * STEP_MS[step], toMs };
}

/**
 * A line for each hour or day. A terminal leaves out those without use, and has a bar for what was admitted, and the sums. Units have no
 * refusals.
 */
function asChart({ unit, buckets }: OutputOf<typeof showHistory>, { nowMs, terminal }: Print, words: Words): string {
  const { step, fromMs, toMs } = stepsOf(words, nowMs)!;
  const used = new Map(buckets.map((bucket) => [bucket.at, bucket]));
  const heads = unit === undefined ? [step, 'admitted', 'refused', 'banned'] : [step, unit];
  const steps: (readonly [at: string, counts: readonly number[]])[] = [];
  for (let atMs = fromMs; atMs < toMs; atMs += STEP_MS[step]) {
    const at = instantText(atMs);
    const { admitted, refused, banned } = used.get(at) ?? { admitted: 0, refused: 0, banned: 0 };
    steps.push([step === 'day' ? at.slice(0, 10) : at, unit === undefined ? [admitted, refused, banned] : [admitted]]);
  }
  const rowsOf = (some: typeof steps) => some.map(([at, counts]) => [at, ...counts.map(String)]);
  if (!terminal.isTerminal) return table(heads, rowsOf(steps), terminal);
  const busy = steps.filter(([, counts]) => counts.some((count) => count > 0));
  if (busy.length === 0) return `Nothing was used in the last ${steps.length} ${step}s.\n`;
  const sums = heads.slice(1).map((_, i) => busy.reduce((sum, [, counts]) => sum + counts[i]!, 0));
  const rows = rowsOf([...busy, ['sum', sums]]);
  const width = Math.min(terminal.columns ?? WIDTH, WIDTH) - widthOf(heads, rows);
  const bars = barsOf(
    busy.map(([, [admitted]]) => admitted!),
    Math.max(width, 1),
  );
  const left = steps.length - busy.length;
  const note = left === 0 ? '' : `${left} of ${steps.length} ${step}s without use are left out.\n`;
  return (
    table(
      [...heads, { head: '', rank: 5 }],
      rows.map((row, i) => [...row, bars[i] ?? '']),
      terminal,
    ) + note
  );
}

/** Columns of the narrowest usual terminal. Longer bars are harder to compare. */
const WIDTH = 80;
const GAP = 2;

/** The columns that a table of these cells takes, with the gap before a further column. */
function widthOf(heads: readonly string[], rows: readonly (readonly string[])[]): number {
  const widths = heads.map((head, i) => Math.max(head.length, ...rows.map((row) => row[i]!.length)));
  return widths.reduce((sum, width) => sum + width + GAP, 0);
}

function asText(report: KeyUsageReport, { seconds: moment, terminal }: Print): string {
  const shadow = report.shadow === undefined ? '' : `watched only: ${watched(report.shadow, moment)}\n`;
  const rows = Object.entries(report.windows).map(([window, { limit, used, remaining, resetAt }]) => [
    window,
    String(limit),
    String(used),
    String(remaining),
    moment(resetAt),
  ]);
  const ban = report.ban === null ? 'not banned' : `ban ${report.ban.number}, ends ${moment(report.ban.until)}`;
  return `${report.id}, plan ${report.plan}\n${table(['window', 'limit', 'used', 'remaining', 'resets'], rows, terminal)}${topUpsText(report, moment)}strikes: ${report.strikes}, ${ban}\n${shadow}`;
}

/** A line for each top-up in force, and one for the rest of the sum, whose top-ups are not known one by one. */
function topUpsText({ windows }: KeyUsageReport, moment: (seconds: number) => string): string {
  const lines = Object.entries(windows).flatMap(([window, { topUp }]) => {
    if (topUp === null) return [];
    const { amount: sum, parts, until } = topUp;
    const toppedUp = (amount: number) => `${window}: topped up by ${amount} until ${moment(until)}`;
    const rest = parts.reduce((left, { amount }) => left - amount, sum);
    const known = parts.map(
      ({ id, amount, reason }) => `${toppedUp(amount)}${reason === null ? '' : `, ${reason}`} (${id})`,
    );
    return rest > 0 ? [toppedUp(rest), ...known] : known;
  });
  return lines.map((line) => `${line}\n`).join('');
}

function watched({ windows, ban }: NonNullable<KeyUsageReport['shadow']>, moment: (seconds: number) => string): string {
  const used = Object.entries(windows).map(([window, { limit, used }]) => `${window} ${used} of ${limit}`);
  return `${used.join(', ')}${ban === null ? '' : `, would be banned; the ban would end ${moment(ban.until)}`}`;
}
