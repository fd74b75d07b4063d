import type { Logger } from 'pino';

const MINUTE_MS = 60_000;

/**
 * Warns that clients send plain HTTP to the port of HTTPS: an `http://` in somebody's settings, or a proxy that is set up wrongly.
 *
 * Attack: a client without a key sends it again and again, so that the disk is full of lines. So there is one line a minute, with the
 * number of such connections since the line before.
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
