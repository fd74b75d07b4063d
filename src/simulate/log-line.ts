import { MAX_UNITS } from '../model/plan.ts';
import { DECIDED_JUDGEMENTS } from '../model/refusal.ts';
import { isSharedName } from './ordering-limit.ts';

/** Indexes in DECIDED_JUDGEMENTS. */
export const [ADMITTED, REFUSED, BANNED] = [0, 1, 2] as const;

/** What a line of the log means for a replay. */
export type LineKind =
  /** One or several requests that were decided by the limits of a plan. */
  | 'decided'
  /** The same on a route without keys, where gateway.yaml limits each address. */
  | 'public'
  /** A request of an identified consumer without a decision: the store was away, or the client disconnected. */
  | 'undecided'
  /** A request that needs no decision: unidentified, malformed, shed, of a suspended key, a preflight, or for usage. */
  | 'other'
  /** Not an access line. */
  | 'foreign'
  /** An access line that cannot be read. */
  | 'broken';

/** What a request took of one unit in advance, and what it paid in the end; a refused one took nothing, and would have. */
export interface RecordedUnit {
  readonly unit: string;
  readonly reserved: number;
  readonly settled: number;
}

/**
 * Reads access lines, more than a hundred per millisecond: it searches for the names in the order in which the gateway
 * writes them and skips everything that a replay does not need. A line in another order or with white space, as other
 * programs write JSON, is parsed as JSON.
 *
 * `read` leaves its result in the members of this object until the next call. One object serves all lines, because a day
 * may have ten million.
 */
export class LogLine {
  consumerId = '';
  /** Empty for a consumer without a customer. */
  customerId = '';
  plan = '';
  /** Index in DECIDED_JUDGEMENTS. */
  judgement: number = ADMITTED;
  cost = 0;
  /** The number of the ban that this request caused; 0 if none. */
  imposedBan = 0;
  decidedAtMs = 0;
  /** Decided by a gateway alone while its store was away. */
  isLocal = false;
  /** Refused by a gateway from memory, without a call to the store. */
  isFromMemory = false;
  /** The members of `limits` as text: `"minute":60,"day":1000`. */
  limits = '';
  /** What it charges in units of their own: at most MAX_UNITS. */
  units: readonly RecordedUnit[] = NO_UNITS;
  /** The use of one of them after this request (ordering-limit.ts). It orders decisions of the same millisecond. */
  used = 0;
  /** How many requests the line stands for: above 1 in summaries of refusals. */
  count = 1;
  /** The share of such lines that the gateway has written: below 1 for sampled 2xx answers. */
  sample = 1;
  /** The raw path; null if the line has none, or paths are not read. */
  path: string | null = null;
  method = '';
  readonly #readsPaths: boolean;

  /** @param readsPaths whether `path` and `method` are read */
  constructor(readsPaths = false) {
    this.#readsPaths = readsPaths;
  }

  /** @param text in which each byte of the log is one character (latin1) */
  read(text: string, start: number, end: number): LineKind {
    const isOurs = text.startsWith(END, end - END.length) || text.startsWith(SUMMARY_END, end - SUMMARY_END.length);
    // Log collectors may have put something before an access line.
    if (!text.startsWith('{', start)) return isOurs ? 'broken' : 'foreign';
    // A slice, so that a search for a missing name ends with the line.
    const line = text.slice(start, end);
    return (isOurs ? this.#readInOrder(line) : null) ?? this.#parse(line);
  }

  /** Null if the line is not in the order in which the gateway writes it. */
  #readInOrder(text: string): LineKind | null {
    let at = indexAfter(text, '"consumerId":', 0);
    if (at === -1) return null;
    const isKnown = text.charCodeAt(at) === QUOTE;
    if (isKnown) {
      const close = text.indexOf('"', at + 1);
      this.consumerId = text.slice(at + 1, close);
      this.#readCustomer(text, close + 1);
      if (this.#readsPaths && !this.#readPath(text, close)) return null;
      at = indexAfter(text, ',"plan":"', close);
      if (at === -1 || !isPlain(this.consumerId)) return null;
      const planEnd = text.indexOf('"', at);
      this.plan = text.slice(at, planEnd);
      if (!isPlain(this.plan)) return null;
      at = planEnd;
    }
    at = indexAfter(text, ',"judgement":"', at);
    const judgement = at === -1 ? undefined : judgementAt(text, at);
    if (at === -1) return null;
    if (judgement === undefined)
      return isKnown && WITHOUT_VERDICT.test(text.slice(at, at + 16)) ? 'undecided' : 'other';
    if (!isKnown) return 'public';
    this.judgement = judgement;
    return this.#readDecision(text, at);
  }

  #readCustomer(text: string, from: number): void {
    const isOfCustomer = text.startsWith(CUSTOMER, from);
    const at = from + CUSTOMER.length;
    this.customerId = isOfCustomer ? text.slice(at, text.indexOf('"', at)) : '';
  }

