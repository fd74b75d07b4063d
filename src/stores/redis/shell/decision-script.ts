import { accountAfter, decide } from '../../../engine/decide.ts';
import type { AccountState, Decision, Details, Draft, LeaseTerms, Rule } from '../../../engine/types.ts';
import { putAccounts } from './decision-reply.ts';
import { addCost, historyState, readGatewayClock } from './history-costs.ts';
import { recordLate } from './late-costs.ts';
import { ARGV, cjson, cmsgpack, type ErrorReply, KEYS, RECALLS, redis } from './script-globals.ts';
import { nowMs, seconds } from './script-time.ts';
import { FOREIGN, includeNow, loadAccount, type StoredBudget, saveAccount } from './stored-account.ts';
import { recordAgain } from './stored-history.ts';

/*
 * Decides requests of many consumers in one call.
 *
 * A consumer has an account for each budget that its requests charge: its own, and those of its customer and of groups of
 * routes. The store counts a request in all of them or in none.
 *
 * KEYS  for each consumer the hashes of its accounts in the order of the budgets, its own first; behind them its history, if the
 *       rule asks for it, and that of its customer, and the same for each unit of the rule
 * ARGV  ARGV[1] as JSON a list of numbers: runs of consumers, in the order of KEYS, each as: rule, n, cost, number of consumers;
 *       rule 2 is ARGV[2]. Under a rule that bounds requests in flight a run is of one consumer, and the number of requests that
 *       this process has in flight in each of its accounts before this call follows (-1: the gateway asks how many all have).
 *       Behind that, under a rule with budgets in units of their own, follows what each request takes of each unit.
 *       A number of consumers of 0 means one whose gateway says something about leases. Directly behind the 0 follow: how many
 *       units it would like to borrow, under which id, and for how long it can use them; 1 if the decision must be final (else 0);
 *       the id of a lease that it returns (0 for none), how many units of it are unused, and if any are, where each window of
 *       each account counted them (`placeOf`).
 *       The other arguments are rules as JSON (`StoredRule`). Behind them, if the rule keeps a history, stands the gateway's clock
 *       (history-costs.ts).
 * reply numbers in one list as MessagePack: now; then for each consumer what decision-reply.ts describes, or 0 if a hash holds foreign
 *       values. At the end, if the script could not record in a history because its key holds something else, which of KEYS that is.
 *       Now alone: the script decided nothing, because the instants of a calendar window do not include now.
 */

/** A rule as the gateway sends it. */
export interface StoredRule extends Rule {
  readonly budgets: readonly StoredBudget[];
  /** How many histories the script writes: 0; 1, that of the consumer; or 2, also that of its customer. */
  readonly histories: number;
  /** Set if the histories also get the requests that the decision did not admit. */
  readonly recordsAll?: boolean;
  readonly units: readonly string[];
}

/** What the gateway asks about each consumer of a run. */
interface Run {
  readonly rule: StoredRule;
  readonly n: number;
  readonly cost: number;
  readonly details: Details | undefined;
}

const HOUR_MS = 3_600_000;

/** How many requests this call has admitted to each account so far, by the name of its hash: `inFlight` of `Details` does not contain them. */
const begun: { [key: string]: number } = {};

/** Decides about the consumer whose names begin at `at`, and appends its part of the reply. @returns an error of the store */
function decideOne(run: Run, at: number, reply: number[]): ErrorReply | undefined {
  const { rule, n, cost } = run;
  const { budgets } = rule;
  const before: AccountState[] = [];
  for (let i = 0; i < budgets.length; i++) {
    const loaded = loadAccount(KEYS[at + i]!, budgets[i]!);
    if (loaded === FOREIGN) {
      reply.push(0);
      return undefined;
    }
    if ((loaded as ErrorReply).err !== undefined) return loaded as ErrorReply;
    before.push(loaded as AccountState);
  }
  const details = run.details?.inFlight === undefined ? run.details : withBegun(run.details, at);
  const decision = decide(before, rule, nowMs, cost, n, details);
  if (n > 0 || decision.tookBack !== undefined) {
    // The first write of the script: if the store refuses writes, the script has done nothing for this consumer.
    for (let i = 0; i < budgets.length; i++) {
      const key = KEYS[at + i]!;
      const budget = budgets[i]!;
      const after = accountAfter(before[i], decision, i, rule);
      const error = saveAccount(key, budget, before[i]!, after, rule.bans, nowMs);
      if (error !== undefined) return error;
      if (budget.inFlight !== undefined) begun[key] = (begun[key] ?? 0) + decision.admitted;
    }
  }
  if (decision.recalls !== undefined) for (const i of decision.recalls) redis.pcall('PUBLISH', RECALLS, KEYS[at + i]!);
  if (rule.histories > 0) {
    const error = record(run, decision, at + budgets.length);
    if (error !== undefined) return error;
  }
  putAccounts(reply, decision, rule);
  return undefined;
}

