import { readFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { plainAllowance } from '../../../src/admit/allowance.ts';
import { decide } from '../../../src/admit/decision.ts';
import { verdictOf } from '../../../src/admit/verdict.ts';
import { type WindowLimit, windowLimit } from '../../../src/admit/windows.ts';
import { UNSEEN } from '../../../src/engine/decide.ts';
import type { Exchange } from '../../../src/gateway/exchange.ts';
import { unpackedPart } from '../../../src/operations/fleet/decided-parts.ts';
import { Fleet } from '../../../src/operations/fleet/fleet.ts';
import type { FleetStore } from '../../../src/operations/fleet/fleet-store.ts';
import { readAnswer, readReport } from '../../../src/operations/fleet/messages.ts';
import type { GatewayFacts } from '../../../src/operations/live/shapes.ts';
import { EmbeddedFleet } from '../../../src/stores/embedded/fleet.ts';
import { RecentRequests } from '../../../src/telemetry/recent-requests.ts';
import { eventually } from '../../support/conditions.ts';
import { countedWindowsOf } from '../../support/counted-windows.ts';
import { atEnd } from '../../support/endings.ts';

/*
 * Gateways of two versions stand beside each other on one Redis during an upgrade. The fixture has what a gateway of 29 November 2026
 * left there after the requests below: this version leaves the same, and reads it.
 */
const LINES = readFileSync(new URL('messages-before.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n');
const BEFORE: Messages = Object.assign({}, ...LINES.map((line) => JSON.parse(line)));

type Json = Record<string, unknown>;
/** What a gateway has left: its report, its answers to a tail, to the questions for a request id and for a caller, and its recent requests. */
interface Messages {
  readonly report: Json;
  readonly tail: Json;
  readonly explained: Json;
  readonly caller: Json;
  readonly record: Json;
  readonly part: Json;
}

const NOW_MS = Date.UTC(2026, 10, 29, 12);
const FACTS: GatewayFacts = {
  ...{ host: 'h', address: 'http://10.0.0.1:8080', version: '1', startedAt: '2026-01-01T00:00:00.000Z', workers: 2 },
  ...{ ready: true, draining: false, store: 'away', outage: { reason: 'timeout', lastsMs: 1_500 } },
  ...{ settings: 'refused', faults: ['plans.yaml:1:1: plans: must be an object'], memory: 'enough' },
  ...{ versions: { settings: 'a', plans: 'b' }, certificate: { expiresAt: '2027-01-01T00:00:00.000Z' } },
  ...{ connections: 3, inFlight: 1 },
  upstreams: [{ name: 'store', inFlight: 1, targets: [{ name: 'http://10.0.0.9:80', usable: false }] }],
};
const PAID = [{ unit: 'tokens', reserved: 500, settled: 320, why: 'too_large' }] as const;

/** An admitted request that paid tokens, a refusal by a limit of the customer, the strike that begins a ban, one of a policy, one without a key. */
function requests(): Exchange[] {
  const limits: WindowLimit[] = [
    windowLimit('minute', 2, { slices: 6 }),
    { ...windowLimit('month', 100), name: 'customer-month' },
  ];
  const allowance = {
    ...plainAllowance('free', limits),
    bans: { after: 1, withinMs: 60_000, firstMs: 60_000, factor: 2, longestMs: 86_400_000, forgetMs: 86_400_000 },
  };
  const decision = decide([UNSEEN], allowance, NOW_MS, 1, 3);
  const banned = verdictOf(decision, allowance, 2) as NonNullable<Exchange['refusal']>;
  const one = (members: Partial<Exchange>): Exchange =>
    ({
      ...{
        requestId: 'r',
        traceId: null,
        method: 'GET',
        path: '/v1/pets',
        route: '/v1/pets',
        clientAddress: '10.0.0.1',
      },
      ...{ consumerId: 'key_a', accountId: 'cus_b/key_a', plan: 'free', cost: 1, limits, judgement: 'admitted' },
      ...{ window: 'minute', imposedBan: null, source: 'store', decidedAtMs: NOW_MS, shadow: null, status: 200 },
      ...{ code: null, cause: null, upstream: 'store', target: null, totalMs: 1.25, storeMs: 0, upstreamMs: 0 },
      ...{ bytesIn: 0, bytesOut: 0, windows: countedWindowsOf(limits, [1, 4]) },
      ...members,
    }) as Exchange;
  const refused = { judgement: 'refused', status: 429, code: 'rate_limit_exceeded' } as const;
  return [
    one({ units: PAID }),
    one({ ...refused, source: 'memory', window: 'customer-month', windows: countedWindowsOf(limits, [1, 0]) }),
    one({
      ...{ ...refused, judgement: 'banned', code: 'api_key_banned', refusal: banned, windows: banned.windows },
      ...{ imposedBan: 1, units: PAID, retryAtMs: banned.retryAtMs },
    }),
    one({
      judgement: 'denied',
      status: 403,
      code: 'not_today',
      policy: 'opening-hours',
      decidedAtMs: null,
      source: null,
    }),
    one({
      ...{ judgement: 'unauthenticated', status: 401, code: 'invalid_api_key', consumerId: null, accountId: null },
      ...{ plan: null, path: null, route: null, limits: [], windows: [], window: null, decidedAtMs: null },
      ...{ source: null, cost: 0 },
    }),
  ];
}

/** A gateway on the store that has had the requests, in its tails too. */
function gatewayOn(store: FleetStore, id: string): Fleet {
  const recent = new RecentRequests(() => NOW_MS);
  let noted = false;
  const fleet = new Fleet({
    explanations: async () => ({ keep: async () => {}, of: async () => [] }),
    ...{ id, store: async () => store, wallMs: () => NOW_MS, monotonicMs: () => performance.now() },
    local: {
      ask: async (question) => {
        recent.answer({ ...question, queries: [] });
        if (id === 'b' && !noted && question.tails.length > 0) {
          noted = true;
          for (const one of requests()) recent.note(one);
        }
        return { facts: FACTS, seen: recent.answer(question) };
      },
      decidedColumns: async () => [recent.decidedColumns()],
    },
    onDefect: (error) => expect.fail(String(error)),
  });
  atEnd(() => fleet.close());
  return fleet;
}

/** Members of refusals that the version before lacks. */
const ADDED = { upstream: null, target: null, totalMs: null, endedBy: null };

/** What sentences say may change: the fixture has them empty. */
function withoutSentences(name: string, value: unknown): unknown {
  if (typeof value === 'object' && value !== null && 'sentence' in value) {
    return Object.fromEntries(Object.entries(value).filter(([member]) => !(member in ADDED)));
  }
  return name === 'sentence' || name === 'advice' ? '' : value;
}

test('a gateway leaves for others what one of the version before did', async () => {
  const embedded = new EmbeddedFleet({ wallMs: () => NOW_MS });
  const left: Partial<Record<string, unknown>> = {};
  const store: FleetStore = {
    exchange: async (message) => {
      if (message.id === 'b' && message.report !== null) left.report = JSON.parse(message.report);
      for (const { text } of message.answers) {
        const answer = JSON.parse(text, withoutSentences) as Json;
        left['tail' in answer ? 'tail' : 'record' in answer ? 'record' : 'calls' in answer ? 'caller' : 'explained'] =
          answer;
      }
      return embedded.exchange(message);
    },
    leavePart: async (name, bytes) => {
      left.part = JSON.parse(gunzipSync(bytes).toString());
      await embedded.leavePart(name, bytes);
    },
    takePart: (name) => embedded.takePart(name),
    leave: (id) => embedded.leave(id),
  };
  const [here] = [gatewayOn(store, 'a'), gatewayOn(store, 'b')];
  await eventually(async () => expect((await here.presence.gateways()).gateways).toHaveLength(2), { withinMs: 6_000 });
  const leave = here.tails.open({ plan: null, key: null, route: null, verdict: null, status: null }, () => {});
  await eventually(() => expect(left.tail).toBeDefined(), { withinMs: 6_000 });
  leave();
  await here.explanations.find({ requestId: 'r' });
  await here.explanations.find({ caller: 'key_a' });
  await here.records.collect();
  await eventually(
    async () => {
      await here.presence.near();
      expect((left.report as Messages['report']).near).not.toEqual([]);
    },
    { withinMs: 6_000 },
  );
  expect(left).toEqual(BEFORE);
});

test('what a gateway of the version before has left is read, member by member', async () => {
  const { refusals, calls } = BEFORE.caller as { refusals: Json[]; calls: Json };
  expect(readAnswer(JSON.stringify(BEFORE.caller))).toEqual({
    ...{ kind: 'explain', question: 'a 3', gateway: 'b', host: 'h', calls },
    refusals: refusals.map((one) => ({ ...one, ...ADDED })),
  });
  const explained = BEFORE.explained as { refusals: Json[] };
  expect(explained.refusals).toHaveLength(4);
  expect(readAnswer(JSON.stringify(explained))).toMatchObject({ refusals: explained.refusals, calls: null });
  expect(readAnswer(JSON.stringify(BEFORE.tail))).toMatchObject({ kind: 'tail', requests: BEFORE.tail.requests });
  const { near, refused, facts } = BEFORE.report as { near: unknown[][]; refused: unknown[]; facts: Json };
  const read = readReport({ id: 'b', atMs: NOW_MS, text: JSON.stringify(BEFORE.report) })!;
  expect(read.report).toEqual({ ...facts, id: 'b', self: false, seenAt: '2026-11-29T12:00:00.000Z' });
  expect(read.near.map(Object.values)).toEqual(near);
  expect(read.refused.most.map(Object.values)).toEqual(refused.slice(1));
  const part = await unpackedPart(gzipSync(JSON.stringify(BEFORE.part)));
  expect(JSON.parse(JSON.stringify({ ...part, atMs: [...part!.atMs], limits: [...part!.limits] }))).toMatchObject({
    ...{ atMs: BEFORE.part.atMs, limits: BEFORE.part.limits, limitSets: BEFORE.part.limitSets },
    ...{ consumerIds: BEFORE.part.consumerIds, units: BEFORE.part.units },
  });
});

test('what a gateway of a still earlier version lacks has its value without it', () => {
  const { calls: _, ...answer } = BEFORE.caller;
  const refusals = (answer.refusals as Json[]).map(({ policy: _, units: __, ...rest }) => rest);
  expect(readAnswer(JSON.stringify({ ...answer, refusals }))).toMatchObject({
    ...{ calls: null, refusals: refusals.map((one) => ({ ...one, policy: null })) },
  });
  const { refused: __, facts, ...report } = BEFORE.report;
  const { faults: ___, ...others } = facts as Json;
  expect(readReport({ id: 'b', atMs: NOW_MS, text: JSON.stringify({ ...report, facts: others }) })).toMatchObject({
    ...{ report: { faults: [] }, refused: { callers: 0, most: [] } },
  });
});

test('of what a gateway of a later version adds, a judgement is shown and members are left out', () => {
  const added = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(added);
    if (typeof value !== 'object' || value === null) return value;
    const members = Object.entries(value).map(([name, one]) => [name, BY_NAME.has(name) ? one : added(one)]);
    return { ...Object.fromEntries(members), later: 1 };
  };
  const { caller, tail, report } = BEFORE;
  expect(readAnswer(JSON.stringify(added(caller)))).toEqual(readAnswer(JSON.stringify(caller)));
  expect(readAnswer(JSON.stringify(added(tail)))).toEqual(readAnswer(JSON.stringify(tail)));
  const read = (text: unknown) => readReport({ id: 'b', atMs: NOW_MS, text: JSON.stringify(text) });
  expect(read(added(report))).toEqual(read(report));
  const refusals = (caller.refusals as Json[]).map((one) => ({ ...one, judgement: 'postponed' }));
  expect(readAnswer(JSON.stringify({ ...caller, refusals }))).toMatchObject({ refusals });
});

/** Their members are names of units and windows, and a later version has others in the same form. */
const BY_NAME = new Set(['units', 'planLimits']);