  /** @returns false if the path needs the JSON parser */
  #readPath(text: string, consumerAt: number): boolean {
    const path = indexAfter(text, ',"path":"', 0);
    const method = indexAfter(text, ',"method":"', consumerAt);
    if (path === -1 || path > consumerAt || method === -1) return false;
    this.path = text.slice(path, text.indexOf('"', path));
    this.method = text.slice(method, text.indexOf('"', method));
    return isPlain(this.path);
  }

  #readDecision(text: string, from: number): LineKind | null {
    const cost = indexAfter(text, ',"cost":', from);
    const ban = indexAfter(text, ',"imposedBan":', cost);
    const source = indexAfter(text, ',"source":', ban);
    const limits = indexAfter(text, ',"limits":{', source);
    const decided = indexAfter(text, ',"decidedAtMs":', limits);
    const remaining = indexAfter(text, ',"remaining":{', decided);
    const rest = remaining === -1 ? -1 : text.indexOf('}', remaining);
    const last = indexAfter(text, ',"upstreamMs":', rest);
    if (cost === -1 || ban === -1 || decided === -1 || source === -1 || limits === -1 || last === -1) return null;
    this.cost = numberAt(text, cost);
    this.imposedBan = numberAt(text, ban);
    this.decidedAtMs = numberAt(text, decided);
    this.isLocal = text.startsWith('"local"', source);
    this.isFromMemory = text.charCodeAt(source + 1) === SMALL_M;
    // Few lines have top-ups.
    if (text.startsWith(',"topUps":', rest + 1)) return null;
    this.limits = text.slice(limits, text.indexOf('}', limits));
    this.used = this.limits === '' ? 0 : this.#usedOf(text.slice(remaining, rest));
    // Nearly every line has no units, and this next.
    const units = text.startsWith(',"totalMs":', rest + 1) ? -1 : indexAfter(text, ',"units":', rest);
    this.units = units === -1 ? NO_UNITS : unitsIn(text.slice(units, text.indexOf('}}', units) + 2));
    const more = text.indexOf(',', last);
    this.count = text.startsWith(',"count":', more) ? numberAt(text, more + 9) : 1;
    this.sample = text.startsWith(',"sample":', more) ? Number.parseFloat(text.slice(more + 10, more + 32)) : 1;
    if (this.count === 1 && this.sample === 1 && !text.startsWith(',"msg":', more)) return null;
    return this.#checked();
  }

  /** @param remaining the members of `remaining` as text */
  #usedOf(remaining: string): number {
    if (this.customerId !== '') {
      const name = this.limits.match(SHARED)?.[0];
      if (name !== undefined) return numberAfter(this.limits, name) - numberAfter(remaining, name);
    }
    return firstNumber(this.limits, 0) - firstNumber(remaining, 0);
  }

  #parse(text: string): LineKind {
    let line: Record<string, unknown>;
    try {
      line = JSON.parse(Buffer.from(text, 'latin1').toString());
    } catch {
      return text.startsWith('{"level":') ? 'broken' : 'foreign';
    }
    if (line.msg !== 'request' && line.msg !== 'refusals') return 'foreign';
    const judgement = (DECIDED_JUDGEMENTS as readonly unknown[]).indexOf(line.judgement);
    if (typeof line.consumerId !== 'string') return judgement === -1 ? 'other' : 'public';
    if (judgement === -1) return WITHOUT_VERDICT.test(`${line.judgement}"`) ? 'undecided' : 'other';
    const limits = Object.entries((line.limits ?? {}) as Record<string, unknown>);
    const left = (line.remaining ?? {}) as Record<string, unknown>;
    this.consumerId = line.consumerId;
    this.customerId = typeof line.customerId === 'string' ? line.customerId : '';
    this.path = typeof line.path === 'string' ? line.path : null;
    this.method = String(line.method ?? '');
    this.plan = String(line.plan);
    this.judgement = judgement;
    this.cost = Number(line.cost);
    this.imposedBan = Number(line.imposedBan ?? 0);
    this.decidedAtMs = Number(line.decidedAtMs ?? Number.NaN);
    this.isLocal = line.source === 'local';
    this.isFromMemory = line.source === 'memory';
    const topUps = (line.topUps ?? {}) as Record<string, unknown>;
    this.limits = limits
      .map(([window, limit]) => `"${window}":${Number(limit) - Number(topUps[window] ?? 0)}`)
      .join(',');
    const [name, limit] =
      (this.customerId === '' ? undefined : limits.find(([name]) => isSharedName(name))) ?? limits[0] ?? [];
    this.used = name === undefined ? 0 : Number(limit) - Number(left[name] ?? 0);
    this.units = line.units === undefined ? NO_UNITS : unitsOf(line.units);
    this.count = Number(line.count ?? 1);
    this.sample = Number(line.sample ?? 1);
    return this.#checked();
  }

  #checked(): LineKind {
    const { cost, decidedAtMs, imposedBan, count, sample, units } = this;
    const isSound =
      isWhole(decidedAtMs, LAST_MOMENT_MS) &&
      isWhole(cost, MAX_IN_A_WORD) &&
      isWhole(imposedBan, MAX_IN_A_WORD) &&
      isWhole(count, MAX_IN_A_WORD) &&
      sample > 0 &&
      sample <= 1 &&
      count / sample <= MAX_IN_A_WORD &&
      units.length <= MAX_UNITS &&
      units.every(({ reserved, settled }) => isWhole(reserved, MAX_AMOUNT) && isWhole(settled, MAX_AMOUNT));
    if (!isSound || decidedAtMs === 0 || count === 0) return 'broken';
    // A request without cost is not counted in any window.
    return cost > 0 ? 'decided' : 'other';
  }
}

