import { type Exchange, LENT_FROM, type Subject } from '../exchange.ts';
import type { Notes } from './notes.ts';
import { clock, outcomeOf } from './verdict.ts';
import { type SeenWindow, windowsOf } from './windows.ts';

/**
 * The promise itself (contract section 3): a window never admits more than its limit, and admits all of it; what
 * remains falls by exactly the cost of each request that is admitted.
 */
export function judgeAdmission(subject: Subject, exchanges: readonly Exchange[], notes: Notes): void {
  const lost = exchanges.filter((exchange) => outcomeOf(exchange) === 'lost').length;
  for (const window of windowsOf(subject, exchanges)) {
    const name = `the ${window.bound.window} that ended by ${clock(window.endsAtS * 1000)}`;
    neverMore(subject, window, name, notes);
    // Where answers are missing, or went before us, nobody can say what the window had admitted.
    if (!subject.fresh || window.clouded) continue;
    allOfIt(subject, window, name, lost, notes);
    if (lost === 0) stepByStep(subject, window, name, notes);
  }
  for (const exchange of exchanges) refusedWithQuotaLeft(subject, exchange, notes);
}

function neverMore({ name: who, cost }: Subject, { bound, counted }: SeenWindow, name: string, notes: Notes): void {
  notes.looked('limit');
  const used = counted.length * cost;
  if (used <= bound.limit) return;
  notes.fault('limit', who, bound.window, `${name} admitted ${used} of ${bound.limit}.`);
}

/** A window that refuses must be full: less than the cost of one request was left in it. */
function allOfIt(
  { name: who, cost }: Subject,
  { bound, counted, refused }: SeenWindow,
  name: string,
  lost: number,
  notes: Notes,
): void {
  if (refused.length === 0) return;
  notes.looked('whole');
  const used = (counted.length + lost) * cost;
  if (used > bound.limit - cost) return;
  notes.fault(
    'whole',
    who,
    bound.window,
    `${name} refused ${refused.length} requests of cost ${cost} after ${counted.length} that it admitted, of a limit of ${bound.limit}.`,
  );
}

function stepByStep({ name: who, cost }: Subject, { bound, counted }: SeenWindow, name: string, notes: Notes): void {
  if (counted.length === 0) return;
  notes.looked('remaining', counted.length);
  const told = counted.map(({ remaining }) => remaining).sort((a, b) => b - a);
  const isLent = bound.limit >= LENT_FROM;
  const wrong = told.findIndex((remaining, i) => {
    const right = bound.limit - cost * (i + 1);
    return isLent ? remaining > right : remaining !== right;
  });
  if (wrong === -1) return;
  const again = told.indexOf(told[wrong]!) < wrong;
  const sentence = again
    ? `in ${name}, ${told[wrong]} remaining were told twice.`
    : `in ${name}, the answer to request ${wrong + 1} told ${told[wrong]} remaining; ${bound.limit - cost * (wrong + 1)} is right.`;
  notes.fault('remaining', who, again ? 'repeated' : 'wrong', sentence);
}

function refusedWithQuotaLeft({ name: who, cost }: Subject, exchange: Exchange, notes: Notes): void {
  const { windows } = exchange.fields;
  if (outcomeOf(exchange) !== 'refused' || windows === null) return;
  notes.looked('whole');
  if (windows.some(({ remaining }) => remaining < cost)) return;
  const left = windows.map(({ window, remaining }) => `${remaining} in the ${window}`).join(', ');
  notes.fault('whole', who, 'left', `at ${clock(exchange.receivedAtMs)} it was refused with ${left} remaining.`);
}
