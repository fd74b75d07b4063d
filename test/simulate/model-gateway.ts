import { expect } from 'vitest';
import { accountIdOf, accountIdsOf } from '../../src/admit/account-id.ts';
import { type Allowance, allowanceOf, bitOfUnit, withBudgets } from '../../src/admit/allowance.ts';
import { accountsAfter, decide, settled } from '../../src/admit/decision.ts';
import { type Reservation, verdictOf } from '../../src/admit/verdict.ts';
import { parsePlans } from '../../src/config/plans-schema.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState, Amounts } from '../../src/engine/types.ts';
import type { Limits, Plans } from '../../src/model/plan.ts';
import { groupsOfRecorded } from '../../src/operations/plans/recorded-groups.ts';
import { PathGroups } from '../../src/routing/path-groups.ts';
import type { Recording } from '../../src/simulate/recording.ts';
import { replay } from '../../src/simulate/replay.ts';
import { lineOf, recordingOf } from './recorded.ts';

export function plansIn(text: string): Plans {
  const parsed = parsePlans(text, 'plans.yaml');
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.value;
}

export interface Caller {
  readonly id: string;
  readonly plan: string;
  readonly own: Limits;
  readonly customer: { readonly id: string; readonly limits: Limits } | null;
}

interface Request {
  readonly caller: Caller;
  readonly atMs: number;
  readonly path: string;
  readonly method?: string;
  readonly cost?: number;
  /** Bits of groups that a policy chose besides those of the path. */
  readonly ofPolicy?: number;
  /** What it takes of units in advance, and what it costs in the end. */
  readonly reserved?: Amounts;
  readonly used?: Amounts;
}

/** What a gateway with an empty store writes about these requests under the plans. Each is settled before the next. */
export class Gateway {
  readonly #plans: Plans;
  readonly #accounts = new Map<string, AccountState>();
  readonly lines: string[] = [];

  constructor(plans: Plans) {
    this.#plans = plans;
  }

  request({ caller, atMs, path, method = 'GET', cost = 1, ofPolicy = 0, reserved = {}, used = {} }: Request): string {
    const plan = this.#plans.plans.get(caller.plan)!;
    const found = allowanceOf(plan, caller.own, false, caller.customer);
    if ('missing' in found) throw new Error('a limit is missing');
    const matcher = new PathGroups(plan.groups ?? []);
    const ofUnits = (found.units?.names ?? []).map((unit, i) => (unit in reserved ? bitOfUnit(i) : 0));
    const bits = ofUnits.reduce((all, bit) => all | bit, matcher.matching({ path, method }) | ofPolicy);
    const allowance = withBudgets(found, bits);
    const charged = Object.entries(reserved).filter(([unit]) => allowance.inUnits?.includes(unit));
    const amounts = charged.length === 0 ? undefined : Object.fromEntries(charged);
    const accountId = accountIdOf(caller.id, caller.customer?.id ?? null);
    const ids = accountIdsOf(accountId, allowance);
    const before = ids.map((id) => this.#accounts.get(id) ?? UNSEEN);
    const decision = decide(before, allowance, atMs, cost, 1, undefined, amounts);
    const after = accountsAfter(before, decision, allowance);
    for (const [i, id] of ids.entries()) this.#accounts.set(id, after[i]!);
    const verdict = verdictOf(decision, allowance, 0);
    if (verdict.kind === 'crowded') throw new Error('nothing is in flight');
    const isPaid = verdict.kind === 'admitted';
    const units = charged.map(([unit, taken]) => {
      return { unit, reserved: taken, settled: isPaid ? used[unit]! : 0, why: null };
    });
    if (isPaid && verdict.reservation !== null) this.#settle(ids, allowance, verdict.reservation, atMs, used);
    this.lines.push(
      lineOf({
        ...{ consumerId: caller.id, accountId, plan: caller.plan, path, method, cost, judgement: verdict.kind },
        limits: allowance.limits,
        windows: verdict.windows,
        imposedBan: verdict.kind === 'banned' && verdict.imposed ? verdict.number : null,
        decidedAtMs: atMs,
        units: units.length === 0 ? null : units,
      }),
    );
    return verdict.kind;
  }

  #settle(
    ids: readonly string[],
    { budgets }: Allowance,
    { amounts, windows }: Reservation,
    atMs: number,
    used: Amounts,
  ) {
    for (const [i, { unit }] of budgets.entries()) {
      if (unit === undefined) continue;
      const [id, delta] = [ids[i]!, used[unit]! - amounts[unit]!];
      if (delta !== 0) this.#accounts.set(id, settled(this.#accounts.get(id)!, delta, windows[i]!, atMs));
    }
  }
}

/** @param before null if the plans in force are not known */
export function recordingUnder(lines: readonly string[], tried: Plans, before: Plans | null): Recording {
  return recordingOf(lines, groupsOfRecorded(tried, before));
}

/** A replay of the lines under the plans that wrote them, in whatever order they are, comes to what they record. */
export function expectTheRecord({ lines }: Gateway, plans: Plans, random: Iterator<number>): void {
  const mixed = lines.map((line) => ({ line, at: random.next().value as number }));
  mixed.sort((a, b) => a.at - b.at);
  const recording = recordingUnder(
    mixed.map(({ line }) => line),
    plans,
    plans,
  );
  for (const isBaseline of [false, true]) {
    const came = replay(recording, { plans, before: plans, isBaseline });
    expect(came.differs).toEqual({ verdicts: 0, bans: 0 });
    expect(came.totals.simulated).toEqual(came.totals.recorded);
  }
}
