/** The quota windows, shortest first. Headers list them in this order. It has no import, because Redis runs it as Lua too. */
export const WINDOWS = ['second', 'minute', 'hour', 'day', 'week', 'month'] as const;

export type WindowName = (typeof WINDOWS)[number];

/** The number of a window in what Redis keeps and answers: its place in WINDOWS, from 1. */
export function numberOfWindow(window: WindowName): number {
  let number = 1;
  while (WINDOWS[number - 1] !== window) number++;
  return number;
}
