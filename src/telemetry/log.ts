import { type DestinationStream, type Logger, pino } from 'pino';
import { partsOfAccount } from '../admit/account-id.ts';
import type { WindowLimit } from '../admit/windows.ts';
import type { ClosedWebSocket, Exchange } from '../gateway/exchange.ts';
import type { PaidUnits } from '../gateway/metering.ts';
import { ClientNetworks } from '../identify/failed-attempts.ts';
import { LogOutput } from './log-output.ts';
import { loggedError } from './logged-error.ts';

// The log: when a request gets a line, how the line is written, and how many requests of unidentified callers share
// one.

/** How many bytes of lines are held while standard output accepts no writes. Further lines are dropped and counted. */
const MAX_HELD_BYTES = 16 * 1024 * 1024;
/**
 * For this long, refusals from memory share one line if they have the same consumer, code and route. What they would have taken of
 * units is averaged: clients choose it, so a line for each amount would let them write as many lines as they like.
 */
const SUMMARY_MS = 1_000;
/** How many summaries may be open at once. The refusals of further consumers get a line each. */
const MAX_SUMMARIES = 10_000;

export interface GatewayLog {
  readonly logger: Logger;
  /** Writes the access line of one request. */
  access(exchange: Exchange): void;
  /** Writes the line of a WebSocket that has ended. Its access line was written when it was opened. */
  webSocketClosed(closed: ClosedWebSocket): void;
  /** Writes the held lines, as far as the reader takes them. Call it before the process ends. */
  close(): Promise<void>;
}

export interface LogOptions {
  readonly level: string;
  readonly onDrop: () => void;
  /** Returns the fraction of 2xx answers, preflights excepted, that get an access line: 0 to 1. */
  readonly sample2xx: () => number;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
  /** Monotonic milliseconds. */
  readonly monotonicMs: () => number;
  /** Returns a number of at least 0 and less than 1. */
  readonly random?: () => number;
  /** Where the lines go; standard output by default. The supervisor, a terminal and tests pass their own. */
  readonly stream?: DestinationStream;
  /** Whether a TerminalLog gets the lines. Those of refusals then have `retryAtMs` too, which it shows. */
  readonly forTerminal?: boolean;
}

/**
 * Opens the log: JSON lines on standard output, written in pieces so that no request waits for it. An access line holds
 * only members of Exchange, which has no member for a secret, a query or a header.
 */
export function openLog(options: LogOptions): GatewayLog {
  // Node.js makes a pipe non-blocking when `process.stdout` is first read. A write to a full pipe then fails instead of
  // blocking a thread.
  const out = new LogOutput({ fd: process.stdout.fd, maxBytes: MAX_HELD_BYTES, onDrop: options.onDrop });
  const sink = options.stream ?? out;
  const serializers = { err: loggedError };
  const logger = pino(
    { level: options.level, base: null, timestamp: pino.stdTimeFunctions.isoTime, serializers },
    sink,
  );
  const accesses = new AccessLog(logger, sink, options);
  return {
    logger,
    access: (exchange) => accesses.add(exchange),
    webSocketClosed: ({ end, durationMs, ...rest }) =>
      logger.info({ ...rest, durationMs: Math.round(durationMs * 1_000) / 1_000, reason: end }, 'websocket closed'),
    close: () => {
      accesses.close();
      return out.close();
    },
  };
}

