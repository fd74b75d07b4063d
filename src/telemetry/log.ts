import { type DestinationStream, type Logger, pino } from 'pino';
import type { Exchange } from '../gateway/exchange.ts';
import type { ClosedWebSocket } from '../gateway/upgrade-on.ts';
import { AccessLines, isServerError, type LoggedExchange } from './access-line.ts';
import { LogOutput } from './log-output.ts';
import { isUnidentified, UnidentifiedLines } from './unidentified-lines.ts';

/** Bytes of lines held while standard output does not take them; beyond it lines are dropped and counted. */
const MOST_HELD_BYTES = 16 * 1024 * 1024;
/** Refusals answered from memory are one line per key and this long. */
const SUMMARY_MS = 1_000;
/** Keys with a summary open at once; beyond it refusals of further keys get a line each. */
const MAX_SUMMARIES = 10_000;

export interface GatewayLog {
  readonly logger: Logger;
  /** The access line of one request. */
  access(exchange: Exchange): void;
  /** The line of a WebSocket that has ended; its access line was written when it was opened. */
  webSocketClosed(closed: ClosedWebSocket): void;
  /** Writes out what is held, as far as somebody takes it. Call before the process ends. */
  close(): Promise<void>;
}

export interface LogOptions {
  readonly level: string;
  readonly onDrop: () => void;
  /** Share of the 2xx answers, preflights aside, that get an access line, 0 to 1. */
  readonly sample2xx: () => number;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
  /** Milliseconds that never jump. */
  readonly monotonicMs: () => number;
  /** From 0 up to 1. */
  readonly random?: () => number;
  /** Where lines go; standard output unless a test says otherwise. */
  readonly stream?: DestinationStream;
}

/**
 * The log: one JSON object a line, on standard output, written in pieces so that no request waits for it. An access
 * line is made of an Exchange alone, which has no place for a key, a query or a header.
 */
export function openLog(options: LogOptions): GatewayLog {
  const { level, onDrop, sample2xx, nowMs, monotonicMs, random = Math.random, stream } = options;
  // Asking for `process.stdout` makes a pipe one that says when it is full, instead of holding up whoever writes.
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
  /** There is one while something is held. */
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
        // The share stands in the line, so that whoever counts lines can count requests.
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
