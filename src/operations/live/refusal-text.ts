import { budgetOf, windowOf } from '../../admit/windows.ts';
import { ERRORS, isErrorCode } from '../../errors/catalogue.ts';
import type { KeptRefusal } from './shapes.ts';

/** The facts from which the texts about a refusal are written. */
export interface RefusalFacts extends Omit<KeptRefusal, 'sentence' | 'advice'> {
  /** The fault, for operators only; null if there was none. */
  readonly cause: string | null;
  /** A limit is below the cost of the request, so waiting cannot help. */
  readonly costExceedsLimit: boolean;
}

type Texts = Pick<KeptRefusal, 'sentence' | 'advice'>;

/**
 * Why a request was refused and what to do about it, in plain English for support staff. The texts name no moment: the
 * members `retryAt` and `ban.until` have them, and a page shows those in the zone of its reader.
 * @param nowMs Unix milliseconds: what has passed is no longer waited for
 */
export function textsOf(refusal: RefusalFacts, nowMs: number): Texts {
  const isPast = refusal.retryAt !== null && Date.parse(refusal.retryAt) <= nowMs;
  const code = isErrorCode(refusal.code) ? refusal.code : null;
  if (code === 'rate_limit_exceeded') return ofLimit(refusal, isPast);
  if (code === 'api_key_banned') return ofBan(refusal, isPast);
  if (refusal.judgement === 'denied' && refusal.policy !== null) return ofPolicy(refusal, refusal.policy);
  const { explanation: sentence, advice } = code === null ? UNKNOWN : ERRORS[code];
  const cause = refusal.cause === null ? '' : ` The gateway noted: ${refusal.cause.slice(0, MAX_CAUSE)}`;
  return { sentence: cause === '' ? sentence : `${sentence}${cause.replace(/\.?$/, '.')}`, advice };
}

const MAX_CAUSE = 200;

function ofLimit(refusal: RefusalFacts, isPast: boolean): Texts {
  const { window, limits, cost, costExceedsLimit, strike, plan } = refusal;
  const caller = callerOf(refusal);
  const standing = limits.find((limit) => limit.window === window);
  if (costExceedsLimit) {
    const tooLow = limits.find(({ limit }) => limit < cost) ?? standing;
    return {
      sentence: `The request costs ${cost} and ${caller.toLowerCase()} may use ${tooLow?.limit ?? 0} a ${tooLow?.window ?? window}, so it is refused however long the client waits.`,
      advice: `Raise the limit of the ${tooLow?.window ?? window} for this caller, or move it from the plan ${plan} to a larger one.`,
    };
  }
  const costs = cost === 1 ? '' : ` It costs ${cost}.`;
  const count =
    standing === undefined
      ? `${caller} had used up a limit when this request came.`
      : `${caller} had used ${standing.used} of ${standing.limit} requests a ${window}${notesOn(standing, refusal)} when this request came.`;
  const strikes = strike === null ? '' : ` It was strike ${strike.number} of ${strike.of}.`;
  return {
    sentence: `${count}${costs}${strikes}`,
    advice: isPast ? `The wait is over. ${SINCE}` : waitOr(refusal, `top up the ${window}`),
  };
}

function ofBan(refusal: RefusalFacts, isPast: boolean): Texts {
  const { ban, strike, window } = refusal;
  const caller = callerOf(refusal);
  const which = ban === null ? 'a ban' : `ban ${ban.number}`;
  const sentence = refusal.imposedBan
    ? `${caller} kept sending requests after its limit of the ${window} was used up. This request was strike ${strike?.of ?? ''}`.trimEnd() +
      ` and began ${which}.`
    : `${caller} was under ${which}. It had kept sending requests after its limit of the ${window} was used up.`;
  return {
    sentence,
    advice: `${isPast ? `The ban is over. ${SINCE}` : waitOr(refusal, 'lift the ban')} Ask the caller to wait as Retry-After says; each further ban lasts longer.`,
  };
}

function ofPolicy({ code, status }: RefusalFacts, policy: string): Texts {
  return {
    sentence: `The policy ${policy} of this route refused the request with the code ${code} and the status ${status}.`,
    advice: `Read in the policy when it answers ${code}. It decides by the head of the request and by the record of the key.`,
  };
}

function callerOf({ consumerId }: RefusalFacts): string {
  if (consumerId === null) return 'The address';
  return consumerId.startsWith('key_') ? 'The key' : 'The token caller';
}

/** What is particular about a limit, in brackets: that it is not the plan's, and the kind of a window that is not fixed. */
function notesOn({ window, form }: KeptRefusal['limits'][number], { planLimits, plan }: RefusalFacts): string {
  const ofPlan = budgetOf(window) === null ? planLimits[windowOf(window)] : undefined;
  const notes = [
    ...(ofPlan === undefined ? [] : [`its own limit; the plan ${plan} gives ${ofPlan}`]),
    ...(form === 'fixed' ? [] : [form]),
  ];
  return notes.length === 0 ? '' : ` (${notes.join('; ')})`;
}

function waitOr({ retryAt }: RefusalFacts, otherwise: string): string {
  return retryAt === null
    ? `${otherwise[0]!.toUpperCase()}${otherwise.slice(1)}.`
    : `Wait until the time shown below, or ${otherwise}.`;
}

const SINCE = 'If the caller is refused again, see below which limit has been used up since.';

/** For a code that the catalogue does not have. */
const UNKNOWN = {
  explanation: 'The gateway refused this request.',
  advice: 'Look at the code in the reference of errors.',
} as const;
