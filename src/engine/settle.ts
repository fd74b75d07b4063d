import type { WindowName } from '../model/values.ts';
import * as charging from './charging.ts';
import * as counting from './counting.ts';
import type { Draft, Limit, WindowCounts } from './types.ts';

/**
 * The windows of an account after the settlement of requests with one reservation. The part of the reserve that they did not use returns to
 * the windows and slices in which the store counted it, as far as they are open. What they used beyond the reserve counts now, even
 * beyond the limit.
 * @param delta what to add; negative to give back
 * @param places where the store counted the requests, by limit (`placeOf`)
 * @param nowMs the store's clock, Unix milliseconds
 */
export function settled(
  before: WindowCounts,
  delta: number,
  limits: readonly Limit[],
  places: readonly number[],
  nowMs: number,
): WindowCounts {
  let windows: Draft<WindowCounts> = {};
  for (const name in before) windows[name as WindowName] = before[name as WindowName]!;
  for (let i = 0; i < limits.length; i++) {
    const limit = limits[i]!;
    const count = before[limit.window];
    if (count !== undefined && charging.isPresent(count, limit, nowMs)) {
      // As below, for an open fixed window: most are, and in Redis the functions of counting.ts are then not made.
      const { used, endsAtMs } = count;
      if (delta > 0 || endsAtMs === places[i])
        windows[limit.window] = { used: used + delta > 0 ? used + delta : 0, endsAtMs };
    } else {
      const present = counting.presentCount(count, limit, nowMs).count;
      if (delta > 0) {
        windows[limit.window] = counting.countIn(present, limit, nowMs, delta);
      } else if (present !== undefined && count?.slices?.per === limit.slices) {
        const after = counting.givenBack(present, limit, places[i]!, -delta);
        if (after === undefined) windows = counting.withoutWindow(windows, limit.window);
        else if (after !== present) windows[limit.window] = after;
      }
    }
  }
  return windows;
}
