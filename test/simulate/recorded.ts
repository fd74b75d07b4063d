import type { Allowance } from '../../src/admit/allowance.ts';
import { decide } from '../../src/admit/decision.ts';
import { verdictOf } from '../../src/admit/verdict.ts';
import { UNSEEN } from '../../src/engine/decide.ts';
import type { Exchange } from '../../src/gateway/exchange.ts';
import type { BanRule, Plan, Plans, WindowForms } from '../../src/model/plan.ts';
import { type GroupsOf, Recording } from '../../src/simulate/recording.ts';
import { AccessLines, type LoggedExchange } from '../../src/telemetry/log.ts';
import { BANS } from '../support/allowance.ts';

export const EXCHANGE: Exchange = {
  requestId: '0f2a',
  traceId: null,
  method: 'GET',
  path: '/v1/pets',
  route: '/v1/pets',
  clientAddress: '203.0.113.9',
  consumerId: 'key_1',
  plan: 'free',
  cost: 1,
  limits: [],
  windows: [],
  judgement: 'admitted',
  window: null,
  imposedBan: null,
  source: 'store',
  decidedAtMs: 1_790_000_000_000,
  shadow: null,
  status: 200,
  code: null,
  cause: null,
  upstream: 'store',
  target: 'http://127.0.0.1:9000',
  totalMs: 2.5,
  storeMs: 0.25,
  upstreamMs: 2,
  bytesIn: 0,
  bytesOut: 12,
};

/** The line as the gateway would write it; `more` and `message` as in src/telemetry/log.ts. */
export function lineOf(exchange: Partial<LoggedExchange>, more = '', message = 'request'): string {
  return new AccessLines().lineOf({ ...EXCHANGE, ...exchange }, 1_790_000_000_500, more, message);
}

/** `n` requests of `cost` at one moment. */
export interface Call {
  readonly atMs: number;
  readonly cost?: number;
  readonly n?: number;
}

/** What a gateway with an empty store writes about the calls of one key. */
export function linesOf(consumerId: string, allowance: Allowance, calls: readonly Call[]): string[] {
  let state = UNSEEN;
  return calls.flatMap(({ atMs, cost = 1, n = 1 }) => {
    const decision = decide([state], allowance, atMs, cost, n);
    state = decision.accounts[0];
    return Array.from({ length: n }, (_, index) => {
      const verdict = verdictOf(decision, allowance, index);
      return lineOf({
        consumerId,
        plan: allowance.plan,
        judgement: verdict.kind === 'crowded' ? 'shed' : verdict.kind,
        status: verdict.kind === 'admitted' ? 200 : 429,
        cost,
        limits: allowance.limits,
        windows: verdict.windows,
        imposedBan: verdict.kind === 'banned' && verdict.imposed ? verdict.number : null,
        decidedAtMs: atMs,
      });
    });
  });
}

/** Plans by name; the ban rule of the contract by default. */
export function plansOf(
  plans: Readonly<Record<string, Plan['limits']>>,
  {
    bans = BANS,
    ...more
  }: { readonly bans?: BanRule | null; readonly enforce?: boolean; readonly forms?: WindowForms } = {},
): Plans {
  const entries = Object.entries(plans).map(
    ([name, limits]) => [name, { name, limits, bans, enforce: true, shadow: {}, ...more }] as const,
  );
  return { plans: new Map(entries), removed: [], failedAuthenticationPerMinute: 30 };
}

export function recordingOf(lines: readonly string[], groupsOf: GroupsOf | null = null): Recording {
  const recording = new Recording(groupsOf);
  recording.read(lines.join(''));
  return recording;
}
