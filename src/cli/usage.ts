import type { Outcome } from '../admit/decide.ts';
import { type Allowance, allowanceOf, WINDOWS } from '../admit/plan.ts';
import { Failure } from '../failure.ts';
import type { Command, ExitCode } from './command.ts';
import { ledgerOf } from './ledger-view.ts';
import { withStore } from './open-store.ts';
import { table } from './table.ts';

/** `tollgate usage`: what a key has used in each window. */
export const usage: Command = {
  name: 'usage',
  about: 'Tells what a key has used in each window of its plan, its strikes and its ban.',
  positionals: ['KEY_ID'],
  options: { json: { type: 'boolean', about: 'Prints the same object as GET /usage, times in Unix seconds.' } },
  async run({ options, positionals }, terminal) {
    const [id] = positionals as [string];
    return withStore<ExitCode>(terminal.env, async (store) => {
      const key = await store.keys.get(id);
      if (key === null) throw new Failure('not_found', `There is no key ${id}.`);
      const plan = store.plans.plans.get(key.plan);
      if (plan === undefined) throw new Failure('refused', `The plan ${key.plan} of key ${id} is not in plans.yaml.`);
      const allowance = allowanceOf(plan, key.limits);
      if ('missing' in allowance)
        throw new Failure('refused', `Key ${id} has no limit for ${allowance.missing.join(', ')}.`);
      const outcome = await ledgerOf(store).present(id, allowance);
      if (outcome === null) throw new Failure('store_corrupt', `What the store holds for ${id} cannot be read.`);
      const report = usageReport(id, allowance, outcome);
      if (options.json === true) terminal.out(`${JSON.stringify(report, null, 2)}\n`);
      else terminal.out(asText(report, terminal));
      return 0;
    });
  },
};

export interface UsageReport {
  readonly id: string;
  readonly plan: string;
  readonly windows: Readonly<
    Record<string, { limit: number | 'unlimited'; used: number; remaining: number | 'unlimited'; resetAt: number }>
  >;
  readonly strikes: number;
  readonly ban: { readonly number: number; readonly until: number } | null;
}

/** The object of contract section 4, `GET /usage`. */
export function usageReport(
  id: string,
  { plan, limits, unlimited }: Allowance,
  { nowMs, state }: Outcome,
): UsageReport {
  const counted = limits.map(({ window, lengthMs, limit }) => {
    const { used, endsAtMs } = state.windows[window] ?? { used: 0, endsAtMs: nowMs + lengthMs };
    return [
      window,
      { limit, used, remaining: Math.max(limit - used, 0), resetAt: Math.ceil(endsAtMs / 1000) },
    ] as const;
  });
  const uncounted = unlimited.map(({ window }) => {
    const told = { limit: 'unlimited', used: 0, remaining: 'unlimited', resetAt: Math.ceil(nowMs / 1000) } as const;
    return [window, told] as const;
  });
  const windows = new Map<string, UsageReport['windows'][string]>([...counted, ...uncounted]);
  const { ban } = state;
  return {
    id,
    plan,
    windows: Object.fromEntries(WINDOWS.filter((name) => windows.has(name)).map((name) => [name, windows.get(name)!])),
    strikes: state.strikes.count,
    ban: ban !== null && nowMs < ban.untilMs ? { number: ban.number, until: Math.ceil(ban.untilMs / 1000) } : null,
  };
}

function asText(report: UsageReport, terminal: { readonly isTerminal: boolean }): string {
  const rows = Object.entries(report.windows).map(([window, { limit, used, remaining, resetAt }]) => [
    window,
    String(limit),
    String(used),
    String(remaining),
    new Date(resetAt * 1000).toISOString(),
  ]);
  const ban =
    report.ban === null
      ? 'not banned'
      : `ban ${report.ban.number}, until ${new Date(report.ban.until * 1000).toISOString()}`;
  return `${report.id}, plan ${report.plan}\n${table(['window', 'limit', 'used', 'remaining', 'resets'], rows, terminal)}strikes: ${report.strikes}, ${ban}\n`;
}
