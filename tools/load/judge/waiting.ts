import type { Exchange, Subject } from '../exchange.ts';
import type { Notes } from './notes.ts';
import { clock, isCounted, outcomeOf } from './verdict.ts';

const LOST_MS = 60_000;

/**
 * Retry-After (contract section 4): the latest of the ends of what still refuses, and waiting that long is always
 * enough. Held against what the same answer says of its windows, and against what became of who waited.
 *
 * @param exchanges in the order in which they were sent
 */
export function judgeWaiting(subject: Subject, exchanges: readonly Exchange[], notes: Notes): void {
  for (const exchange of exchanges) againstItsWindows(subject, exchange, notes);
  afterTheWait(subject, exchanges, notes);
}

function againstItsWindows({ name: who, cost }: Subject, exchange: Exchange, notes: Notes): void {
  const { retryAfterS, windows } = exchange.fields;
  if (exchange.status !== 429 || retryAfterS === null || windows === null) return;
  notes.looked('retryAfter');
  const needed = Math.max(1, ...windows.flatMap((it) => (it.remaining < cost ? [it.resetInS] : [])));
  const at = clock(exchange.receivedAtMs);
  if (retryAfterS < needed) {
    notes.fault(
      'retryAfter',
      who,
      'short',
      `at ${at} Retry-After was ${retryAfterS}, what refuses ends in ${needed} s.`,
    );
  } else if (retryAfterS > needed) {
    notes.fault(
      'retryAfter',
      who,
      'long',
      `at ${at} Retry-After was ${retryAfterS}, ${needed} would have been enough.`,
    );
  }
}

/**
 * The first request after every wait that was asked for is over must be admitted, or one that travelled with it: the
 * first of them to be decided finds nothing that refuses.
 */
function afterTheWait(subject: Subject, exchanges: readonly Exchange[], notes: Notes): void {
  let overAtMs = 0;
  let lastReceivedAtMs = 0;
  // Windows that are full and have refused nobody yet: no Retry-After told of them.
  const full = new Set<number>();
  for (const [i, exchange] of exchanges.entries()) {
    const before = exchanges[i - 1];
    const isOver = exchange.sentAtMs > Math.max(overAtMs, ...[...full].map((endsAtS) => endsAtS * 1000));
    const waited = isOver && exchange.sentAtMs >= lastReceivedAtMs;
    if (before?.status === 429 && waited && outcomeOf(exchange) !== 'lost') {
      notes.looked('waited');
      if (exchange.status === 429 && !someCounted(subject, exchanges, i)) {
        const seconds = ((exchange.sentAtMs - before.receivedAtMs) / 1000).toFixed(3);
        const told = `Retry-After ${before.fields.retryAfterS} was followed by ${seconds} s of waiting`;
        notes.fault('waited', subject.name, 'refused', `${told}, and then by another 429 (${exchange.refusal.code}).`);
      }
    }
    const { remaining, resetAtS, retryAfterS } = exchange.fields;
    if (exchange.status === 429) full.delete(resetAtS ?? 0);
    else if ((remaining ?? subject.cost) < subject.cost) full.add(resetAtS ?? 0);
    overAtMs = Math.max(overAtMs, toldToWaitUntilMs(exchange, retryAfterS));
    lastReceivedAtMs = Math.max(lastReceivedAtMs, exchange.receivedAtMs);
  }
}

/** Whether one of those that were sent before the answer to the `first` was there has been admitted. */
function someCounted(subject: Subject, exchanges: readonly Exchange[], first: number): boolean {
  for (let i = first; (exchanges[i]?.sentAtMs ?? Number.POSITIVE_INFINITY) <= exchanges[first]!.receivedAtMs; i++) {
    if (isCounted(subject, exchanges[i]!)) return true;
  }
  return false;
}

function toldToWaitUntilMs({ status, receivedAtMs, sentAtMs }: Exchange, retryAfterS: number | null): number {
  if (status === 429) return receivedAtMs + (retryAfterS ?? 0) * 1000;
  // Lost: it may have been the one that used a window up.
  return status === 0 ? sentAtMs + LOST_MS : 0;
}
