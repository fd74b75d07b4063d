import { escapedText, type Style, type Tone } from '../io/terminal-text.ts';
import { padded, shortened, widthOf, wrapped } from '../io/text-width.ts';
import { spanText } from '../io/time-text.ts';

// How a terminal shows a record of the log. Every text of the record goes through `escapedText` before it is measured or printed.

/** A parsed line of the log (docs/reference/log.md). */
export type LogRecord = Readonly<Record<string, unknown>>;

/** The columns before a request's path: time, status, method, duration. */
const METHOD_WIDTH = 7;
const DURATION_WIDTH = 7;
/** Between the path and what follows. */
const GAP = '  ';
/** The path is aligned to this share of the columns that it shares with the text after it, within these bounds. */
const PATH_SHARE = 0.34;
const MIN_PATH = 12;
const MAX_PATH = 36;
/** Maximum rows of a record that is not a request. */
const MAX_ROWS = 8;

/** Whether a record is about requests: one, or several refusals. */
function isRequest({ msg }: LogRecord): boolean {
  return msg === 'request' || msg === 'refusals';
}

/**
 * Formats a record for a terminal.
 * @param columns of the terminal; no row is as wide as that, because some terminals wrap a full row
 * @returns the rows, without line feeds: one for a request, up to eight for another record
 */
export function rowsOf(record: LogRecord, columns: number, style: Style): string[] {
  return isRequest(record) ? [requestRow(record, columns - 1, style)] : eventRows(record, columns - 1, style);
}

function requestRow(record: LogRecord, width: number, style: Style): string {
  const status = numberOf(record.status);
  const head = [
    { tone: 'dim', text: localTime(record.time) },
    { tone: toneOf(status), text: String(status).padStart(3) },
    { tone: null, text: padded(shortened(textOf(record.method), 12), METHOD_WIDTH) },
    { tone: 'dim', text: tookText(numberOf(record.totalMs)).padStart(DURATION_WIDTH) },
  ] as const;
  const room = width - head.reduce((sum, { text }) => sum + widthOf(text) + 1, 0);
  const { path, detail } = placed(record.path === null ? '-' : textOf(record.path), detailsOf(record), room);
  const whole = [...head, { tone: null, text: path }] as const;
  if (room < MIN_PATH) return shortened([...whole.map(({ text }) => text), detail].join(' '), width);
  const isBad = record.code !== null && status !== 499;
  return `${whole.map(({ tone, text }) => (tone === null ? text : style(tone, text))).join(' ')}${style(isBad ? toneOf(status) : 'dim', detail)}`;
}

/** Texts of the same content for the place after the path, the longest first. */
interface Details {
  readonly texts: readonly string[];
  /** The index of the shortest text that is still sufficient. For it the path gives up its alignment. */
  readonly vital: number;
}

/** Fits a path and the text after it into `room` columns. */
function placed(path: string, { texts, vital }: Details, room: number): { path: string; detail: string } {
  const pathWidth = widthOf(path);
  const aligned = Math.min(Math.max(Math.round(room * PATH_SHARE), MIN_PATH), MAX_PATH);
  for (const choices of [texts.slice(0, vital + 1), texts]) {
    for (const column of [Math.max(aligned, pathWidth), pathWidth]) {
      const detail = choices.find((text) => widthOf(text) <= room - column - GAP.length);
      if (detail !== undefined) return { path: padded(path, column), detail: joined(detail) };
    }
  }
  const short = shortened(path, Math.max(MIN_PATH, room - GAP.length - widthOf(texts.at(-1)!)));
  return { path: short, detail: joined(shortened(texts.at(-1)!, room - widthOf(short) - GAP.length)) };
}

const joined = (detail: string) => (detail === '' ? '' : `${GAP}${detail}`);

/** The text after the path. */
function detailsOf(record: LogRecord): Details {
  const count = numberOf(record.count);
  const times = count > 1 ? ` ×${grouped(count)}` : '';
  const consumer = record.consumerId === null ? '' : `  ${textOf(record.consumerId)}`;
  const target = record.target === null ? '' : ` → ${textOf(record.target).replace(/^https?:\/\//, '')}`;
  const plan = textOf(record.plan ?? '');
  if (record.code !== null) {
    const { texts, vital } = reasonsOf(record, plan);
    const full = [`${texts[0]}${times}${consumer}${target}`, ...texts.map((reason) => `${reason}${times}${target}`)];
    return { texts: [...full, `${texts.at(-1)}${times}`], vital: vital + 1 };
  }
  const window = textOf(record.window ?? '');
  const left = numberIn(record.remaining, window);
  const limit = numberIn(record.limits, window);
  const shadow = shadowOf(record);
  const standing = left === null || limit === null ? '' : `, ${grouped(left)} of ${grouped(limit)} a ${window} left`;
  const brief = left === null ? '' : `, ${grouped(left)} left`;
  const texts = [
    `${plan}${standing}${shadow}${consumer}${times}${target}`,
    `${plan}${standing}${shadow}${times}${target}`,
    `${plan}${brief}${shadow}${times}${target}`,
    `${plan}${brief}${shadow}${times}`,
    `${plan}${times}`,
  ];
  return { texts: texts.map((text) => text.trimStart()), vital: texts.length - 1 };
}

