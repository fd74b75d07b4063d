import { type Bound, type Exchange, LENT_FROM, type Subject } from '../exchange.ts';
import { TOLERANCE_MS } from './fields.ts';
import type { Notes } from './notes.ts';
import { clock, isCounted, outcomeOf } from './verdict.ts';

/**
 * What a sliding window promises (contract section 3): no span of its length admits more than its limit, and it refuses
 * only while the limit is used up. The gateway decided at some moment between sending and receiving, so a span has for
 * certain what was sent and answered within it, and at most what was under way in it.
 *
 * @param exchanges in the order in which they were sent
 */
export function judgeSliding(subject: Subject, exchanges: readonly Exchange[], notes: Notes): void {
  const counted = exchanges.filter((exchange) => isCounted(subject, exchange));
  for (const bound of subject.limits) {
    if (bound.slices === undefined || bound.limit < subject.cost) continue;
    neverMoreInAnySpan(subject, bound, counted, notes);
    if (subject.fresh) onlyWhatIsFull(subject, bound, exchanges, counted, notes);
  }
}

function neverMoreInAnySpan({ name, cost }: Subject, bound: Bound, counted: readonly Exchange[], notes: Notes): void {
  for (const [i, { sentAtMs }] of counted.entries()) {
    notes.looked('limit');
    const endsAtMs = sentAtMs + bound.lengthMs;
    let used = 0;
    for (let j = i; j < counted.length && counted[j]!.sentAtMs < endsAtMs; j++) {
      if (counted[j]!.receivedAtMs < endsAtMs) used += cost;
    }
    if (used <= bound.limit) continue;
    const sentence = `the ${bound.window} from ${clock(sentAtMs)} on admitted ${used} of ${bound.limit}.`;
    notes.fault('limit', name, bound.window, sentence);
  }
}

/** Holds what remains and each refusal against all that can still have counted, with the answers that are missing. */
function onlyWhatIsFull(
  { name, cost }: Subject,
  bound: Bound,
  exchanges: readonly Exchange[],
  counted: readonly Exchange[],
  notes: Notes,
): void {
  const lost = exchanges.filter((exchange) => outcomeOf(exchange) === 'lost').length;
  const countsForMs = bound.lengthMs * (1 + 1 / bound.slices!) + TOLERANCE_MS;
  for (const exchange of exchanges) {
    const { sentAtMs, receivedAtMs, fields } = exchange;
    const told = fields.windows?.find(({ window }) => window === bound.window);
    // Under a ban nothing remains in the window that made it, however little counts.
    const outcome = outcomeOf(exchange);
    if (told === undefined || outcome === 'banned' || (outcome === 'admitted' && bound.limit >= LENT_FROM)) continue;
    notes.looked('remaining');
    const may = counted.filter((it) => it.receivedAtMs > sentAtMs - countsForMs && it.sentAtMs <= receivedAtMs);
    const least = bound.limit - (may.length + lost) * cost;
    if (told.remaining >= least) continue;
    const at = clock(receivedAtMs);
    notes.fault(
      'whole',
      name,
      bound.window,
      `at ${at} the ${bound.window} had ${told.remaining} remaining, and ${least} is right.`,
    );
  }
}
