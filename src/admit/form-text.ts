import type { Limit, Plan, PlanUnit, WindowForms } from './plan.ts';
import { WINDOWS, type WindowForm, type WindowName, windowLimit } from './windows.ts';

/** The kind of a window in words: `fixed`, `sliding, 12 slices`, `calendar, Europe/Berlin` or `calendar, UTC, from day 15`. */
export function formText(window: WindowName, form: WindowForm | undefined): string {
  const { slices, calendar } = windowLimit(window, 0, form);
  if (slices !== undefined) return `sliding, ${slices} slices`;
  if (calendar === undefined) return 'fixed';
  const { zone, anchor } = calendar.form;
  return anchor === 1 ? `calendar, ${zone}` : `calendar, ${zone}, from day ${anchor}`;
}

/** A limit with the kind of its window, unless that is fixed: `60`, `60 (sliding, 12 slices)`. Empty without a limit. */
export function limitText(window: WindowName, limit: Limit | 'custom' | undefined, form: WindowForm | undefined) {
  if (limit === undefined) return '';
  const text = formText(window, form);
  return text === 'fixed' || limit === 'unlimited' ? String(limit) : `${limit} (${text})`;
}

/** Limits in words, the shortest window first: `minute 60 (sliding, 12 slices), day 1000`. */
export function limitsText(limits: Plan['limits'], forms: WindowForms | undefined): string {
  return WINDOWS.filter((window) => limits[window] !== undefined)
    .map((window) => `${window} ${limitText(window, limits[window], forms?.[window])}`)
    .join(', ');
}

/** Limits in units of their own, by the names of the windows: `tokens-minute 100000, tokens-month unlimited`. */
export function unitsText(units: readonly PlanUnit[] | undefined): string {
  return (units ?? [])
    .flatMap(({ name, limits, forms }) =>
      WINDOWS.filter((window) => limits[window] !== undefined).map(
        (window) => `${name}-${window} ${limitText(window, limits[window], forms?.[window])}`,
      ),
    )
    .join(', ');
}

/** What a plan gives each key of a customer, in words: `minute 300, 5 in flight, tokens-day 500`. Empty without bounds of its own. */
export function eachKeyText({ eachKey }: Pick<Plan, 'eachKey'>): string {
  if (eachKey === undefined) return '';
  const windows = limitsText(eachKey.limits, eachKey.forms);
  const inFlight = eachKey.inFlight === undefined ? '' : `${eachKey.inFlight} in flight`;
  return joined(windows, inFlight, unitsText(eachKey.units));
}

function joined(...parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join(', ');
}

/** A group of routes in words: `minute 10, tokens-day 50 on /v1/search/**`, or `minute 10 instead, on /v1/search/**, POST /v1/reports`. */
export function groupText({ limits, forms, units, instead, routes }: NonNullable<Plan['groups']>[number]): string {
  return `${joined(limitsText(limits, forms), unitsText(units))}${instead ? ' instead,' : ''} on ${routes.join(', ')}`;
}
