import { instantText, STEP_MS } from '../admit/history-report.ts';
import { type ExitCode, Failure } from '../failure.ts';
import { UnreadableRecord } from '../model/record.ts';
import type { InputOf } from '../operations/catalogue/operation.ts';
import { exportUsage } from '../operations/catalogue/usage-operations.ts';
import { type AskedSpan, MAX_EXPORTED, spanFrom } from '../operations/usage-history.ts';
import { meantId } from './meant-id.ts';
import { withOperations } from './operations-at.ts';
import { pagesOf } from './operations-interface.ts';
import type { Command, Placeholder } from './terminal/command.ts';
import { OF_OPERATIONS } from './terminal/variables.ts';
import { UnreadableRecords } from './unreadable-records.ts';
import { NOT_KEPT } from './usage-command.ts';
import { CSV_HEADER, USAGE_FORMATS } from './usage-formats.ts';

/** `tollgate usage export`: what every key used, for billing. */
export const usageExport: Command = {
  name: 'usage export',
  about:
    'Prints what every key used, one record for each key and hour or day in which it did anything, and one more for each unit, ' +
    'such as tokens, of the plans in force that it used. A record has the same id each time, so a billing system that has it already can replace it.',
  positionals: [],
  environment: OF_OPERATIONS,
  examples: [
    'tollgate usage export --from 31d',
    'tollgate usage export --from 31d --key key_BDo3nPq8Yw2mXtRz',
    'tollgate usage export --from 2026-11-01 --to 2026-12-01 --format csv',
    'tollgate usage export --from 31d --customer CUSTOMER_ID',
  ],
  options: {
    from: {
      type: 'string',
      value: 'WHEN',
      about:
        'Required. The first hour or day: a date such as 2026-11-01, an RFC 3339 time, or a duration before now such as 24h.',
    },
    to: {
      type: 'string',
      value: 'WHEN',
      about:
        'Where it ends; what begins then is not printed. By default it ends with the last full hour or day, which a note on standard error names.',
    },
    step: {
      type: 'string',
      value: 'STEP',
      about: 'hour (kept for 48 hours) or day (kept for 92 days, UTC); default day.',
    },
    key: {
      type: 'string',
      value: 'KEY_ID',
      about: 'Only this key, by id or name, also a revoked one, or this token caller (jwt_…).',
    },
    customer: {
      type: 'string',
      value: 'CUSTOMER_ID',
      about:
        'Only what was used while it belonged to this customer, by id or name: one record for each of its keys and token callers.',
    },
    format: {
      type: 'string',
      value: 'FORMAT',
      about:
        `ndjson, one JSON object a line; csv, with the header ${CSV_HEADER.join(',')}; or cloudevents, one CloudEvent a line, of hours and days ` +
        "that have ended. Default ndjson. In CSV, what a spreadsheet would take for a formula has a ' before it.",
    },
  },
  async run({ options }, terminal) {
    const given = options as Readonly<Record<string, string | undefined>>;
    const { format: name = 'ndjson' } = given;
    const format = Object.hasOwn(USAGE_FORMATS, name) ? USAGE_FORMATS[name]! : null;
    if (format === null) throw new Failure('bad_usage', '--format must be ndjson, csv or cloudevents.');
    const span = spanOf(given, format.isFinal);
    return withOperations<ExitCode>(terminal, async (at) => {
      const idOf = async (word: string | undefined, of: Placeholder) =>
        word === undefined ? undefined : meantId(at, word, { of, isRead: true, note: terminal.error });
      const of = { key: await idOf(given.key, 'KEY_ID'), customer: await idOf(given.customer, 'CUSTOMER_ID') };
      const [from, to] = [span.fromMs, span.toMs].map((atMs) => new Date(atMs).toISOString()) as [string, string];
      const asked = { from, to, step: span.step, ...of } as InputOf<typeof exportUsage>;
      const unread = new UnreadableRecords();
      let [header, isHistoryKept] = [format.header(terminal), true];
      for await (const { records, unreadable, isKept } of pagesOf(at, exportUsage, asked, { page: MAX_EXPORTED })) {
        for (const { id, reason } of unreadable) unread.add(new UnreadableRecord(id, reason));
        const lines = records.map((record) => format.line(record, terminal));
        // An unknown key is an error before anything is printed.
        terminal.out(header + lines.join(''));
        await terminal.flushed?.();
        [header, isHistoryKept] = ['', isKept];
      }
      if (given.to === undefined) terminal.error(noteOnEnd(span, format.isFinal));
      if (!isHistoryKept) terminal.error(NOT_KEPT);
      unread.describe(terminal, () => 'what was used is left out, or the plan where the record is that of a customer');
      return unread.exitCode;
    });
  },
};

/** @param isFinal whether it may have nothing that can still change */
function spanOf({ from, to, step = 'day' }: Readonly<Record<string, string | undefined>>, isFinal: boolean): AskedSpan {
  if (from === undefined) {
    throw new Failure('bad_usage', '--from is missing: say where the export begins, such as --from 2026-11-01.');
  }
  const nowMs = Date.now();
  const span = spanFrom({ from, to: to ?? null, step }, nowMs, (value) => `--${value}`);
  if ('fault' in span) throw new Failure('bad_usage', span.fault);
  // The present hour or day has not ended, and its record would have to be replaced.
  const endedMs = nowMs - (nowMs % STEP_MS[span.step]);
  if (to === undefined) return { ...span, toMs: endedMs };
  if (isFinal && span.toMs > endedMs) {
    const message = `--to ${to} is in the ${span.step} that has not ended, whose events would be counted before they are final. Leave --to out, or let it end at ${instantText(endedMs)}.`;
    throw new Failure('bad_usage', message);
  }
  return span;
}

/** Says what an export without --to leaves out. @param isFinal whether it may have nothing else */
function noteOnEnd({ step, toMs }: AskedSpan, isFinal: boolean): string {
  const [last, present] = [toMs - STEP_MS[step], toMs].map((atMs) => {
    const at = instantText(atMs);
    return step === 'day' ? at.slice(0, 10) : at;
  });
  const end = step === 'day' ? `${last}, the last full day (UTC)` : `the hour of ${last}, the last full one`;
  return (
    `note: The export ends with ${end}. What ${step === 'day' ? present : `the hour of ${present}`} has so far is left out, ` +
    `because it is not final${isFinal ? '' : `; --to ${instantText(toMs + STEP_MS[step])} includes it`}.\n`
  );
}
