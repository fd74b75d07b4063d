import type { BanRule } from '../../../src/model/plan.ts';
import type { Exchange, Subject } from '../exchange.ts';
import { TOLERANCE_MS } from './fields.ts';
import type { Notes } from './notes.ts';
import { clock, outcomeOf } from './verdict.ts';

/** Half of the shortest ban that there can be. */
const PROMPT_MS = 500;

/** One ban as its answers told of it. It began between the two moments, and ends in the second before `untilS`. */
export interface SeenBan {
  readonly number: number;
  readonly untilS: number;
  readonly firstSentAtMs: number;
  readonly firstReceivedAtMs: number;
  readonly answers: readonly Exchange[];
}

/** The bans of one subject, in the order of their numbers. */
export function bansOf(exchanges: readonly Exchange[]): SeenBan[] {
  const banned = exchanges.filter((exchange) => outcomeOf(exchange) === 'banned' && exchange.refusal.ban !== null);
  return [...Map.groupBy(banned, ({ refusal }) => refusal.ban!.number)]
    .map(([number, answers]) => ({
      number,
      untilS: Math.max(...answers.map(({ refusal }) => refusal.ban!.untilS)),
      firstSentAtMs: Math.min(...answers.map(({ sentAtMs }) => sentAtMs)),
      firstReceivedAtMs: Math.min(...answers.map(({ receivedAtMs }) => receivedAtMs)),
      answers,
    }))
    .sort((a, b) => a.number - b.number);
}

/** How long the `number`-th ban lasts by the rule: `first × factor^(number-1)`, at most `longest` (contract section 3). */
export function ruledLengthMs({ firstMs, factor, longestMs }: BanRule, number: number): number {
  return Math.min(firstMs * factor ** (number - 1), longestMs);
}

/**
 * Bans (contract section 3): at exactly the `after`-th strike, each as long as its rung says, in force for all that
 * follows until it ends, and never for a client that waits.
 *
 * @param exchanges in the order in which they were sent
 */
export function judgeBans(subject: Subject, exchanges: readonly Exchange[], notes: Notes): void {
  const { name: who, bans: rule } = subject;
  const bans = bansOf(exchanges);
  if (subject.kind === 'address') return;
  if (rule === null || subject.waits) {
    notes.looked('bans');
    const why = rule === null ? 'its plan has no bans' : 'it waits for Retry-After';
    for (const { number, firstReceivedAtMs } of bans) {
      notes.fault(
        'bans',
        who,
        'undeserved',
        `it was banned (ban ${number}) at ${clock(firstReceivedAtMs)}, and ${why}.`,
      );
    }
    return;
  }
  ladder(subject, bans, notes);
  const complete = exchanges.every(({ status }) => status !== 0);
  // Slower than that, an answer may be from before a ban as well as from after it.
  const prompt = exchanges.every(({ sentAtMs, receivedAtMs }) => receivedAtMs - sentAtMs < PROMPT_MS);
  for (const ban of bans) {
    notes.looked('bans');
    if (complete) length(subject, rule, ban, notes);
    inForce(who, ban, exchanges, notes);
  }
  if (complete && prompt && subject.fresh) strikes(who, rule, bans, exchanges, notes);
}

function ladder({ name: who, fresh }: Subject, bans: readonly SeenBan[], notes: Notes): void {
  const first = fresh ? 1 : (bans[0]?.number ?? 1);
  const wrong = bans.findIndex(({ number }, i) => number !== first + i);
  if (wrong === -1) return;
  notes.fault('bans', who, 'ladder', `ban ${bans[wrong]!.number} came where ban ${first + wrong} was due.`);
}

