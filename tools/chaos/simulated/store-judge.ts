import { type AccountState, type Outcome, UNSEEN } from '../../../src/admit/decide.ts';
import type { Allowance } from '../../../src/admit/plan.ts';
import { type Refused, verdictOf } from '../../../src/admit/verdict.ts';
import { WINDOW_MS, type WindowLimit, type WindowName } from '../../../src/admit/windows.ts';
import type { ExecutedAddition, ExecutedDecision } from './redis-model.ts';

/** Cost that was counted between two instants: the same one, unless the judge learned of it from a slice. */
interface Counted {
  readonly fromMs: number;
  readonly toMs: number;
  readonly cost: number;
}

/** A window as the judge counts it: `log` of a sliding one, else `used` and `endsAtMs`. */
interface JudgedWindow {
  readonly form: string;
  used: number;
  endsAtMs: number;
  log: Counted[];
}

interface JudgedAccount {
  readonly windows: Map<WindowName, JudgedWindow>;
  bans: string;
  strikes: number;
  strikesEndAtMs: number;
  banNumber: number;
  banUntilMs: number;
}

/**
 * Holds what the store does against contract section 3, with a bookkeeping of its own: for a sliding window it adds up the
 * log of all counts, and for other windows it knows the end and the sum. It uses nothing of src/admit/windows.ts that counts.
 */
export class StoreJudge {
  readonly #accounts = new Map<string, JudgedAccount>();