/** Why a request was refused or failed. */
function reasonsOf(record: LogRecord, plan: string): Details {
  const { code, cause, imposedBan, window } = record;
  const end = againIn(record);
  const quota = `${textOf(window ?? '')} quota of plan ${plan}`;
  if (code === 'rate_limit_exceeded') {
    const left = numberIn(record.remaining, textOf(window ?? ''));
    const whole = left === null ? `${quota}${end}` : `${quota}, ${grouped(left)} left${end}`;
    return { texts: [whole, `${quota}${end}`, `${textOf(window ?? '')} quota${end}`], vital: 1 };
  }
  if (code === 'api_key_banned') {
    const ban = imposedBan === null ? 'banned' : `ban ${numberOf(imposedBan)} begins`;
    const why = `${ban} for requests beyond the ${quota}${end}`;
    return { texts: [why, `${ban}, ${textOf(window ?? '')} quota${end}`, `${ban}${end}`], vital: 2 };
  }
  const words = textOf(code).replaceAll('_', ' ').replace('api key', 'API key');
  const why = cause === null ? words : `${words}: ${textOf(cause)}`;
  const texts = record.policy === undefined ? [] : [`${why} (policy ${textOf(record.policy)})`];
  return { texts: cause === null ? [...texts, words] : [...texts, why, words], vital: 0 };
}

function shadowOf({ shadow }: LogRecord): string {
  return shadow === 'refused' || shadow === 'banned' ? `, ${shadow} in shadow` : '';
}

function againIn({ retryAtMs, decidedAtMs }: LogRecord): string {
  if (typeof retryAtMs !== 'number' || typeof decidedAtMs !== 'number') return '';
  return `, again in ${spanText(Math.max(0, retryAtMs - decidedAtMs), Math.ceil)}`;
}

/** Members that are not shown as fields: they are in the row already, or only programs use them. */
const UNSHOWN = new Set(['level', 'time', 'msg', 'err', 'requestId', 'before', 'after', 'v', 'pid']);

function eventRows(record: LogRecord, width: number, style: Style): string[] {
  const level = numberOf(record.level);
  const [word, tone]: [string, Tone] =
    level >= 50 ? ['error', 'red'] : level >= 40 ? ['warn', 'yellow'] : ['info', 'dim'];
  const time = localTime(record.time);
  const indent = ' '.repeat(time.length + 7);
  const room = Math.max(width - indent.length, 1);
  const [message, ...more] = rowsWithin(
    `${textOf(record.msg)}${errorOf(record.err)}${fieldsOf(record)}`,
    room,
    MAX_ROWS,
  );
  if (width <= indent.length + MIN_PATH) return [shortened(`${time} ${word} ${message}`, width)];
  const first = `${style('dim', time)} ${style(tone, word.padEnd(5))} ${message}`;
  return [first, ...[...more, ...stackOf(record, room)].slice(0, MAX_ROWS - 1).map((row) => `${indent}${row}`)];
}

function fieldsOf(record: LogRecord): string {
  const fields = Object.entries(record)
    .filter(([name, value]) => !UNSHOWN.has(name) && value !== null)
    .map(([name, value]) => `${textOf(name)} ${textOf(value)}`);
  return fields.length === 0 ? '' : `: ${fields.join(', ')}`;
}

function errorOf(err: unknown): string {
  return isRecord(err) ? ` (${textOf(err.message)})` : '';
}

/** Where an error came from: only a defect has a level of `error` and a stack worth reading. */
function stackOf({ err, msg }: LogRecord, room: number): string[] {
  if (!isRecord(err) || typeof err.stack !== 'string' || !String(msg).startsWith('a defect')) return [];
  return err.stack
    .split('\n')
    .slice(1)
    .map((row) => shortened(escapedText(row.trim()), room));
}

function isRecord(value: unknown): value is LogRecord {
  return typeof value === 'object' && value !== null;
}

/** A value of a record as printable text. */
function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(textOf).join(' and ');
  return escapedText(typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value));
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}

function numberIn(values: unknown, name: string): number | null {
  const value = isRecord(values) ? values[name] : null;
  return typeof value === 'number' ? value : null;
}

function toneOf(status: number): Tone {
  if (status >= 500) return 'red';
  if (status >= 400) return 'yellow';
  return status >= 300 ? 'cyan' : 'green';
}

const DIGITS = new Intl.NumberFormat('en-US');

/** A whole number with commas between thousands. */
export function grouped(amount: number): string {
  return DIGITS.format(amount);
}

/** `hh:mm:ss` in the time zone of this machine. */
function localTime(time: unknown): string {
  const date = new Date(String(time));
  const two = (part: number) => String(part).padStart(2, '0');
  if (Number.isNaN(date.getTime())) return '--:--:--';
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** How long a request took, in at most seven characters for anything below 27 hours. */
export function tookText(ms: number): string {
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.round(ms / 60_000)} min`;
}

/**
 * Breaks text into rows of at most `width` cells, between words where it can.
 * @param most rows; the last one is cut
 */
export function rowsWithin(text: string, width: number, most: number): string[] {
  const rows = wrapped(text, width).flatMap((line) => pieces(line, width));
  return rows.length <= most ? rows : [...rows.slice(0, most - 1), shortened(rows.slice(most - 1).join(' '), width)];
}

function pieces(line: string, width: number): string[] {
  const rows = [];
  let row = '';
  for (const character of line) {
    if (row !== '' && widthOf(row + character) > width) {
      rows.push(row);
      row = '';
    }
    row += character;
  }
  return [...rows, row];
}
