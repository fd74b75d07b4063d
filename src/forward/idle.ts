/** An idle connection is closed before the servers in common use close theirs. */
const IDLE_MS = 4_000;
/** What an upstream says in Keep-Alive is used up by this much earlier, for what is on its way meanwhile. */
const IDLE_MARGIN_MS = 1_000;

/**
 * How long a connection may lie idle, in milliseconds; 0 where it is not worth keeping.
 * @param keepAlive what its last answer says in Keep-Alive
 */
export function idleMs(keepAlive: readonly string[]): number {
  for (const value of keepAlive) {
    const timeout = /(?:^|[\s,])timeout=([0-9]{1,9})/i.exec(value);
    if (timeout !== null) return Math.max(0, Math.min(IDLE_MS, Number(timeout[1]) * 1_000 - IDLE_MARGIN_MS));
  }
  return IDLE_MS;
}
