import type { Logger } from 'pino';
import type { BreakReason } from '../listen/http2/session.ts';

const MINUTE_MS = 60_000;

/**
 * Attack: a client repeats what a line warns of, to fill the disk with log lines. So there is at most one line a minute, with the
 * number of cases since the line before.
 * @param nowMs a monotonic clock
 */
export function atMostOnceAMinute<T>(nowMs: () => number, write: (latest: T, count: number) => void): (one: T) => void {
  let nextLineAtMs = Number.NEGATIVE_INFINITY;
  let count = 0;
  return (one) => {
    count++;
    if (nowMs() < nextLineAtMs) return;
    nextLineAtMs = nowMs() + MINUTE_MS;
    write(one, count);
    count = 0;
  };
}

/**
 * Warns of connections of clients.
 * @param message what is wrong with them
 * @returns counts one connection from this address
 */
export function warnOfConnections(
  logger: Pick<Logger, 'warn'>,
  nowMs: () => number,
  message: string,
): (clientAddress: string | null) => void {
  return atMostOnceAMinute(nowMs, (clientAddress, count) => logger.warn({ clientAddress, count }, message));
}

/**
 * Warns of HTTP/2 connections that the gateway broke off. Where that is the connection of a load balancer, requests of many clients
 * broke with it, and none of them has a line that says why.
 * @returns counts one connection from this address
 */
export function warnOfBrokenSessions(
  logger: Pick<Logger, 'warn'>,
  nowMs: () => number,
): (reason: BreakReason, clientAddress: string | null) => void {
  const byReason = new Map<BreakReason, (clientAddress: string | null) => void>();
  return (reason, clientAddress) => {
    if (!byReason.has(reason)) {
      const warn = atMostOnceAMinute<string | null>(nowMs, (address, count) => {
        logger.warn({ reason, clientAddress: address, count }, 'an HTTP/2 connection was broken off');
      });
      byReason.set(reason, warn);
    }
    byReason.get(reason)!(clientAddress);
  };
}
