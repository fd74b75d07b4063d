import type { UsageReport } from '../../admit/usage-report.ts';
import { ERRORS, isErrorCode } from '../../errors/catalogue.ts';
import type { KeptRefusal } from '../../model/refusal.ts';
import { budgetOf, windowOf } from '../../model/values.ts';

/** The facts from which the texts about a refusal are written. */
export interface RefusalFacts extends Omit<KeptRefusal, 'sentence' | 'advice'> {
  /** The fault, for operators only; null if there was none. */
  readonly cause: string | null;
  /** A limit is below the cost of the request, so waiting cannot help. */
  readonly costExceedsLimit: boolean;
  /** A ban is of all keys of the customer. */
  readonly bansOfCustomer: boolean;
}

/**
 * What to do about a refusal, as of now.
 * @param usage what its caller has used by now; null if that is not known
 */
export function adviceSince(refusal: Omit<KeptRefusal, 'sentence'>, usage: UsageReport | null): string {
  const { code, retryAt, advice } = refusal;
  const isOfBan = code === 'api_key_banned';
  if (usage === null || retryAt === null || !(isOfBan || code === 'rate_limit_exceeded')) return advice;
  if (stillRefuses(usage, refusal)) return advice;
  return isOfBan ? BAN_IS_OVER : WAIT_IS_OVER;
}

/** Whether the limit or the ban that refused a request refuses it still. A ban that began later is another one. */
function stillRefuses({ ban, windows }: UsageReport, refusal: Omit<KeptRefusal, 'sentence'>): boolean {
  const { code, cost, limits, window } = refusal;
  if (code === 'api_key_banned') {
    // Usage has the end in seconds, rounded up.
    return ban !== null && refusal.ban !== null && Math.abs(ban.until - Date.parse(refusal.ban.until) / 1_000) <= 1;
  }
  const { needed = cost } = limits.find((of) => of.window === window) ?? {};
  const { remaining = 'unlimited' } = windows[window ?? ''] ?? {};
  return remaining !== 'unlimited' && remaining < needed;
}

type Texts = Pick<KeptRefusal, 'sentence' | 'advice'>;

/**
 * Why a request was refused and what to do about it, in plain English for support staff. The texts name no moment: the
 * members `retryAt` and `ban.until` have them, and a page shows those in the zone of its reader.
 * @param nowMs Unix milliseconds: what has passed is no longer waited for
 */
export function textsOf(refusal: RefusalFacts, nowMs: number): Texts {
  const isPast = refusal.retryAt !== null && Date.parse(refusal.retryAt) <= nowMs;
  if (refusal.code === '') return ofFailure(refusal);
  const code = isErrorCode(refusal.code) ? refusal.code : null;
  if (code === 'rate_limit_exceeded') return ofLimit(refusal, isPast);
  if (code === 'api_key_banned') return ofBan(refusal, isPast);
  if (refusal.judgement === 'denied' && refusal.policy !== null) return ofPolicy(refusal, refusal.policy);
  const { explanation: sentence, advice } = code === null ? UNKNOWN : ERRORS[code];
  const cause = refusal.cause === null ? '' : ` The gateway noted: ${refusal.cause.slice(0, MAX_CAUSE)}`;
  return { sentence: cause === '' ? sentence : `${sentence}${cause.replace(/\.?$/, '.')}`, advice };
}

const MAX_CAUSE = 200;

/** Of a request that the gateway has forwarded and not refused. */
function ofFailure({ status, upstream, target, totalMs, endedBy }: RefusalFacts): Texts {
  const at = `${upstream === null ? '' : ` of the upstream ${upstream}`}${target === null ? '' : ` at ${target}`}`;
  const after = totalMs === null ? '' : ` after ${totalMs} ms`;
  if (endedBy === 'client') {
    return {
      sentence: `The client left${after}, before the service${at} had answered.`,
      advice:
        'Compare how long the client waits with how long the service takes, and look at the log of the service at this time.',
    };
  }
  return {
    sentence: `The service${at} answered ${status}${after}, and the gateway passed its answer on.`,
    advice:
      'Look at the log of the service at this time, with this request id. No limit of the caller has to do with it.',
  };
}

function ofLimit(refusal: RefusalFacts, isPast: boolean): Texts {
  const { window, limits, cost, costExceedsLimit, strike, plan } = refusal;
  const standing = limits.find((limit) => limit.window === window);
  if (costExceedsLimit) {
    const { owner, counted, quota, ofGroup } = partsOf(standing ?? { window: window! }, refusal);
    const takes =
      standing?.unit === undefined ? `costs ${cost}` : `takes ${standing.needed} ${standing.unit} in advance`;
    const whom =
      ofGroup === '' ? `for this ${owner === 'The customer' ? 'customer' : 'caller'}` : `in the plan ${plan}`;
    const it = owner === 'The customer' ? 'the customer' : 'it';
    const orLess =
      standing?.unit === undefined ? '' : ` Or the client asks for less, or the route takes less in advance.`;
    return {
      sentence: `The request ${takes} and ${owner.toLowerCase()} may use ${standing?.limit ?? 0} a ${quota}${ofGroup}, so it is refused however long the client waits.`,
      advice: `Raise the limit of the ${counted}${quota}${ofGroup} ${whom}, or move ${it} from the plan ${plan} to a larger one.${orLess}`,
    };
  }
  const costs = costText(refusal, standing);
  const strikes = strike === null ? '' : ` It was strike ${strike.number} of ${strike.of}.`;
  if (standing === undefined) {
    const sentence = `${callerOf(refusal)} had used up a limit when this request came.${costs}${strikes}`;
    return { sentence, advice: isPast ? WAIT_IS_OVER : waitOr(refusal, `top up the ${window}`) };
  }
  const { owner, quota, ofGroup, named } = partsOf(standing, refusal);
  const used = `${owner} had used ${standing.used} of ${standing.limit} ${standing.unit ?? 'requests'} a ${quota}${ofGroup}`;
  return {
    sentence: `${used}${notesOn(standing, refusal)} when this request came.${costs}${strikes}`,
    advice: isPast ? WAIT_IS_OVER : waitOr(refusal, `top up ${named}`),
  };
}

