/** How a request was judged, as the log names it. */
export const JUDGEMENTS = ['admitted', 'refused', 'banned'] as const;
export const [ADMITTED, REFUSED, BANNED] = [0, 1, 2] as const;

/** What a line of the log is to a replay. */
export type LineKind =
  /** One or several requests that were decided by the limits of a plan. */
  | 'decided'
  /** The same on a route without keys: limited per address by gateway.yaml, not by a plan. */
  | 'public'
  /** A request of a known caller that has no decision in the log: the store was away, or the client left meanwhile. */
  | 'undecided'
  /** A request that comes to no decision: its caller is not known, it is malformed, shed, a preflight, asks for usage. */
  | 'other'
  /** Not a line of a request at all. */
  | 'foreign'
  /** It stands where a request's line would and cannot be read. */
  | 'broken';

/**
 * Reads access lines, a hundred times a millisecond and more: it goes from name to name in the order in which the
 * gateway writes them and leaves all that a replay does not need unread. A line in another order or with blanks, as other
 * programs write JSON, is parsed as JSON.
 *
 * What it has read stands in its members until the next line. One object for all lines: a day has ten million of them.
 */
export class LogLine {
  consumerId = '';
  plan = '';
  /** Index in JUDGEMENTS. */
  judgement: number = ADMITTED;
  cost = 0;
  /** The number of the ban that this request brought about; 0 for all others. */
  imposedBan = 0;
  decidedAtMs = 0;
  /** Decided by a gateway alone while its store was away. */
  isLocal = false;
  /** Refused by a gateway out of its memory, without asking the store. */
  isFromMemory = false;
  /** The members of `limits` as text: `"minute":60,"day":1000`. */
  limits = '';
  /** What was used of the first of them, after this request: it tells apart what was decided in the same millisecond. */
  used = 0;
  /** How many requests the line stands for: above 1 where refusals were summed up. */
  count = 1;
  /** The share of such lines that was written: below 1 where 2xx answers were sampled. */
  sample = 1;

  /** @param text in which each byte of the log is one character (latin1) */
  read(text: string, start: number, end: number): LineKind {
    const isOurs = text.startsWith(END, end - END.length) || text.startsWith(SUMMARY_END, end - SUMMARY_END.length);
    // A line of a request with something before it, as programs that gather logs put it there.
    if (!text.startsWith('{', start)) return isOurs ? 'broken' : 'foreign';
    // By itself: what is sought in it and is not there must not be sought in all that follows.
    const line = text.slice(start, end);
    return (isOurs ? this.#readInOrder(line) : null) ?? this.#parse(line);
  }

  /** Null where the line is not as the gateway writes it. */
  #readInOrder(text: string): LineKind | null {
    let at = behind(text, '"consumerId":', 0);
    if (at === -1) return null;
    const isKnown = text.charCodeAt(at) === QUOTE;
    if (isKnown) {
      const close = text.indexOf('"', at + 1);
      this.consumerId = text.slice(at + 1, close);
      at = behind(text, ',"plan":"', close);
      if (at === -1 || !isPlain(this.consumerId)) return null;
      const planEnd = text.indexOf('"', at);
      this.plan = text.slice(at, planEnd);
      if (!isPlain(this.plan)) return null;
      at = planEnd;
    }
    at = behind(text, ',"judgement":"', at);
    const judgement = at === -1 ? undefined : judgementAt(text, at);
    if (at === -1) return null;
    if (judgement === undefined)
      return isKnown && WITHOUT_VERDICT.test(text.slice(at, at + 16)) ? 'undecided' : 'other';
    if (!isKnown) return 'public';
    this.judgement = judgement;
    return this.#readDecision(text, at);
  }

