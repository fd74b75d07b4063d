import { setTimeout as delay } from 'node:timers/promises';
import { ROOM } from './room.ts';

/** A pause that is longer than asked for by more than this was the machine's: what is waited for had no time to come true. */
const OVERSLEPT_MS = 20;
/** So many times `withinMs` is waited at most, however busy the machine is. */
const MAX_PATIENCE = 3;
const MIN_PAUSE_MS = 10;
const MAX_PAUSE_MS = 100;

/**
 * Waits until `check` passes, that is neither throws nor gives `false`: for what comes true soon without saying when.
 *
 * @param withinMs how long it may take, 15000 unless given, times {@link ROOM}: only a failing test waits so long; stalls of
 *   this process do not count, up to twice that
 * @param everyMs pause between two looks; unless given, 10 at first and then a tenth of what has been waited, up to 100: many
 *   looks at what takes a second would cost the processor more than what they wait for
 * @returns what `check` gave
 * @throws Error with the reason of the last look, when the time is over
 */
export async function eventually<T>(
  check: () => T | Promise<T>,
  { withinMs = 15_000, everyMs }: { readonly withinMs?: number; readonly everyMs?: number } = {},
): Promise<Exclude<T, false>> {
  const patienceMs = ROOM * withinMs;
  const latestMs = performance.now() + MAX_PATIENCE * patienceMs;
  let waitedMs = 0;
  for (;;) {
    const lookedAtMs = performance.now();
    const look = await lookOnce(check);
    if ('value' in look) return look.value;
    waitedMs += performance.now() - lookedAtMs;
    if (waitedMs >= patienceMs || performance.now() >= latestMs) {
      const reason = look.error instanceof Error ? look.error.message : String(look.error);
      throw new Error(`The condition did not come true within ${patienceMs} ms. The last look: ${reason}`, {
        cause: look.error,
      });
    }
    const pauseMs = everyMs ?? Math.min(Math.max(MIN_PAUSE_MS, waitedMs / 10), MAX_PAUSE_MS);
    const pausedAtMs = performance.now();
    await delay(pauseMs);
    waitedMs += Math.min(performance.now() - pausedAtMs, pauseMs + OVERSLEPT_MS);
  }
}

async function lookOnce<T>(check: () => T | Promise<T>): Promise<{ value: Exclude<T, false> } | { error: unknown }> {
  try {
    const value = await check();
    return value === false ? { error: new Error('it was false') } : { value: value as Exclude<T, false> };
  } catch (error) {
    return { error };
  }
}