function ofBan(refusal: RefusalFacts, isPast: boolean): Texts {
  const { ban, strike, window, limits, bansOfCustomer } = refusal;
  const caller = callerOf(refusal);
  const which = ban === null ? 'a ban' : `ban ${ban.number}`;
  const standing = limits.find((limit) => limit.window === window);
  const { owner, counted, quota, ofGroup, named } = partsOf(standing ?? { window: window! }, refusal);
  // The limit refuses for longer than the ban.
  const lasts = ban !== null && refusal.retryAt !== null && Date.parse(refusal.retryAt) > Date.parse(ban.until) + 1_000;
  const whose = owner === 'The customer' ? "its customer's limit" : 'its limit';
  const limit = `${whose} of the ${counted}${quota}${ofGroup} was used up`;
  const ofAll = bansOfCustomer ? ', which is of all keys of the customer' : '';
  const before = bansOfCustomer ? 'A key of the customer' : 'It';
  const sentence = refusal.imposedBan
    ? `${caller} kept sending requests after ${limit}. This request was strike ${strike?.of ?? ''}`.trimEnd() +
      ` and began ${which}${ofAll}.`
    : `${caller} was under ${which}${ofAll}. ${before} had kept sending requests after ${limit}.`;
  return {
    sentence,
    advice: isPast
      ? BAN_IS_OVER
      : `${waitOr(refusal, lasts ? `lift the ban and top up ${named}` : 'lift the ban')} ${ASK_TO_WAIT}`,
  };
}

/** What the request took of the limit that refused it; empty if that is one request. */
function costText({ cost }: RefusalFacts, standing: LimitFacts | undefined): string {
  if (standing?.unit === undefined) return cost === 1 ? '' : ` It costs ${cost}.`;
  return standing.needed === 1 ? '' : ` The request takes ${standing.needed} in advance.`;
}

function ofPolicy({ code, status }: RefusalFacts, policy: string): Texts {
  return {
    sentence: `The policy ${policy} of this route refused the request with the code ${code} and the status ${status}.`,
    advice: `Read in the policy when it answers ${code}. It decides by the head of the request and by the record of the key.`,
  };
}

type LimitFacts = KeptRefusal['limits'][number];

/** What a limit is in words, by its name: whose it is, its window, and the group of routes that it is for. */
function partsOf({ window: name, unit }: Pick<LimitFacts, 'window' | 'unit'>, refusal: RefusalFacts) {
  const [budget, quota] = [budgetOf(name), windowOf(name)];
  const isOfCustomer = budget === 'customer' || budget?.startsWith('customer-') === true;
  const own = isOfCustomer ? budget.slice('customer-'.length) : (budget ?? '');
  const group = unit === undefined ? own : own.slice(0, -unit.length).replace(/-$/, '');
  const ofGroup = group === '' ? '' : ` for ${group}`;
  const counted = unit === undefined ? '' : `${unit} of the `;
  return {
    owner: isOfCustomer ? 'The customer' : callerOf(refusal),
    quota,
    ofGroup,
    counted,
    named: `${isOfCustomer ? "the customer's" : 'the'} ${counted}${quota}${ofGroup}`,
    isOfCustomer,
  };
}

function callerOf({ consumerId }: RefusalFacts): string {
  if (consumerId === null) return 'The address';
  return consumerId.startsWith('key_') ? 'The key' : 'The token caller';
}

/** What is particular about a limit, in brackets: who shares it, that it is not the plan's, and the kind of a window that is not fixed. */
function notesOn({ window, unit, form }: LimitFacts, refusal: RefusalFacts): string {
  const { planLimits, plan } = refusal;
  const ofPlan = budgetOf(window) === null ? planLimits[windowOf(window)] : undefined;
  const notes = [
    ...(partsOf({ window, unit }, refusal).isOfCustomer ? ['shared by its keys'] : []),
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
const ASK_TO_WAIT = 'Ask the caller to wait as Retry-After says; each further ban lasts longer.';

const WAIT_IS_OVER = `The wait is over. ${SINCE}`;
const BAN_IS_OVER = `The ban is over. ${SINCE} ${ASK_TO_WAIT}`;

/** For a code that the catalogue does not have. */
const UNKNOWN = {
  explanation: 'The gateway refused this request.',
  advice: 'Look at the code in the reference of errors.',
} as const;