/** Writes the access lines: one for most requests, and one for several refusals of the same kind. */
class AccessLog {
  readonly #sink: DestinationStream;
  readonly #options: LogOptions;
  readonly #hasInfo: boolean;
  readonly #hasWarnings: boolean;
  readonly #lines = new AccessLines();
  /** Refusals from memory, by consumer, code and route. */
  readonly #summaries = new Map<string, Summary>();
  readonly #summaryTimer = setInterval(() => this.#writeSummaries(), SUMMARY_MS).unref();
  readonly #unidentified = new UnidentifiedLines((exchange, count) =>
    this.#write(exchange, `,"count":${count}`, 'request'),
  );
  /** Null while no line of an unidentified caller is held. */
  #unidentifiedTimer: NodeJS.Timeout | null = null;

  constructor(logger: Logger, sink: DestinationStream, options: LogOptions) {
    this.#sink = sink;
    this.#options = options;
    this.#hasInfo = logger.isLevelEnabled('info');
    this.#hasWarnings = logger.isLevelEnabled('warn');
  }

  add(exchange: Exchange): void {
    const isWritten = isServerError(exchange) ? this.#hasWarnings : this.#hasInfo;
    if (!isWritten) return;
    const { sample2xx, monotonicMs, random = Math.random } = this.#options;
    if (isUnidentified(exchange)) {
      this.#unidentified.add(exchange, monotonicMs());
      this.#awaitDue();
      return;
    }
    const share = sample2xx();
    if (share < 1 && exchange.status >= 200 && exchange.status < 300) {
      // The line names the fraction, so that a program that counts lines can estimate the number of requests.
      if (random() < share) this.#write(exchange, `,"sample":${share}`, 'request');
    } else if (exchange.source !== 'memory' || exchange.consumerId === null) this.#write(exchange, '', 'request');
    else this.#summarise(exchange);
  }

  /** Writes all lines that are held. */
  close(): void {
    clearInterval(this.#summaryTimer);
    this.#writeSummaries();
    if (this.#unidentifiedTimer !== null) clearTimeout(this.#unidentifiedTimer);
    this.#unidentified.writeAll();
  }

  #summarise(exchange: Exchange): void {
    const key = `${exchange.consumerId} ${exchange.code} ${exchange.route}`;
    const summary = this.#summaries.get(key);
    if (summary !== undefined) {
      summary.count++;
      if (exchange.units != null) addTo(summary, exchange.units);
    } else if (this.#summaries.size < MAX_SUMMARIES) this.#summaries.set(key, { exchange, count: 1, added: null });
    else this.#write(exchange, '', 'request');
  }

  #writeSummaries(): void {
    for (const summary of this.#summaries.values())
      this.#write(averaged(summary), `,"count":${summary.count}`, 'refusals');
    this.#summaries.clear();
  }

  /** Sets a timer for the next line of unidentified callers. */
  #awaitDue(): void {
    const { dueAtMs } = this.#unidentified;
    if (this.#unidentifiedTimer !== null || dueAtMs === null) return;
    const { monotonicMs } = this.#options;
    const write = () => {
      this.#unidentifiedTimer = null;
      this.#unidentified.writeDue(monotonicMs());
      this.#awaitDue();
    };
    this.#unidentifiedTimer = setTimeout(write, Math.max(0, Math.ceil(dueAtMs - monotonicMs()))).unref();
  }

  #write(exchange: LoggedExchange, more: string, message: string): void {
    const { forTerminal = false, nowMs } = this.#options;
    const extra = forTerminal ? `,"retryAtMs":${exchange.retryAtMs ?? null}${more}` : more;
    this.#sink.write(this.#lines.lineOf(exchange, nowMs(), extra, message));
  }
}

/** Refusals that share a line. */
interface Summary {
  /** The first. */
  readonly exchange: Exchange;
  count: number;
  /** What the others would have taken of units, in all; null if nothing. */
  added: Map<string, number> | null;
}

function addTo(summary: Summary, units: PaidUnits): void {
  summary.added ??= new Map();
  for (const { unit, reserved } of units) summary.added.set(unit, (summary.added.get(unit) ?? 0) + reserved);
}

/** The first of the refusals, with the average of what all would have taken of units, rounded up. */
function averaged({ exchange, count, added }: Summary): Exchange {
  if (added === null) return exchange;
  const totals = new Map(added);
  for (const { unit, reserved } of exchange.units ?? []) totals.set(unit, (totals.get(unit) ?? 0) + reserved);
  const units = [...totals].map(([unit, total]) => {
    return { unit, reserved: Math.ceil(total / count), settled: 0, why: null };
  });
  return { ...exchange, units };
}

