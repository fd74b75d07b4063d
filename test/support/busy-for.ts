/** Keeps this thread from everything else, as a garbage collection or a machine without a free processor does. */
export function busyFor(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}
