import { setTimeout as delay } from 'node:timers/promises';

/**
 * Waits until `check` passes, that is neither throws nor gives `false`: for what comes true soon without saying when.
 *
 * @param withinMs how long it may take, 2000 unless told
 * @param everyMs pause between two looks, 10 unless told
 * @returns what `check` gave
 * @throws Error with the reason of the last look, when the time is over
 */
export async function eventually<T>(
  check: () => T | Promise<T>,
  { withinMs = 2_000, everyMs = 10 }: { readonly withinMs?: number; readonly everyMs?: number } = {},
): Promise<Exclude<T, false>> {
  const deadlineMs = performance.now() + withinMs;
  for (;;) {
    const look = await lookOnce(check);
    if ('value' in look) return look.value;
    if (performance.now() >= deadlineMs) {
      const reason = look.error instanceof Error ? look.error.message : String(look.error);
      throw new Error(`The condition did not come true within ${withinMs} ms. The last look: ${reason}`, {
        cause: look.error,
      });
    }
    await delay(everyMs);
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