/** A closing record for the log. Its address is null in a line that stands for several client networks. */
export type LoggedExchange = Omit<Exchange, 'clientAddress'> & { readonly clientAddress: string | null };

/** Text that needs no escapes in JSON. */
const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

/**
 * Formats access lines; `Exchange` documents their members. The code builds the JSON by hand, because pino's serializer
 * took a quarter of the processing time of a request.
 */
export class AccessLines {
  // Parts of the last line. Most requests share them with the one before, so they are formatted again only if they differ.
  #second = Number.NaN;
  #secondText = '';
  #decidedAtMs: number | null = null;
  #decidedText = 'null';
  #kind: LoggedExchange | null = null;
  #kindText = '';
  #limits: Exchange['limits'] | null = null;
  #limitsText = '';
  #upstream: string | null = null;
  #target: string | null = null;
  #targetText = ',"upstream":null,"target":null';

  /**
   * @param nowMs Unix milliseconds
   * @param more further members as JSON, each with a comma before it
   * @returns the line as pino would write it, with its line feed
   */
  lineOf(exchange: LoggedExchange, nowMs: number, more: string, message: string): string {
    const { limits, windows, attempts = 1 } = exchange;
    let tried = attempts > 1 ? `,"attempts":${attempts}` : '';
    if (exchange.isOverRetryBudget === true) tried += ',"retry":"over_budget"';
    if (exchange.cache != null) tried += `,"cache":"${exchange.cache}"`;
    if (exchange.policy != null) tried += `,"policy":${text(exchange.policy)}`;
    if (exchange.units != null) tried += unitsOf(exchange.units);
    let left = '';
    let hasTopUp = false;
    for (let i = 0; i < windows.length; i++) {
      const { name, limit, remaining } = windows[i]!;
      left += `${i === 0 ? '"' : ',"'}${name}":${remaining}`;
      if (limit !== limits[i]!.limit) hasTopUp = true;
    }
    if (hasTopUp) tried = `${topUpsOf(exchange)}${tried}`;
    return (
      `{"level":${isServerError(exchange) ? 40 : 30},"time":"${this.#isoTime(nowMs)}","requestId":${text(exchange.requestId)}` +
      `,"traceId":${text(exchange.traceId)},"path":${text(exchange.path)},"clientAddress":${text(exchange.clientAddress)}` +
      `,"consumerId":${text(exchange.consumerId)}${customerOf(exchange)}${this.#kindOf(exchange)}` +
      `,"limits":{${hasTopUp ? limitsText(windows) : this.#limitsOf(limits)}}${this.#targetOf(exchange)}` +
      `,"decidedAtMs":${this.#decided(exchange.decidedAtMs)},"bytesIn":${exchange.bytesIn},"bytesOut":${exchange.bytesOut}` +
      `,"remaining":{${left}}${tried},"totalMs":${thousandths(exchange.totalMs)},"storeMs":${thousandths(exchange.storeMs)}` +
      `,"upstreamMs":${thousandths(exchange.upstreamMs)}${more},"msg":"${message}"}\n`
    );
  }

  /** The members that have few combinations, so that the next request often repeats them. */
  #kindOf(exchange: LoggedExchange): string {
    if (this.#kind !== null && isSameKind(this.#kind, exchange)) return this.#kindText;
    this.#kind = exchange;
    this.#kindText =
      `,"method":${text(exchange.method)},"route":${text(exchange.route)},"plan":${text(exchange.plan)}` +
      `,"judgement":"${exchange.judgement}","cost":${exchange.cost},"window":${text(exchange.window)}` +
      `,"imposedBan":${exchange.imposedBan},"source":${text(exchange.source)}` +
      `,"shadow":${text(exchange.shadow?.judgement ?? null)},"status":${exchange.status},"code":${text(exchange.code)}` +
      `,"cause":${text(exchange.cause)}`;
    return this.#kindText;
  }