/** The end of the year 9999: later times have no RFC 3339 form. */
const LAST_MOMENT_MS = 253_402_300_799_999;
/** The largest value of a word in a row of the recording. */
const MAX_IN_A_WORD = 2 ** 32 - 1;

/** The largest sum of two such amounts is exact. */
const MAX_AMOUNT = 2 ** 52;

function isWhole(value: number, most: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= most;
}

const NO_UNITS: readonly RecordedUnit[] = Object.freeze([]);
const BROKEN_UNITS: readonly RecordedUnit[] = Object.freeze([{ unit: '', reserved: Number.NaN, settled: Number.NaN }]);

function unitsIn(json: string): readonly RecordedUnit[] {
  try {
    return unitsOf(JSON.parse(json));
  } catch {
    return BROKEN_UNITS;
  }
}

function unitsOf(value: unknown): readonly RecordedUnit[] {
  if (typeof value !== 'object' || value === null) return BROKEN_UNITS;
  return Object.entries(value).map(([unit, paid]) => {
    return { unit, reserved: Number(paid?.reserved), settled: Number(paid?.settled) };
  });
}

const END = '"msg":"request"}';
const SUMMARY_END = '"msg":"refusals"}';
const CUSTOMER = ',"customerId":"';
/** The name of a window that all keys of a customer share, with its quotes. */
const SHARED = /"customer-(?:second|minute|hour|day|week|month)"/;
const QUOTE = 0x22;
const BACKSLASH = '\\';
const SMALL_M = 0x6d;
/** Judgements of an identified consumer's request when the store was away, or the client disconnected before the answer. */
const WITHOUT_VERDICT = /^(?:undecided|unauthenticated)/;
const CLOSED_JUDGEMENTS = DECIDED_JUDGEMENTS.map((word) => `${word}"`);

/** The index after a name; -1 if it is missing. A name cannot be inside a JSON string, where its quotes would be escaped. */
function indexAfter(text: string, name: string, from: number): number {
  if (from === -1) return -1;
  if (text.startsWith(name, from)) return from + name.length;
  const at = text.indexOf(name, from);
  return at === -1 ? -1 : at + name.length;
}

/** Whether a string has neither escapes nor bytes above ASCII, which need the JSON parser. */
function isPlain(text: string): boolean {
  if (text.includes(BACKSLASH)) return false;
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7e) return false;
  return true;
}

function judgementAt(text: string, at: number): number | undefined {
  const found = CLOSED_JUDGEMENTS.findIndex((word) => text.startsWith(word, at));
  return found === -1 ? undefined : found;
}

/** The whole number that begins here; 0 for `null`. */
function numberAt(text: string, at: number): number {
  let value = 0;
  for (let i = at; ; i++) {
    const digit = text.charCodeAt(i) - 0x30;
    if (!(digit >= 0 && digit <= 9)) return value;
    value = value * 10 + digit;
  }
}

function numberAfter(text: string, name: string): number {
  return firstNumber(text, text.indexOf(name));
}

function firstNumber(text: string, from: number): number {
  return numberAt(text, text.indexOf(':', from) + 1);
}
