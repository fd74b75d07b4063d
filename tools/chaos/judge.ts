import type { Tally } from './answers.ts';
import { IN_FLIGHT } from './callers.ts';
import type { Allowed } from './fault.ts';
import type { Quota, Row } from './row.ts';

/** A key whose demand was beyond its limit, or far below. */
export interface Seen {
  readonly key: string;
  readonly limit: number;
  readonly admitted: number;
  /** Requests of it that got no answer: they may have been counted. */
  readonly unanswered: number;
  /** It asked for more than it could get. */
  readonly exhausted: boolean;
  /** What the store has counted; null where it holds nothing. */
  readonly counted: number | null;
  /** It was used only before the fault or after it, or every gateway knew that nothing was left. */
  readonly settled: boolean;
}

export interface Facts {
  readonly allowed: Allowed;
  /** The machine kept everybody waiting so long that gateways had to take their store for lost. */
  readonly disturbed: boolean;
  readonly deciders: number;
  readonly tally: Tally;
  readonly seen: readonly Seen[];
  readonly longestWaitMs: number;
  readonly waitAllowedMs: number;
  readonly normalAfterMs: number | null;
  readonly revokedPassed: number;
  readonly leftovers: readonly string[];
  /** What gateways hold beyond what they held before, when nobody calls them any more: each a sentence. */
  readonly held: readonly string[];
  readonly deaths: readonly string[];
}

/** Nobody knows how many there were; so many are believed. */
const OUTAGES_OF_A_BUSY_MACHINE = 4;
/** A lease lasts for the next ten requests of a lane, or for 250 ms, and takes at most a sixteenth of the limit. */
const MOST_LENT = 16;
const SHARE_LENT = 16;

export interface Judgement {
  readonly quotas: readonly Quota[];
  readonly bans: Row['bans'];
  readonly broken: readonly string[];
}

/**
 * Holds what was seen against the written bounds (contract sections 3 and 6). On a machine that is too busy for
 * `redis.timeout` those of an outage hold, whatever the fault was.
 */
export function judge(given: Facts): Judgement {
  const facts = given.disturbed ? { ...given, allowed: { ...given.allowed, alone: true } } : given;
  const quotas = facts.seen.map((seen) => quotaOf(seen, facts));
  const bans = bansIn(facts);
  return {
    quotas,
    bans,
    broken: [
      ...answersBroken(facts),
      ...quotas.flatMap((quota) => quotaBroken(quota, facts)),
      ...(bans === 'lost' && facts.allowed.forgets !== true ? ['A banned key was let through.'] : []),
      ...clocksBroken(facts),
      ...waitsBroken(facts),
      ...(facts.revokedPassed > 0
        ? [`A revoked key still passed at ${facts.revokedPassed} gateways a second after all was normal.`]
        : []),
      ...(facts.leftovers.length > 0 ? [`Entries without an expiry in Redis: ${facts.leftovers.join(', ')}.`] : []),
      ...facts.held,
      ...facts.deaths,
    ],
  };
}

/**
 * Normal running is exact. Cut off, each process that decides enforces the limit alone: at most as many times the limit
 * as there are of them. A store that forgets gives the limit once more. What got no answer may have been counted, and what
 * a process has borrowed stays counted if it is killed or cannot return it.
 */
function quotaOf({ key, limit, admitted, unanswered, exhausted, counted, settled }: Seen, facts: Facts): Quota {
  const { allowed, deciders } = facts;
  const alone = allowed.alone === true && !settled ? deciders : 1;
  const lag = settled ? 0 : (allowed.lag ?? 0);
  const most = limit * (alone + (allowed.forgets === true ? 1 : 0)) + lag;
  const least = exhausted ? Math.max(limit - unanswered - (settled ? 0 : stranded(limit, facts)), 0) : admitted;
  const countedMore = counted === null || allowed.forgets === true ? null : counted - admitted;
  return { key, limit, admitted, least, most, countedMore };
}

/** Units of a key that may stay counted although no request has used them. */
function stranded(limit: number, facts: Facts): number {
  const { allowed, deciders } = facts;
  const processes = allowed.alone === true ? outagesIn(facts) * deciders : (allowed.killed ?? 0);
  return processes * Math.min(MOST_LENT, Math.floor(limit / SHARE_LENT));
}

