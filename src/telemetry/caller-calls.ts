import { isOfCustomer } from '../admit/account-id.ts';
import type { Exchange } from '../gateway/exchange.ts';
import { RecentlyUsed } from '../io/recently-used.ts';
import type { LastCalls } from '../model/refusal.ts';
import { ownCopy } from './kept-refusals.ts';

/** Maximum callers that are remembered. */
const CALLERS = 10_000;

interface Caller {
  /** It names the customer, to whom the key may be moved. */
  accountId: string;
  clientAddress: string;
  /** Unix milliseconds; 0: not known. */
  lastAtMs: number;
  admittedAtMs: number;
  refusedSinceMs: number;
}

/** When each caller called last, from where, and since when it is refused. */
export class CallerCalls {
  /** By consumer. */
  readonly #callers = new RecentlyUsed<Caller>(CALLERS);

  /** @param exchange of an identified caller */
  note({ consumerId, accountId, clientAddress, judgement }: Exchange, nowMs: number): void {
    let caller = this.#callers.get(consumerId!);
    if (caller === undefined) {
      caller = { accountId: '', clientAddress: '', lastAtMs: 0, admittedAtMs: 0, refusedSinceMs: 0 };
      this.#callers.set(consumerId!, caller);
    }
    caller.accountId = accountId ?? consumerId!;
    caller.lastAtMs = nowMs;
    if (caller.clientAddress !== clientAddress) caller.clientAddress = ownCopy(clientAddress);
    if (judgement === 'admitted') {
      caller.admittedAtMs = nowMs;
      caller.refusedSinceMs = 0;
    } else if (caller.refusedSinceMs === 0 && (judgement === 'refused' || judgement === 'banned')) {
      caller.refusedSinceMs = nowMs;
    }
  }

  /** @param id of a key, a caller with tokens or a customer. @returns one for each caller that it means */
  of(id: string): readonly LastCalls[] {
    const own = this.#callers.get(id);
    const ofCustomer = () => [...this.#callers.values()].filter(({ accountId }) => isOfCustomer(accountId, id));
    const found = own === undefined ? ofCustomer() : [own];
    return found.map(({ clientAddress, lastAtMs, admittedAtMs, refusedSinceMs }) => ({
      last: { at: new Date(lastAtMs).toISOString(), clientAddress },
      admittedAt: timeOf(admittedAtMs),
      refusedSince: timeOf(refusedSinceMs),
    }));
  }
}

function timeOf(ms: number): string | null {
  return ms === 0 ? null : new Date(ms).toISOString();
}