  #readDecision(text: string, from: number): LineKind | null {
    const cost = behind(text, ',"cost":', from);
    const ban = behind(text, ',"imposedBan":', cost);
    const source = behind(text, ',"source":', ban);
    const limits = behind(text, ',"limits":{', source);
    const decided = behind(text, ',"decidedAtMs":', limits);
    const remaining = behind(text, ',"remaining":{', decided);
    const rest = remaining === -1 ? -1 : text.indexOf('}', remaining);
    const last = behind(text, ',"upstreamMs":', rest);
    if (cost === -1 || ban === -1 || decided === -1 || source === -1 || limits === -1 || last === -1) return null;
    this.cost = numberAt(text, cost);
    this.imposedBan = numberAt(text, ban);
    this.decidedAtMs = numberAt(text, decided);
    this.isLocal = text.charCodeAt(source + 1) === SMALL_L;
    this.isFromMemory = text.charCodeAt(source + 1) === SMALL_M;
    this.limits = text.slice(limits, text.indexOf('}', limits));
    this.used = this.limits === '' ? 0 : firstNumber(text, limits) - firstNumber(text, remaining);
    const more = text.indexOf(',', last);
    this.count = text.startsWith(',"count":', more) ? numberAt(text, more + 9) : 1;
    this.sample = text.startsWith(',"sample":', more) ? Number.parseFloat(text.slice(more + 10, more + 32)) : 1;
    if (this.count === 1 && this.sample === 1 && !text.startsWith(',"msg":', more)) return null;
    return this.#checked();
  }

  #parse(text: string): LineKind {
    let line: Record<string, unknown>;
    try {
      line = JSON.parse(Buffer.from(text, 'latin1').toString());
    } catch {
      return text.startsWith('{"level":') ? 'broken' : 'foreign';
    }
    if (line.msg !== 'request' && line.msg !== 'refusals') return 'foreign';
    const judgement = JUDGEMENTS.indexOf(line.judgement as (typeof JUDGEMENTS)[number]);
    if (typeof line.consumerId !== 'string') return judgement === -1 ? 'other' : 'public';
    if (judgement === -1) return WITHOUT_VERDICT.test(`${line.judgement}"`) ? 'undecided' : 'other';
    const limits = Object.entries((line.limits ?? {}) as object);
    const [left = 0] = Object.values((line.remaining ?? {}) as object);
    this.consumerId = line.consumerId;
    this.plan = String(line.plan);
    this.judgement = judgement;
    this.cost = Number(line.cost);
    this.imposedBan = Number(line.imposedBan ?? 0);
    this.decidedAtMs = Number(line.decidedAtMs ?? Number.NaN);
    this.isLocal = line.source === 'local';
    this.isFromMemory = line.source === 'memory';
    this.limits = limits.map(([window, limit]) => `"${window}":${limit}`).join(',');
    this.used = limits.length === 0 ? 0 : Number(limits[0]![1]) - Number(left);
    this.count = Number(line.count ?? 1);
    this.sample = Number(line.sample ?? 1);
    return this.#checked();
  }

  #checked(): LineKind {
    const { cost, decidedAtMs, imposedBan, count, sample } = this;
    const isSound =
      isWhole(decidedAtMs, LAST_MOMENT_MS) &&
      isWhole(cost, MOST_IN_A_WORD) &&
      isWhole(imposedBan, MOST_IN_A_WORD) &&
      isWhole(count, MOST_IN_A_WORD) &&
      sample > 0 &&
      sample <= 1 &&
      count / sample <= MOST_IN_A_WORD;
    if (!isSound || decidedAtMs === 0 || count === 0) return 'broken';
    // What costs nothing is not counted in any window.
    return cost > 0 ? 'decided' : 'other';
  }
}

/** The end of the year 9999: times behind it have no common form. */
const LAST_MOMENT_MS = 253_402_300_799_999;
/** What a row of the recording has room for. */
const MOST_IN_A_WORD = 2 ** 32 - 1;

function isWhole(value: number, most: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= most;
}

const END = '"msg":"request"}';
const SUMMARY_END = '"msg":"refusals"}';
const QUOTE = 0x22;
const BACKSLASH = '\\';
const SMALL_L = 0x6c;
const SMALL_M = 0x6d;
/** Of a known caller: the store was away, or the client left before the store had answered. */
const WITHOUT_VERDICT = /^(?:undecided|unauthenticated)/;
const CLOSED_JUDGEMENTS = JUDGEMENTS.map((word) => `${word}"`);

/** The place behind a name, which cannot stand within a text: its quotes would have a backslash. -1 where it is missing. */
function behind(text: string, name: string, from: number): number {
  if (from === -1) return -1;
  if (text.startsWith(name, from)) return from + name.length;
  const at = text.indexOf(name, from);
  return at === -1 ? -1 : at + name.length;
}

/** Bytes above ASCII and escapes are left to the JSON parser. */
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

function firstNumber(text: string, from: number): number {
  return numberAt(text, text.indexOf(':', from) + 1);
}
