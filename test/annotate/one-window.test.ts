import fc from 'fast-check';
import { expect, test } from 'vitest';
import { toppedUp } from '../../src/admit/account-changes.ts';
import type { Allowance } from '../../src/admit/allowance.ts';
import { accountsAfter, decide } from '../../src/admit/decision.ts';
import { type Banned, type Refused, verdictsOf } from '../../src/admit/verdict.ts';
import { refusal } from '../../src/annotate/errors.ts';
import { RateLimitFields } from '../../src/annotate/rate-limit.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { AccountState } from '../../src/engine/types.ts';
import { windowOf } from '../../src/model/values.ts';
import { sharedHistories } from '../support/histories.ts';
import { SEED, tries } from '../support/sample.ts';

const T0 = 1_800_000_000_123;
const FIELDS = new RateLimitFields(true);

/** The accounts of a customer and its keys, with what a decision leaves of them. */
class Accounts {
  readonly #states = new Map<string, AccountState>();

  /** The budgets of a plan: of a customer, which its keys share, or of one key. */
  of(key: number, plan: Allowance): readonly AccountState[] {
    return this.#idsOf(key, plan).map((id) => this.#states.get(id) ?? UNSEEN);
  }

  keep(key: number, plan: Allowance, states: readonly AccountState[]): void {
    for (const [i, id] of this.#idsOf(key, plan).entries()) this.#states.set(id, states[i]!);
  }

  topUp(key: number, plan: Allowance, amount: number, nowMs: number): void {
    for (const [i, id] of this.#idsOf(key, plan).entries()) {
      const [of] = plan.budgets[i]!.limits;
      if (of !== undefined) this.#states.set(id, toppedUp(this.#states.get(id) ?? UNSEEN, of, amount, nowMs).state);
    }
  }

  #idsOf(key: number, { budgets }: Allowance): readonly string[] {
    return budgets.map(({ name, scope }) => (scope === 'customer' ? name : `${key} ${name}`));
  }
}

/** The values of an answer's fields, by name. */
function fieldsOf(names: readonly string[]): Map<string, string> {
  const pairs = names.flatMap((name, i) => (i % 2 === 0 ? [[name, names[i + 1]!] as const] : []));
  return new Map(pairs);
}

function expectOneWindow(verdict: Refused | Banned): void {
  const { binding, windows, nowMs } = verdict;
  const answer = refusal(verdict);
  const { message, details } = JSON.parse(answer.body);
  const fields = fieldsOf([...FIELDS.ofVerdict(verdict), ...answer.fields]);
  const retryAfter = fields.has('Retry-After') ? Number(fields.get('Retry-After')) : null;
  const resetAt = Number(fields.get('X-RateLimit-Reset'));
  const [, remaining, resetIn] = new RegExp(`"${binding.name}";r=(\\d+);t=(\\d+)`).exec(fields.get('RateLimit')!) ?? [];

  expect(Number(fields.get('X-RateLimit-Limit'))).toBe(binding.limit);
  // The plan may have lost the window that led to the ban.
  if (windows.some(({ name }) => name === binding.name)) {
    expect(remaining).toBe(fields.get('X-RateLimit-Remaining'));
    if (retryAfter !== null) expect(Number(resetIn)).toBe(retryAfter);
  }
  if (retryAfter !== null) {
    expect(message).toContain(`Retry after ${retryAfter} s`);
    expect(resetAt).toBe(Math.ceil(verdict.retryAtMs! / 1_000));
    expect(Math.ceil((verdict.retryAtMs! - nowMs) / 1_000)).toBe(retryAfter);
  }
  if (verdict.kind === 'banned') return;
  const { name = binding.window } = details;
  expect({ ...details, name }).toMatchObject({ name: binding.name, limit: binding.limit, resetAt });
  expect(message).toContain(`${binding.limit}${binding.unit === null ? '' : ` ${binding.unit}`} per ${windowOf(name)}`);
  expect(Number(fields.get('X-RateLimit-Remaining'))).toBeLessThan(binding.needed);
  const tooSmall = windows.filter(({ limit, needed }) => limit < needed);
  if (tooSmall.length === 0) {
    expect(retryAfter).not.toBeNull();
    const waited = windows.filter(({ remaining: left, needed }) => left < needed);
    for (const { resetAtMs } of waited) expect(resetAtMs).toBeLessThanOrEqual(binding.resetAtMs);
    return;
  }
  expect(retryAfter).toBeNull();
  expect(message).toContain('waiting will not help');
  expect(tooSmall).toContain(binding);
  for (const { unit, limit } of tooSmall)
    if (unit === binding.unit) expect(limit).toBeGreaterThanOrEqual(binding.limit);
}

test('the message, details, rate-limit fields and Retry-After of a refusal are of one window, whatever the plan (reliability 374)', () => {
  const seen = { refused: 0, tooSmall: 0, banned: 0 };
  fc.assert(
    fc.property(sharedHistories, (steps) => {
      const accounts = new Accounts();
      let nowMs = T0;
      for (const { afterMs, plan, consumer, cost, n, topUp, amounts } of steps) {
        nowMs += afterMs;
        if (topUp !== undefined) accounts.topUp(consumer, plan, topUp, nowMs);
        const before = accounts.of(consumer, plan);
        const ofUnits = plan.inUnits === undefined ? undefined : amounts;
        const decision = decide(before, plan, nowMs, cost, n, undefined, ofUnits);
        const verdictAt = verdictsOf(decision, plan);
        for (let i = decision.admitted; i < n; i++) {
          const verdict = verdictAt(i);
          if (verdict.kind !== 'refused' && verdict.kind !== 'banned') continue;
          if (verdict.kind === 'banned') seen.banned++;
          else if (verdict.retryAtMs === null) seen.tooSmall++;
          else seen.refused++;
          expectOneWindow(verdict);
        }
        if (n > 0) accounts.keep(consumer, plan, accountsAfter(before, decision, plan));
      }
    }),
    { seed: SEED, numRuns: tries(250, 5_000) },
  );
  for (const number of Object.values(seen)) expect(number).toBeGreaterThan(125);
});
