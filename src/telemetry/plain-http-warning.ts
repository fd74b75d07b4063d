import type { Logger } from 'pino';

const MINUTE_MS = 60_000;

/**
 * Warns that clients send plain HTTP to the HTTPS port, usually because a client or a proxy is configured with `http://` in place of
 * `https://`.
 *
 * Attack: a client without a key repeats such requests to fill the disk with log lines. The gateway writes at most one line a minute,
 * with the number of these connections since the previous line.
 * @param nowMs a monotonic clock
 * @returns counts one connection from this address
 */
export function warnOfPlainHttp(
  logger: Pick<Logger, 'warn'>,
  nowMs: () => number,
): (clientAddress: string | null) => void {
  let nextLineAtMs = Number.NEGATIVE_INFINITY;
  let count = 0;
  return (clientAddress) => {
    count++;
    if (nowMs() < nextLineAtMs) return;
    nextLineAtMs = nowMs() + MINUTE_MS;
    logger.warn({ clientAddress, count }, 'plain HTTP was sent to the port of HTTPS');
    count = 0;
  };
}