  #limitsOf(limits: Exchange['limits']): string {
    if (limits !== this.#limits) {
      this.#limits = limits;
      this.#limitsText = limitsText(limits);
    }
    return this.#limitsText;
  }

  /** Not part of `#kindOf`, because the next request often goes to another target of the same upstream. */
  #targetOf({ upstream, target }: LoggedExchange): string {
    if (upstream !== this.#upstream || target !== this.#target) {
      this.#upstream = upstream;
      this.#target = target;
      this.#targetText = `,"upstream":${text(upstream)},"target":${text(target)}`;
    }
    return this.#targetText;
  }

  #decided(ms: number | null): string {
    if (ms !== this.#decidedAtMs) {
      this.#decidedAtMs = ms;
      this.#decidedText = String(ms);
    }
    return this.#decidedText;
  }

  /** Formats `2026-11-21T10:00:00.000Z`. All but the milliseconds is computed once a second. */
  #isoTime(ms: number): string {
    const second = Math.floor(ms / 1_000);
    if (second !== this.#second) {
      this.#second = second;
      this.#secondText = new Date(second * 1_000).toISOString().slice(0, -4);
    }
    return `${this.#secondText}${String(ms - second * 1_000).padStart(3, '0')}Z`;
  }
}

function limitsText(limits: readonly Pick<WindowLimit, 'window' | 'name' | 'limit'>[]): string {
  return limits.map(({ window, name = window, limit }) => `"${name}":${limit}`).join();
}

/** What operators have added to the limits, as a member. A simulation takes it off, because plans lack it. */
function topUpsOf({ limits, windows }: LoggedExchange): string {
  const added = windows.flatMap(({ name, limit }, i) => {
    const amount = limit - limits[i]!.limit;
    return amount === 0 ? [] : [`"${name}":${amount}`];
  });
  return `,"topUps":{${added.join()}}`;
}

/** Whether a request ended with a 5xx answer. Its access line has the level `warn`, other lines have `info`. */
function isServerError({ status }: Pick<Exchange, 'status'>): boolean {
  return status >= 500;
}

const THOUSANDTHS: readonly string[] = Array.from({ length: 1_000 }, (_, i) =>
  i === 0 ? '' : `.${String(i).padStart(3, '0')}`,
);

/** Formats milliseconds with three decimal places. Node.js formats two whole numbers faster than one fraction. */
function thousandths(ms: number): string {
  const us = Math.round(ms * 1_000);
  const whole = Math.floor(us / 1_000);
  return `${whole}${THOUSANDTHS[us - whole * 1_000]}`;
}

function isSameKind(one: LoggedExchange, other: LoggedExchange): boolean {
  return (
    one.method === other.method &&
    one.route === other.route &&
    one.plan === other.plan &&
    one.judgement === other.judgement &&
    one.cost === other.cost &&
    one.window === other.window &&
    one.imposedBan === other.imposedBan &&
    one.source === other.source &&
    one.shadow?.judgement === other.shadow?.judgement &&
    one.status === other.status &&
    one.code === other.code &&
    one.cause === other.cause
  );
}

/** The member for the customer of a request; empty for a caller without one. */
function customerOf({ consumerId, accountId = consumerId }: LoggedExchange): string {
  if (accountId === null || accountId === consumerId) return '';
  return `,"customerId":${text(partsOfAccount(accountId).customerId)}`;
}

/**
 * The member for what a request paid in units, or would have taken. `unknown`: why it paid what it took in advance. No `}}` is in it
 * but at its end, by which `log-line.ts` finds that.
 */