function length({ name: who, limits }: Subject, rule: BanRule, ban: SeenBan, notes: Notes): void {
  const { number, untilS, firstSentAtMs, firstReceivedAtMs } = ban;
  const ruledMs = ruledLengthMs(rule, number);
  // A second that slides may outlast a ban of one second within the same second of the clock.
  const toldS = limits.some(({ slices }) => slices !== undefined) ? null : toldLengthS(ban);
  const ruledS = Math.ceil(ruledMs / 1000);
  if (toldS !== null && toldS !== ruledS) {
    notes.fault(
      'bans',
      who,
      'length told',
      `ban ${number} began with Retry-After ${toldS}; by the plan it is ${ruledS}.`,
    );
  }
  const shortestMs = (untilS - 1) * 1000 - firstReceivedAtMs;
  const longestMs = untilS * 1000 - firstSentAtMs;
  if (ruledMs >= shortestMs - TOLERANCE_MS && ruledMs <= longestMs + TOLERANCE_MS) return;
  const lasted = `${(shortestMs / 1000).toFixed(1)} to ${(longestMs / 1000).toFixed(1)} s`;
  notes.fault('bans', who, 'length', `ban ${number} lasted ${lasted}; by the plan it lasts ${ruledMs / 1000} s.`);
}

/** The longest wait of a ban is told at its beginning. Null where a window that ends later is told in its place. */
function toldLengthS({ answers, untilS }: SeenBan): number | null {
  const isOfTheBan = answers.every(({ fields: { resetAtS, retryAfterS, windows } }) => {
    const refusing = windows?.filter(({ remaining, resetInS }) => remaining === 0 && resetInS === retryAfterS);
    return resetAtS === untilS && refusing?.length === 1;
  });
  return isOfTheBan ? Math.max(...answers.map(({ fields }) => fields.retryAfterS ?? 0)) : null;
}

function inForce(who: string, ban: SeenBan, exchanges: readonly Exchange[], notes: Notes): void {
  const { number, untilS, firstReceivedAtMs, answers } = ban;
  const surelyUntilMs = (untilS - 1) * 1000 - TOLERANCE_MS;
  for (const exchange of exchanges) {
    if (exchange.sentAtMs <= firstReceivedAtMs || exchange.receivedAtMs >= surelyUntilMs) continue;
    if (!['admitted', 'refused'].includes(outcomeOf(exchange))) continue;
    const what = `${exchange.status} at ${clock(exchange.receivedAtMs)}, although ban ${number} lasts until ${clock(untilS * 1000)}.`;
    notes.fault('bans', who, 'ignored', what);
  }
  const late = answers.find(({ sentAtMs }) => sentAtMs > untilS * 1000 + TOLERANCE_MS);
  if (late === undefined) return;
  notes.fault(
    'bans',
    who,
    'lingers',
    `ban ${number} was over at ${clock(untilS * 1000)}, not for ${clock(late.sentAtMs)}.`,
  );
}

/**
 * Strikes start from 0 after a ban and when the window that refused ends. So between two bans no window refuses `after`
 * times, and the one in which a ban comes has refused exactly `after - 1` times before.
 */
function strikes(
  who: string,
  { after, withinMs }: BanRule,
  bans: readonly SeenBan[],
  exchanges: readonly Exchange[],
  notes: Notes,
): void {
  const refused = exchanges.filter((exchange) => outcomeOf(exchange) === 'refused');
  const bansBefore = ({ sentAtMs }: Exchange) => bans.filter((ban) => ban.firstReceivedAtMs < sentAtMs).length;
  for (const [i, ofRung] of Map.groupBy(refused, bansBefore)) {
    const windows = Map.groupBy(ofRung, ({ fields }) => `${fields.limit} ${fields.resetAtS}`);
    // Refusals of different windows count together in ways that only the gateway can follow.
    if (new Set(ofRung.map(({ fields }) => fields.limit)).size > 1) continue;
    const last = Math.max(...ofRung.map(({ fields }) => fields.resetAtS ?? 0));
    for (const group of windows.values()) {
      const spanMs = Math.max(...group.map((it) => it.receivedAtMs)) - Math.min(...group.map((it) => it.sentAtMs));
      if (spanMs >= withinMs) continue;
      notes.looked('bans');
      const ban = bans[i];
      const made = ban !== undefined && group[0]?.fields.resetAtS === last;
      if (made && group.length < after - 1) {
        notes.fault('bans', who, 'early', `ban ${ban.number} came at strike ${group.length + 1}, not ${after}.`);
      } else if (group.length > after - 1) {
        const until = made ? `before ban ${ban.number}` : 'and no ban came';
        notes.fault('bans', who, 'late', `one window refused ${group.length} times ${until}; strike ${after} bans.`);
      }
    }
  }
}