function withBegun({ amounts, terms, inFlight }: Details, at: number): Details {
  const all: number[] = [];
  for (let i = 0; i < inFlight!.length; i++) {
    const one = inFlight![i]!;
    all.push(one < 0 ? one : one + (begun[KEYS[at + i]!] ?? 0));
  }
  return { inFlight: all, amounts, terms };
}

/** Records the decision in the histories, whose names begin at `first`. @returns an error of the store */
function record({ rule, n, cost, details }: Run, decision: Decision, first: number): ErrorReply | undefined {
  const { histories, units } = rule;
  const back = decision.tookBack;
  const recorded = rule.recordsAll ? n : decision.admitted;
  if (recorded === 0 && back === undefined) return undefined;
  const hour = Math.floor(nowMs / HOUR_MS);
  const spent = recorded * cost + (decision.lent === undefined ? 0 : decision.lent.units);
  for (let i = 0; i < histories; i++) {
    const key = KEYS[first + i]!;
    if (spent > 0) {
      const error = recordAdmitted(key, hour, spent);
      if (error) return error;
    }
    if (back !== undefined && back.units > 0) {
      const error = recordLate(key, back.hour, -back.units, hour);
      if (error) return error;
    }
  }
  for (let i = 0; i < units.length; i++) {
    const amount = recorded * (details?.amounts?.[units[i]!] ?? 0);
    for (let j = 0; amount > 0 && j < histories; j++) {
      const error = recordAdmitted(KEYS[first + histories * (i + 1) + j]!, hour, amount);
      if (error) return error;
    }
  }
  return undefined;
}

function recordAdmitted(key: string, hour: number, cost: number): ErrorReply | undefined {
  const added = addCost(key, hour, cost);
  if (added === undefined) return undefined;
  return recordAgain(key, hour, cost, added);
}

/** Reads the numbers that only some runs have behind their first four. @returns where the next run begins */
function readDetails(
  details: Draft<Details>,
  runs: readonly number[],
  from: number,
  rule: StoredRule,
  hasTerms: boolean,
): number {
  const { budgets, units } = rule;
  let at = from;
  if (hasTerms) {
    const terms: Draft<LeaseTerms> = {};
    if (runs[at]! > 0) terms.borrows = { id: runs[at + 1]!, units: runs[at]!, forMs: runs[at + 2]! };
    if (runs[at + 3] === 1) terms.isFinal = true;
    const id = runs[at + 4]!;
    const unused = runs[at + 5]!;
    at += 6;
    if (id > 0) {
      const places: number[][] = [];
      for (const { limits } of budgets) {
        const ofBudget: number[] = [];
        if (unused > 0) {
          for (let i = 0; i < limits.length; i++) ofBudget.push(runs[at + i]!);
          at += limits.length;
        }
        places.push(ofBudget);
      }
      terms.returned = { id, unused, places };
    }
    details.terms = terms;
  }
  if (rule.isBounded) {
    const inFlight: number[] = [];
    for (let i = 0; i < budgets.length; i++) inFlight.push(runs[at + i]!);
    at += budgets.length;
    details.inFlight = inFlight;
  }
  if (units.length > 0) {
    const amounts: { [unit: string]: number } = {};
    for (let i = 0; i < units.length; i++) amounts[units[i]!] = runs[at + i]!;
    at += units.length;
    details.amounts = amounts;
  }
  return at;
}

/** The script. */
export function main(): string | ErrorReply {
  const rules: StoredRule[] = [];
  const last = readGatewayClock(seconds);
  for (let i = 1; i < last; i++) {
    const rule = cjson.decode<StoredRule>(ARGV[i]!);
    for (const { limits } of rule.budgets) if (!includeNow(limits, nowMs)) return cmsgpack.pack([nowMs]);
    rules.push(rule);
  }
  const reply = [nowMs];
  const text = ARGV[0]!;
  // Most calls send this text. Not decoding it saves 5,000 instructions.
  const runs = text === '[2,1,1,1]' ? [2, 1, 1, 1] : cjson.decode<number[]>(text);
  let at = 0;
  let i = 0;
  while (i < runs.length) {
    const rule = rules[runs[i]! - 2]!;
    const consumers = runs[i + 3]!;
    let details: Draft<Details> | undefined;
    const n = runs[i + 1]!;
    const cost = runs[i + 2]!;
    i += 4;
    if (consumers === 0 || rule.isBounded || rule.units.length > 0) {
      details = {};
      i = readDetails(details, runs, i, rule, consumers === 0);
    }
    const run: Run = { rule, n, cost, details };
    const size = rule.budgets.length + rule.histories * (1 + rule.units.length);
    for (let j = 0; j < Math.max(consumers, 1); j++) {
      const error = decideOne(run, at, reply);
      if (error !== undefined) return error;
      at += size;
    }
  }
  if (historyState.unrecorded !== undefined) {
    for (let j = 0; j < KEYS.length; j++) {
      if (KEYS[j] === historyState.unrecorded) {
        reply.push(j + 1);
        break;
      }
    }
  }
  return cmsgpack.pack(reply);
}