function unitsOf(units: PaidUnits): string {
  let each = '';
  for (const { unit, reserved, settled, why, parts } of units) {
    each += `${each === '' ? '"' : ',"'}${unit}":{"reserved":${reserved},"settled":${settled}`;
    if (parts !== undefined) each += `,"parts":${JSON.stringify(parts).replaceAll('}}', '}\\u007d')}`;
    each += why === null ? '}' : `,"unknown":"${why}"}`;
  }
  return `,"units":{${each}}`;
}

function text(value: string | null): string {
  if (value === null) return 'null';
  return PLAIN.test(value) ? `"${value}"` : JSON.stringify(value);
}

/** A client network gets at most one line in this time. */
const SECOND_MS = 1_000;
/** How many client networks have a line of their own at a time. */
const MAX_NETWORKS = 1_000;
/** All further client networks, which share a line. */
const OTHERS = 'others';

/** The second after a line, and the requests in it that have no line yet. */
interface Second {
  readonly endsAtMs: number;
  count: number;
  /** The latest of these requests; null while there are none. */
  latest: Exchange | null;
}

/** Whether the gateway neither identified the caller of a request nor admitted the request to a public route. */
export function isUnidentified({ consumerId, judgement }: Exchange): boolean {
  return consumerId === null && judgement !== 'admitted';
}

/**
 * Decides when the requests of unidentified callers are written to the log.
 *
 * Attack: a client without a key sends requests of 27 bytes, each of which would be logged with 500 bytes. One connection
 * could fill the disk, and push the lines of real callers out of the buffer. So each client network (the /64 of an IPv6
 * address) gets at most one line a second, with a count. The first request is written at once. The requests of the second
 * after it are counted, and at its end written as one line with the members of the latest. Every request is counted.
 */
export class UnidentifiedLines {
  readonly #write: (exchange: LoggedExchange, count: number) => void;
  readonly #networks = new ClientNetworks(MAX_NETWORKS);
  /** By network, in the order in which they end. */
  readonly #seconds = new Map<string, Second>();

  /** @param write writes one line, which stands for `count` requests */
  constructor(write: (exchange: LoggedExchange, count: number) => void) {
    this.#write = write;
  }

  /** When the next second ends, in monotonic milliseconds; null while no request is held. */
  get dueAtMs(): number | null {
    return this.#seconds.values().next().value?.endsAtMs ?? null;
  }

  /** @param nowMs monotonic milliseconds */
  add(exchange: Exchange, nowMs: number): void {
    this.writeDue(nowMs);
    const network = this.#networkOf(exchange.clientAddress);
    const second = this.#seconds.get(network);
    if (second === undefined) this.#begin(network, exchange, 1, nowMs);
    else {
      second.count++;
      second.latest = exchange;
    }
  }

  /** Writes the lines of the seconds that have ended. */
  writeDue(nowMs: number): void {
    for (const [network, { endsAtMs, latest, count }] of this.#seconds) {
      if (endsAtMs > nowMs) return;
      this.#seconds.delete(network);
      if (latest !== null) this.#begin(network, latest, count, nowMs);
    }
  }

  /** Writes the lines of all held requests, whether or not their second has ended. */
  writeAll(): void {
    for (const [network, { latest, count }] of this.#seconds)
      if (latest !== null) this.#writeLine(network, latest, count);
    this.#seconds.clear();
  }

  /** Writes a line and begins the second after it. */
  #begin(network: string, exchange: Exchange, count: number, nowMs: number): void {
    this.#seconds.set(network, { endsAtMs: nowMs + SECOND_MS, count: 0, latest: null });
    this.#writeLine(network, exchange, count);
  }

  #writeLine(network: string, exchange: Exchange, count: number): void {
    this.#write(network === OTHERS ? { ...exchange, clientAddress: null } : exchange, count);
  }

  #networkOf(clientAddress: string): string {
    const network = this.#networks.of(clientAddress);
    return this.#seconds.size < MAX_NETWORKS || this.#seconds.has(network) ? network : OTHERS;
  }
}