function outagesIn({ allowed, disturbed }: Facts): number {
  if (allowed.alone !== true) return 0;
  return disturbed ? OUTAGES_OF_A_BUSY_MACHINE : 1;
}

function quotaBroken({ key, limit, admitted, least, most, countedMore }: Quota, facts: Facts): string[] {
  const { allowed, deciders, seen } = facts;
  const broken: string[] = [];
  if (admitted > most) broken.push(`${key}: ${admitted} were admitted of a limit of ${limit}; at most ${most} may be.`);
  if (admitted < least) broken.push(`${key}: only ${admitted} were admitted of a limit of ${limit}.`);
  // One call for each gateway and outage may be off; a call carries at most what a client had under way.
  const fewer = outagesIn(facts) * deciders * IN_FLIGHT + (allowed.lag ?? 0);
  const { unanswered = 0, settled = false } = seen.find((it) => it.key === key) ?? {};
  const more = fewer + unanswered + (settled ? 0 : stranded(limit, facts));
  if (countedMore !== null && countedMore < -fewer)
    broken.push(`${key}: Redis has counted ${-countedMore} fewer than were admitted; ${fewer} are allowed.`);
  if (countedMore !== null && countedMore > more)
    broken.push(`${key}: Redis has counted ${countedMore} more than were admitted; ${more} are allowed.`);
  return broken;
}

/** Which answers each kind of client may get. */
function answersBroken({ allowed, disturbed, tally }: Facts): string[] {
  const unknownAlone = allowed.alone === true ? ['503 store_unavailable'] : [];
  const anywhere = [
    ...(allowed.lost === true ? ['no answer'] : []),
    ...(allowed.forgets === true ? ['401 invalid_api_key', '200', '429 quota', '429 ban'] : []),
  ];
  const expected: Readonly<Record<string, readonly string[]>> = {
    steady: ['200'],
    fast: ['200', '429 quota'],
    slow: ['200', '429 quota'],
    spent: ['200', '429 quota'],
    banned: ['200', '429 quota', '429 ban'],
    fresh: ['200', ...unknownAlone],
    // Once it is known as revoked it is an unknown key.
    revoked: ['200', '401 invalid_api_key', ...unknownAlone],
    late: ['200', '429 quota', ...(disturbed ? unknownAlone : [])],
  };
  const broken: string[] = [];
  for (const [lane, labels] of Object.entries(expected)) {
    for (const [label, count] of tally.lane(lane)) {
      if (labels.includes(label) || anywhere.includes(label)) continue;
      broken.push(`The client '${lane}' got ${count} times '${label}'.`);
    }
  }
  return broken;
}

/** The client of the lane `banned` was banned everywhere before anything was counted. */
function bansIn({ tally }: Facts): Row['bans'] {
  const lane = tally.lane('banned');
  if (lane.size === 0) return 'not tried';
  const others = [...lane.keys()].filter((label) => label === '200' || label === '429 quota');
  return others.length === 0 ? 'kept' : 'lost';
}

/** Time is the store's: the ends of a window that opened once are the same, whoever tells them. */
function clocksBroken({ allowed, tally }: Facts): string[] {
  const spreadS = tally.resetSpreadS('steady');
  // A gateway that is cut off reckons on from the last answer, and rounds.
  if (allowed.forgets === true || spreadS <= 1) return [];
  return [`The client 'steady' was told ends of its window that differ by ${spreadS} s.`];
}

function waitsBroken({ longestWaitMs, waitAllowedMs, normalAfterMs, allowed, tally }: Facts): string[] {
  const { longest } = tally;
  const broken: string[] = [];
  if (longestWaitMs > waitAllowedMs && longest !== null) {
    const who = `a request of '${longest.lane}' to gateway ${longest.gateway + 1}`;
    broken.push(`${who} waited ${longestWaitMs.toFixed(0)} ms; ${waitAllowedMs.toFixed(0)} ms are allowed here.`);
  }
  if (normalAfterMs === null || normalAfterMs > allowed.normalWithinMs) {
    const after = normalAfterMs === null ? 'Not normal again' : `Normal only ${normalAfterMs.toFixed(0)} ms`;
    broken.push(`${after} after the fault; ${allowed.normalWithinMs} ms are allowed.`);
  }
  return broken;
}
