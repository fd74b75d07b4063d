import { type DestinationStream, type Logger, pino } from 'pino';
import type { ClosedWebSocket, Exchange } from '../gateway/exchange.ts';
import { AccessLines, isServerError, isUnidentified, type LoggedExchange, UnidentifiedLines } from './access-line.ts';
import { LogOutput } from './log-output.ts';

/** How many bytes of lines are held while standard output accepts no writes. Further lines are dropped and counted. */
const MOST_HELD_BYTES = 16 * 1024 * 1024;
/** For this long, refusals from memory share one line if they have the same consumer, code and route. */
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
  /** Where the lines go; standard output by default. The supervisor and tests pass their own. */
  readonly stream?: DestinationStream;
}

/**
 * Opens the log: JSON lines on standard output, written in pieces so that no request waits for it. An access line holds
 * only members of Exchange, which has no member for a secret, a query or a header.
 */
export function openLog(options: LogOptions): GatewayLog {
  const { level, onDrop, sample2xx, nowMs, monotonicMs, random = Math.random, stream } = options;
  // Node.js makes a pipe non-blocking when `process.stdout` is first read. A write to a full pipe then fails instead of
  // blocking a thread.
  const out = new LogOutput({ fd: process.stdout.fd, maxBytes: MOST_HELD_BYTES, onDrop });
  const sink = stream ?? out;
  const logger = pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, sink);
  const lines = new AccessLines();
  const [hasInfo, hasWarnings] = [logger.isLevelEnabled('info'), logger.isLevelEnabled('warn')];
  const isWritten = (exchange: LoggedExchange) => (isServerError(exchange) ? hasWarnings : hasInfo);
  const write = (exchange: LoggedExchange, more: string, message: string) => {
    if (isWritten(exchange)) sink.write(lines.lineOf(exchange, nowMs(), more, message));
  };
  const summaries = new Map<string, { exchange: Exchange; count: number }>();
  const flush = () => {
    for (const { exchange, count } of summaries.values()) write(exchange, `,"count":${count}`, 'refusals');
    summaries.clear();
  };
  const timer = setInterval(flush, SUMMARY_MS);
  timer.unref();
  const unidentified = new UnidentifiedLines((exchange, count) => write(exchange, `,"count":${count}`, 'request'));
  /** Null while no line is held. */
  let unidentifiedTimer: NodeJS.Timeout | null = null;
  const awaitDue = () => {
    const { dueAtMs } = unidentified;
    if (unidentifiedTimer !== null || dueAtMs === null) return;
    unidentifiedTimer = setTimeout(
      () => {
        unidentifiedTimer = null;
        unidentified.writeDue(monotonicMs());
        awaitDue();
      },
      Math.max(0, Math.ceil(dueAtMs - monotonicMs())),
    ).unref();
  };
  return {
    logger,
    access: (exchange) => {
      if (isUnidentified(exchange)) {
        if (!isWritten(exchange)) return;
        unidentified.add(exchange, monotonicMs());
        awaitDue();
        return;
      }
      const share = sample2xx();
      if (share < 1 && exchange.status >= 200 && exchange.status < 300) {
        // The line names the fraction, so that a program that counts lines can estimate the number of requests.
        if (random() < share) write(exchange, `,"sample":${share}`, 'request');
        return;
      }
      if (exchange.source !== 'memory' || exchange.consumerId === null) {
        write(exchange, '', 'request');
        return;
      }
      const key = `${exchange.consumerId} ${exchange.code} ${exchange.route}`;
      const summary = summaries.get(key);
      if (summary !== undefined) summary.count++;
      else if (summaries.size < MAX_SUMMARIES) summaries.set(key, { exchange, count: 1 });
      else write(exchange, '', 'request');
    },
    webSocketClosed: ({ end, durationMs, ...rest }) =>
      logger.info({ ...rest, durationMs: Math.round(durationMs * 1_000) / 1_000, reason: end }, 'websocket closed'),
    close: () => {
      clearInterval(timer);
      flush();
      if (unidentifiedTimer !== null) clearTimeout(unidentifiedTimer);
      unidentified.writeAll();
      return out.close();
    },
  };
}
