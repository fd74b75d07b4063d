import type { WINDOWS as ALL } from '../../../../model/values.ts';
import type { Usage, WatchedUsage } from '../types.ts';
import { Meter } from './charts.tsx';
import { countText, say, Time, Until } from './format.tsx';
import { Badge } from './page.tsx';

/** The quota windows, shortest first. The page cannot load the gateway's own list; the type keeps the two the same. */
export const WINDOWS: typeof ALL = ['second', 'minute', 'hour', 'day', 'week', 'month'];

/**
 * The name of a window in words: `minute`, `minute, shared by the customer`, `minute, search`.
 * @param name `minute`, `customer-minute`, `search-minute` or `customer-search-minute`, where `search` is a group of routes or a unit
 * @param unit left out of it: where it is named beside it
 */
export function windowText(name: string, unit = ''): string {
  const at = name.lastIndexOf('-');
  if (at < 0) return name;
  const budget = name.slice(0, at);
  return `${name.slice(at + 1)}${budgetText(budget.slice(0, budget.length - unit.length))}`;
}

/** A limit in words: `60 requests a minute`. @param window its name. @param unit undefined for requests */
export function limitText(limit: number | 'unlimited', window: string, unit: string | undefined): string {
  return `${countText(limit)} ${unit ?? 'requests'} a ${windowText(window, unit)}`;
}

/** @param budget `customer`, `search` or `customer-search` */
function budgetText(budget: string): string {
  const [, ofCustomer, group] = /^(customer(?:-|$))?(.*?)-?$/.exec(budget)!;
  return `${group === '' ? '' : `, ${group}`}${ofCustomer === undefined ? '' : ', shared by the customer'}`;
}

/** By the name of the window. */
export type Windows = Usage['windows'] | WatchedUsage['windows'];
/** Without its form and top-up if it is only watched. */
type AnyWindow = WatchedUsage['windows'][string] & Partial<Usage['windows'][string]>;

/** Each window by its name. */
export function entriesOf(windows: Windows): readonly (readonly [name: string, window: AnyWindow])[] {
  return Object.entries(windows);
}

/** Whether a ban or a limit refuses the next request of a caller, or some of them. */
export function isRefusing({ ban, windows }: Usage): boolean {
  return ban !== null || spentIn(windows).length > 0;
}

/** The windows of which nothing is left. */
export function spentIn(windows: Windows) {
  return entriesOf(windows).filter(([, { remaining }]) => remaining === 0);
}

/** One of the top-ups of a window that are in force. */
export type TopUpPart = NonNullable<Usage['windows'][string]['topUp']>['parts'][number];

/** Draws what an operator can do about a top-up. */
export type DrawUndo = (part: TopUpPart, window: string, unit: string | undefined) => unknown;

/** How much of each window is used now, and when that ends. @param undo left out: top-ups are only shown */
export function WindowList({ of: windows, undo }: { of: Windows; undo?: DrawUndo | undefined }) {
  const all = entriesOf(windows);
  if (all.length === 0) return <p>No window is limited.</p>;
  return (
    <ul class="windows stack">
      {all.map(([name, { limit, used, remaining, resetAt, form, topUp, unit = '' }]) => {
        const window = windowText(name);
        const title = (
          <span>
            <strong>{window}</strong> {form && <span class="muted">{form}</span>}
          </span>
        );
        if (limit === 'unlimited')
          return (
            <li key={name}>
              {title}
              <span class="muted">unlimited, not counted</span>
            </li>
          );
        return (
          <li key={name}>
            {title}
            <span class="stack tight">
              <Meter label={`Used of the ${window}`} used={used} limit={limit} />
              <span>
                {countText(used)} of {countText(limit)} {unit} used, {countText(remaining)} left{' '}
                {remaining === 0 && <Badge kind="bad">Spent</Badge>}{' '}
                {remaining !== 0 && Number(remaining) <= limit / 10 && <Badge kind="warn">Nearly spent</Badge>}
              </span>
              {topUp && (
                <span class="muted">
                  Topped up by {countText(topUp.amount)} until <Until at={topUp.until} />
                </span>
              )}
              {topUp?.parts.map((part) => (
                <span key={part.id} class="row spread small">
                  <span class="muted">
                    +{countText(part.amount)} at <Time at={part.at} />
                    {part.reason !== null && say`: ${<bdi>{part.reason}</bdi>}`}
                  </span>{' '}
                  {undo?.(part, name, unit || undefined)}
                </span>
              ))}
            </span>
            {used > 0 && (
              <span class="muted">
                <ResetText form={form} at={resetAt} />
              </span>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** When a window that counts has more left. @param form of the window; undefined if it is only watched */
export function ResetText({ form, at }: { form: string | undefined; at: number }) {
  return say`${form?.startsWith('sliding') ? 'First part free again' : 'Resets'} ${<Until at={at} zone={zoneOf(form)} />}`;
}

/** The zone of a calendar window; undefined for others. @param form `calendar, Europe/Berlin, from day 15` */
export function zoneOf(form: string | undefined): string | undefined {
  return /^calendar, ([^,]+)/.exec(form ?? '')?.[1];
}

/** The day on which the month begins that a caller is billed by: the 1st, unless its month window begins on another one. */
export function billingDayOf(windows: Windows): number {
  const days = entriesOf(windows)
    .filter(([name]) => name.endsWith('month'))
    .flatMap(([, { form }]) => / day (\d+)$/.exec(form ?? '')?.[1] ?? []);
  return Number(days[0] ?? 1);
}

/** The limit of which the largest share is used; null if nothing is limited. */
export function tightestOf(windows: Windows) {
  const limited = entriesOf(windows).flatMap(([name, { limit, ...rest }]) =>
    limit === 'unlimited' ? [] : [[name, { limit, ...rest }] as const],
  );
  const shareOf = ({ used, limit }: { used: number; limit: number }) => (limit === 0 ? 1 : used / limit);
  return limited.sort(([, a], [, b]) => shareOf(b) - shareOf(a))[0] ?? null;
}

/** How many requests are in flight now, for each limit of them. */
export function InFlight({ of: limits }: { of: Usage['inFlight'] }) {
  if (limits === undefined) return null;
  return (
    <ul class="windows stack">
      {Object.entries(limits).map(([name, { limit, used }]) => {
        const title = `in flight${budgetText(name.slice(0, -'-in-flight'.length))}`;
        return (
          <li key={name}>
            <span>
              <strong>{title}</strong>
            </span>
            <span class="stack tight">
              <Meter label={`Requests ${title}`} used={used} limit={limit} />
              <span>{say`${countText(used)} of ${countText(limit)} now`}</span>
            </span>
          </li>
        );
      })}
    </ul>
  );
}
