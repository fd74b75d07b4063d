import type { Cuttable } from './web-sockets.ts';

/** The longest that a timer can wait. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * Ends a WebSocket when the token expires that it was opened with, as one of an API key ends when that does.
 * @param expiresAtMs Unix milliseconds; null: never
 * @param wallMs Unix milliseconds
 * @returns a way to forget it, because it has ended
 */
export function endAtExpiry(tunnel: Cuttable, expiresAtMs: number | null, wallMs: () => number): () => void {
  if (expiresAtMs === null) return () => {};
  let timer: NodeJS.Timeout;
  const wait = () => {
    const leftMs = expiresAtMs - wallMs();
    if (leftMs <= 0) tunnel.cut('expired');
    else timer = setTimeout(wait, Math.min(leftMs, LONGEST_MS)).unref();
  };
  wait();
  return () => clearTimeout(timer);
}
