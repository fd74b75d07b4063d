import type { Decision, Rule } from '../../../engine/types.ts';
import type { Ban } from '../../../model/account.ts';
import { numberOfWindow } from '../../../model/windows.ts';

/*
 * Writes a decision as numbers. The first says how many follow for this consumer:
 *
 *   admitted
 *   for each window of each account: used, end; of a sliding window: how many counts it has and, if any, the beginning of slice 0, the
 *     number of the first slice, the counts
 *   for each account with a bound: the requests in flight
 *
 * The rest follows only if an account has strikes, a ban or top-ups, if the requests in flight refuse some, or if leases matter:
 *
 *   bannedFrom
 *   1 if this decision imposed the ban, else 0
 *   1 if the requests in flight alone refuse the others, else 0
 *   how long the requests that it did not admit may wait for units that other gateways return; 0: it has refused them
 *   1 if other gateways may return units, else 0
 *   how many units it has lent, and for how long
 *   for each account: strikes, their end; the number of the ban, its end, its window + 10 times the index of its budget (0: the own one)
 *   for each top-up in force: its window + 10 times the index of its account, its amount, its end
 */

export function putAccounts(reply: number[], decision: Decision, rule: Rule): void {
  const { accounts, inFlight } = decision;
  const { budgets } = rule;
  const sizeAt = reply.length;
  reply[sizeAt] = 0;
  reply[sizeAt + 1] = decision.admitted;
  let size = sizeAt + 2;
  let isPlain =
    decision.isCrowded === undefined &&
    decision.waitMs === undefined &&
    decision.mayReturn === undefined &&
    decision.lent === undefined;
  for (let i = 0; i < budgets.length; i++) {
    const account = accounts[i]!;
    const { windows } = account;
    for (const { window, slices } of budgets[i]!.limits) {
      const count = windows[window];
      if (slices === undefined) {
        reply[size] = count === undefined ? 0 : count.used;
        reply[size + 1] = count === undefined ? 0 : count.endsAtMs;
        size += 2;
      } else if (count === undefined) {
        reply[size] = 0;
        size += 1;
      } else {
        const { startsAtMs, first, counts } = count.slices!;
        reply[size] = counts.length;
        reply[size + 1] = startsAtMs;
        reply[size + 2] = first;
        size += 3;
        for (const one of counts) {
          reply[size] = one;
          size += 1;
        }
      }
    }
    if (account.strikes !== undefined || account.ban !== undefined || account.topUps !== undefined) isPlain = false;
  }
  if (inFlight !== undefined) for (const count of inFlight) if (count >= 0) reply.push(count);
  if (!isPlain) putRest(reply, decision, rule);
  reply[sizeAt] = reply.length - sizeAt - 1;
}

function putRest(reply: number[], decision: Decision, { budgets }: Rule): void {
  const { accounts } = decision;
  reply.push(decision.bannedFrom);
  reply.push(decision.imposesBan ? 1 : 0);
  reply.push(decision.isCrowded ? 1 : 0);
  reply.push(decision.waitMs ?? 0);
  reply.push(decision.mayReturn ? 1 : 0);
  reply.push(decision.lent === undefined ? 0 : decision.lent.units);
  reply.push(decision.lent === undefined ? 0 : decision.lent.forMs);
  for (const account of accounts) {
    const { strikes, ban } = account;
    reply.push(strikes === undefined ? 0 : strikes.count);
    reply.push(strikes === undefined ? 0 : strikes.endsAtMs);
    reply.push(ban === undefined ? 0 : ban.number);
    reply.push(ban === undefined ? 0 : ban.untilMs);
    reply.push(ban === undefined ? 0 : banWindow(ban, budgets));
  }
  for (let i = 0; i < accounts.length; i++) {
    const { topUps } = accounts[i]!;
    for (const { window } of budgets[i]!.limits) {
      const topUp = topUps?.[window];
      if (topUp !== undefined) {
        reply.push(numberOfWindow(window) + 10 * i);
        reply.push(topUp.amount);
        reply.push(topUp.untilMs);
      }
    }
  }
}

function banWindow({ window, budget }: Ban, budgets: Rule['budgets']): number {
  let place = 0;
  for (let i = 1; i < budgets.length; i++) if (budgets[i]!.name === budget) place = 10 * i;
  return numberOfWindow(window) + place;
}