  /** The state was changed by something that the judge does not follow: it goes on from the next state that it sees. */
  disturbed(): void {
    for (const id of this.#accounts.keys()) this.#accounts.delete(id);
  }

  disturbedOne(consumerId: string): void {
    this.#accounts.delete(consumerId);
  }

  /** @returns what is wrong, or null */
  decided(plan: Allowance, { consumerId: id, outcome, isFirst, stored }: ExecutedDecision): string | null {
    const bans = JSON.stringify(plan.bans);
    const account = this.#accounts.get(id) ?? (isFirst ? accountOf(UNSEEN, plan, bans) : null);
    const isKnown = account !== null && account.bans === bans && plan.limits.every((one) => isSameForm(account, one));
    if (!isKnown) {
      this.#accounts.set(id, accountOf(stored, plan, bans));
      return null;
    }
    this.#accounts.set(id, account);
    const wrong = judge(account, plan, outcome);
    return wrong === null ? null : `${wrong} Consumer ${id}: ${JSON.stringify(outcome)}.`;
  }

  /** @returns what is wrong, or null */
  added({ consumerId: id, windows, nowMs, stored }: ExecutedAddition): string | null {
    const account = this.#accounts.get(id);
    if (account === undefined) return null;
    for (const { window, slices, isCalendar, spent, endsAtMs, isAdded } of windows) {
      if (!isAdded) {
        // No history outlasts a week.
        if (endsAtMs > nowMs || window === 'week')
          return `Usage of ${spent} was not added to the ${window} of ${id}, which has not ended.`;
        continue;
      }
      const form = slices > 0 ? `${slices} slices` : isCalendar ? 'calendar' : 'fixed';
      const known = account.windows.get(window) ?? emptyWindow(form);
      account.windows.set(window, known);
      if (!known.form.startsWith(form)) {
        this.#accounts.delete(id);
        return null;
      }
      if (slices > 0) known.log.push({ fromMs: nowMs, toMs: nowMs, cost: spent });
      else {
        const isOpen = nowMs < known.endsAtMs;
        known.used = (isOpen ? known.used : 0) + spent;
        known.endsAtMs = isOpen ? Math.min(known.endsAtMs, endsAtMs) : endsAtMs;
        const kept = stored.windows[window];
        if (kept?.used !== known.used || kept.endsAtMs !== known.endsAtMs) {
          return `The ${window} of ${id} is ${JSON.stringify(kept)} after usage of ${spent} was added; it should be ${known.used} until ${known.endsAtMs}.`;
        }
      }
    }
    return null;
  }
}

function judge(account: JudgedAccount, plan: Allowance, outcome: Outcome): string | null {
  const { nowMs, cost, n, admitted, bannedFrom } = outcome;
  if (n === 0) return null;
  if (nowMs < account.banUntilMs) {
    return admitted === 0 && bannedFrom === 0 ? null : 'The store did not ban a request during a ban.';
  }
  let mayRefuse = false;
  let neverFits = false;
  for (const limit of plan.limits) {
    const window = account.windows.get(limit.window) ?? emptyWindow(formOf(limit));
    account.windows.set(limit.window, window);
    const { least, most } = countNow(window, limit, nowMs);
    const spent = admitted * cost;
    if (admitted > 0 && least + spent > limit.limit) {
      return `The store admitted ${spent} in a ${limit.window} of ${limit.limit} (${window.form}) with ${least} counted.`;
    }
    if (most + spent + cost > limit.limit) mayRefuse = true;
    if (cost > limit.limit) neverFits = true;
    const wrong = count(window, limit, nowMs, spent, outcome.state.windows[limit.window]);
    if (wrong !== null) return wrong;
  }
  if (admitted < n && !mayRefuse) return 'The store refused a request for which all windows had room.';
  return judgeStrikes(account, plan, outcome, neverFits);
}

/** The cost that counts at present: exactly, or for slices that the judge did not see from the beginning two bounds. */
function countNow(window: JudgedWindow, { lengthMs, slices }: WindowLimit, nowMs: number) {
  if (slices === undefined) {
    const used = nowMs < window.endsAtMs ? window.used : 0;
    return { least: used, most: used };
  }
  const sliceMs = Math.ceil(lengthMs / slices);
  let least = 0;
  let most = 0;
  for (const { fromMs, toMs, cost } of window.log) {
    if (fromMs > nowMs - lengthMs) least += cost;
    if (toMs > nowMs - lengthMs - sliceMs) most += cost;
  }
  return { least, most };
}

function count(
  window: JudgedWindow,
  { lengthMs, slices, calendar, window: name }: WindowLimit,
  nowMs: number,
  spent: number,
  told: AccountState['windows'][WindowName],
): string | null {
  if (slices !== undefined) {
    if (spent > 0) window.log.push({ fromMs: nowMs, toMs: nowMs, cost: spent });
    window.log = window.log.filter(({ toMs }) => toMs > nowMs - 2 * lengthMs);
    return null;
  }
  if (nowMs >= window.endsAtMs) {
    window.used = 0;
    window.endsAtMs = spent === 0 ? 0 : calendar === undefined ? nowMs + lengthMs : endOfPeriod(calendar.form, nowMs);
  }
  // Usage of a gateway whose own clock is wrong may end later than the period.
  if (calendar !== undefined) window.endsAtMs = Math.min(window.endsAtMs, endOfPeriod(calendar.form, nowMs));
  window.used += spent;
  const used = told?.used ?? 0;
  const endsAtMs = told?.endsAtMs ?? 0;
  if (used === window.used && endsAtMs === window.endsAtMs) return null;
  return `The store counts ${used} until ${endsAtMs} in a ${name}; it should be ${window.used} until ${window.endsAtMs}.`;
}

/** The zones of simulated plans, none of which changes its clocks, and what they are ahead of UTC. */
export const ZONES: Readonly<Record<string, number>> = {
  UTC: 0,
  'Asia/Kathmandu': 20_700_000,
  'America/Phoenix': -25_200_000,
};

function endOfPeriod({ unit, zone }: { unit: string; zone: string }, nowMs: number): number {
  const lengthMs = WINDOW_MS[unit as 'hour' | 'day'];
  const aheadMs = ZONES[zone]!;
  return (Math.floor((nowMs + aheadMs) / lengthMs) + 1) * lengthMs - aheadMs;
}

function judgeStrikes(account: JudgedAccount, plan: Allowance, outcome: Outcome, neverFits: boolean): string | null {
  const { nowMs, cost, n, admitted, bannedFrom, state } = outcome;
  const rule = plan.bans;
  if (rule === null) return outcome.bannedFrom === n ? null : 'The store banned a request under a plan without bans.';
  if (nowMs >= account.strikesEndAtMs) account.strikes = 0;
  if (account.banNumber > 0 && nowMs >= account.banUntilMs + rule.forgetMs) account.banNumber = 0;
  const refused = neverFits ? 0 : n - admitted;
  const missing = rule.after - account.strikes;
  if (refused === 0 || refused < missing) {
    if (bannedFrom !== n) return `The store banned before the strike number ${rule.after}.`;
    if (refused === 0) return null;
    const { retryAtMs } = verdictOf({ ...outcome, cost }, plan, n - 1) as Refused;
    const endMs = account.strikes === 0 ? nowMs + rule.withinMs : account.strikesEndAtMs;
    account.strikes += refused;
    account.strikesEndAtMs = Math.min(endMs, retryAtMs);
    return state.strikes.count === account.strikes
      ? null
      : `The store counts ${state.strikes.count} strikes of ${account.strikes}.`;
  }
  account.strikes = 0;
  account.strikesEndAtMs = 0;
  account.banNumber++;
  account.banUntilMs =
    nowMs + Math.min(Math.floor(rule.firstMs * rule.factor ** (account.banNumber - 1)), rule.longestMs);
  if (bannedFrom !== admitted + Math.max(missing - 1, 0))
    return `The store did not ban at exactly the strike number ${rule.after}.`;
  if (state.ban?.number === account.banNumber && state.ban.untilMs === account.banUntilMs) return null;
  return `The store imposed the ban ${JSON.stringify(state.ban)}; it should be number ${account.banNumber} until ${account.banUntilMs}.`;
}

/** What the judge knows after a decision under `plan`. Of windows that the plan does not have it does not know the form. */
function accountOf({ windows, strikes, ban }: AccountState, plan: Allowance, bans: string): JudgedAccount {
  const judged = Object.entries(windows).map(([name, { used, endsAtMs, slices }]): [WindowName, JudgedWindow] => {
    const window = name as WindowName;
    const limit = plan.limits.find((one) => one.window === window);
    const form = limit === undefined ? 'unknown' : formOf(limit);
    if (slices === undefined) return [window, { form, used, endsAtMs, log: [] }];
    const sliceMs = WINDOW_MS[window] / slices.per;
    const log = slices.counts.map((cost, i) => {
      const fromMs = Math.floor(slices.startsAtMs + (slices.first + i) * sliceMs);
      return { fromMs, toMs: fromMs + Math.ceil(sliceMs), cost };
    });
    return [window, { form: `${slices.per} slices`, used: 0, endsAtMs: 0, log }];
  });
  return {
    windows: new Map(judged),
    bans,
    strikes: strikes.count,
    strikesEndAtMs: strikes.endsAtMs,
    banNumber: ban?.number ?? 0,
    banUntilMs: ban?.untilMs ?? 0,
  };
}

function emptyWindow(form: string): JudgedWindow {
  return { form, used: 0, endsAtMs: 0, log: [] };
}

function formOf({ slices, calendar }: WindowLimit): string {
  if (slices !== undefined) return `${slices} slices`;
  return calendar === undefined ? 'fixed' : `calendar ${calendar.form.unit} ${calendar.form.zone}`;
}

function isSameForm(account: JudgedAccount, limit: WindowLimit): boolean {
  const known = account.windows.get(limit.window);
  return known === undefined || known.form === formOf(limit);
}
