import type { Allowance } from '../../src/admit/allowance.ts';
import { ALL_UNSEEN, decide } from '../../src/admit/decision.ts';
import { type Verdict, verdictOf } from '../../src/admit/verdict.ts';
import { refusal } from '../../src/annotate/errors.ts';
import { RateLimitFields } from '../../src/annotate/rate-limit.ts';
import { type Exchange, NO_REFUSAL, refusalOf, type Subject, toldFields } from './exchange.ts';

/** When the client of a history sends, in milliseconds from its beginning. */
export type Sending =
  | { readonly atMs: readonly number[] }
  /** One after the other, as many as said; `patient` waits for Retry-After, else the next one follows at once. */
  | { readonly oneByOne: number; readonly patient: boolean };

export interface History {
  readonly sending: Sending;
  /** How the gateway decides, which is what the plan says unless a fault is planted. */
  readonly allowance: Allowance;
  readonly cost?: number;
}

/** A moment that is no round second, so that rounding shows. */
const BEGINNING_MS = Date.UTC(2030, 0, 1) + 370;
const TO_THE_GATEWAY_MS = 2;
const THERE_AND_BACK_MS = 4;

/** What a client and a gateway exchange where the gateway is right: the code that decides and tells is the real one. */
export function historyOf({ sending, allowance, cost = 1 }: History): Exchange[] {
  const fields = new RateLimitFields(true);
  const exchanges: Exchange[] = [];
  let accounts = ALL_UNSEEN;
  const exchange = (sentAtMs: number) => {
    const decision = decide(accounts, allowance, sentAtMs + TO_THE_GATEWAY_MS, cost, 1);
    accounts = decision.accounts;
    const made = answer(verdictOf(decision, allowance, 0), fields, sentAtMs);
    exchanges.push(made);
    return made;
  };
  if ('atMs' in sending) {
    for (const atMs of sending.atMs) exchange(BEGINNING_MS + atMs);
    return exchanges;
  }
  let atMs = BEGINNING_MS;
  for (let i = 0; i < sending.oneByOne; i++) {
    const { receivedAtMs, fields: told } = exchange(atMs);
    atMs = receivedAtMs + 2 + (sending.patient ? (told.retryAfterS ?? 0) * 1000 : 0);
  }
  return exchanges;
}

function answer(verdict: Verdict, fields: RateLimitFields, sentAtMs: number): Exchange {
  const error = verdict.kind === 'admitted' ? null : refusal(verdict);
  const pairs = [...fields.ofVerdict(verdict), ...(error?.fields ?? []), 'X-Request-Id', 'a'];
  const headers: Record<string, string> = {};
  for (let i = 0; i < pairs.length; i += 2) headers[pairs[i]!.toLowerCase()] = pairs[i + 1]!;
  return {
    client: 'test',
    sentAtMs,
    receivedAtMs: sentAtMs + THERE_AND_BACK_MS,
    latencyMs: THERE_AND_BACK_MS,
    status: error?.status ?? 200,
    fields: toldFields(headers),
    refusal: error === null ? NO_REFUSAL : refusalOf(error.body),
    fault: null,
  };
}

/** The subject of a history whose gateway should decide by `allowance`. */
export function subjectOf(allowance: Allowance, differences: Partial<Subject> = {}): Subject {
  return {
    name: 'somebody',
    plan: allowance.plan,
    kind: 'key',
    limits: allowance.limits,
    bans: allowance.bans,
    expected: [200, 429],
    cost: 1,
    waits: false,
    fresh: true,
    ...differences,
  };
}
