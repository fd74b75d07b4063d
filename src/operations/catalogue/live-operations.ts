import { z } from 'zod';
import { Failure, Refused } from '../../failure.ts';
import { isTokenHolder } from '../../identify/api-key.ts';
import { judgement, lastCalls, refusal } from '../../model/refusal.ts';
import { windowName } from '../../model/values.ts';
import { usageOf } from '../account-usage.ts';
import { explanationsIn, type FoundRefusal } from '../fleet/explanations.ts';
import { NEAR_SHARE, nearLimit, nearLimits } from '../live/near-limits.ts';
import { adviceSince } from '../live/refusal-text.ts';
import { complete, gateways } from '../live/shapes.ts';
import { trafficOutput } from '../live/traffic.ts';
import { atPresent, KEYS, type OperatorStore, recordOf } from '../operator-store.ts';
import { unreadable, unreadableReport } from '../unreadable.ts';
import type { LiveContext } from './contexts.ts';
import { defineOperation, defineStream } from './operation.ts';

// Gateways, traffic and single requests, at this moment. These answer while the store is away.

const NO_PARAMETERS = z.strictObject({});

export const listGateways = defineOperation({
  name: 'listGateways',
  line: 'GET /gateways',
  role: 'viewer',
  sentence: 'Lists the gateways on the store, the one that was asked first.',
  description:
    'A gateway is listed until 10 s after its last report. While the store is away, only the gateway that was asked is listed, ' +
    '`complete` is false, and `lastKnown` says how many there were before.',
  on: 'live',
  input: NO_PARAMETERS,
  output: gateways,
  run: async ({ fleet }) => ({ output: await fleet.presence.gateways() }),
});

export const showTraffic = defineOperation({
  name: 'showTraffic',
  line: 'GET /traffic',
  role: 'viewer',
  sentence: 'Counts the requests of the last 10 minutes by verdict, in buckets of 5 s, summed over all gateways.',
  description:
    'Oldest first; the last bucket is the present one. Counts of other gateways are up to 4 s late, and 1 s while the screen is watched. ' +
    'They end with the gateway that has them: its requests are in no sum once it has ended.',
  on: 'live',
  input: NO_PARAMETERS,
  output: trafficOutput,
  run: async ({ fleet }) => ({ output: await fleet.presence.traffic() }),
});

const MAX_NEAR = 200;
const usedRule = 'must be a whole number of percent from 50 to 100';

export const listNear = defineOperation({
  name: 'listNear',
  line: 'GET /near',
  role: 'viewer',
  sentence: 'Lists the keys that are near a limit, those with the smallest share left first.',
  description:
    'A key, or a caller with tokens, is near a limit if its last requests have left at most a tenth of a window (or another share, by ' +
    '`used`), or less than one more of them costs. Each is checked against the store; those that are refused are not listed. At most 200.',
  on: 'live',
  readsMuch: true,
  input: z.strictObject({
    used: z
      .string(usedRule)
      .regex(/^(?:[5-9]\d|100)$/, usedRule)
      .optional()
      .describe('How much of a window is used from which on, in percent.')
      .meta({ default: String(NEAR_SHARE), examples: ['80'] }),
    window: windowName
      .optional()
      .describe('Only limits of this window, also those of a customer, a group of routes or a unit. Any unless given.'),
  }),
  output: z.strictObject({
    keys: z.array(nearLimit).max(MAX_NEAR),
    unreadable: unreadable.describe(
      'The keys and customers whose records cannot be read, so that it is not known whether they are near a limit.',
    ),
  }),
  fails: { store_unavailable: true },
  async run({ fleet, store }, { used = NEAR_SHARE, window = null }) {
    const wanted = { share: Number(used), window, most: MAX_NEAR };
    const { keys, unreadable } = await nearLimits(atPresent(await store()), await fleet.presence.near(), wanted);
    return { output: { keys, unreadable: unreadableReport(unreadable) } };
  },
});

const { requestId, at, method, path, route, consumerId, ...decision } = refusal.shape;
const shownRefusal = z
  .strictObject({
    ...{ requestId, at },
    gateway: z
      .string()
      .describe('The id of the gateway in `GET /gateways`, or the name of its host for what the store has kept.'),
    gatewayHost: z.string(),
    ...{ method, path, route, consumerId },
    name: z.string().nullable().describe('Of the key; null also while the store is away.'),
    owner: z.string().nullable(),
    ...decision,
  })
  .meta({ id: 'Refusal' });

export const explainRefusal = defineOperation({
  name: 'explainRefusal',
  line: 'GET /refusals/{requestId}',
  role: 'viewer',
  sentence: 'Explains why a request was refused or failed, by its X-Request-Id, whichever gateway it came to.',
  description:
    'Newest first, at most 10, because a client may repeat its X-Request-Id. Each gateway process remembers its last 10,000 refusals of ' +
    'known callers and 1,000 others, and the last 2,000 requests that the service answered with 5xx or whose client left before an answer ' +
    '(of one caller 200 in ten minutes), until it ends. The store keeps the first refusal of each key and window and the failures for a day, of one ' +
    'caller at most 36 in an hour and of all 400; of one that it has kept, `gateway` is the name of the host. Asking the other gateways takes up to 2.5 s; while the store is away only this ' +
    'gateway is asked.',
  on: 'live',
  input: NO_PARAMETERS,
  output: z.strictObject({ refusals: z.array(shownRefusal).min(1).max(10) }),
  fails: { not_found: 'No gateway remembers a refusal or a failure with this request id.' },
  async run({ fleet, store }, { requestId }) {
    const found = REQUEST_ID.test(requestId) ? await fleet.explanations.find({ requestId }) : NOTHING;
    if (found === null) throw new Refused('busy', TOO_MANY);
    const isRemembered = found.refusals.length > 0 || found === NOTHING;
    const refusals = isRemembered ? found.refusals : await fleet.explanations.stored(requestId);
    if (refusals === null) throw new Failure('not_found', `${NO_REFUSAL} ${STORE_NOT_READ}`);
    if (refusals.length === 0) throw new Failure('not_found', NO_REFUSAL);
    return { output: { refusals: await asOfNow(refusals.slice(0, MAX_EXPLAINED), store) } };
  },
  async fromStore(store, { requestId }) {
    const texts = REQUEST_ID.test(requestId) ? await store.explanations.of(requestId, store.nowMs()) : [];
    const refusals = explanationsIn(texts);
    if (refusals.length === 0) throw new Failure('not_found', NOT_STORED);
    return { output: { refusals: await asOfNow(refusals.slice(0, MAX_EXPLAINED), async () => store) } };
  },
});

const NOTHING = { refusals: [] };
const MAX_EXPLAINED = 10;
const STORE_NOT_READ =
  'What the store keeps of the last day cannot be read now, so it is not known whether it has this request: ask again.';
const TOO_MANY = 'The gateway runs as many searches as it may at a time. Retry shortly.';
/** The form of request ids that the gateway takes from clients and makes. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/;
const NO_REFUSAL =
  'No gateway remembers a refusal or a failure with this request id. Each gateway process keeps the last 10,000 refusals of known callers and 1,000 others, and 2,000 failures, until it ends; the store keeps the first refusal of each key and window, and failures, for a day. The log has older ones; where a caller was refused many times in a row, one line stands for several of them.';

const NOT_STORED =
  'The store keeps no refusal or failure with this request id, and no gateway was asked, which may remember it: name the admin port of one with --gateway or TOLLGATE_GATEWAY, and a token of it in TOLLGATE_TOKEN. The store keeps the first refusal of each key and window, and failures, for a day.';

const callerRule = 'must be the id of a key, a caller with tokens or a customer';

export const listRefusals = defineOperation({
  name: 'listRefusals',
  line: 'GET /refusals',
  role: 'viewer',
  sentence:
    'Lists the last refusals and failures of requests of a key, a caller with tokens or a customer, with when and from where it called last.',
  description:
    'Newest first, at most 50, of which at most 5 are requests during a ban, besides the one that began it, so that what led to the ban is among them, ' +
    'and at most 10 are requests that failed: the service answered with 5xx or not in time, or the client left before an answer. ' +
    'Each gateway process remembers its last 10,000 refusals of known callers, and the last request of 10,000 ' +
    'callers, until it ends. Asking the other gateways takes up to 2.5 s; while the store is away only this gateway is asked, and ' +
    '`complete` is false.',
  on: 'live',
  input: z.strictObject({
    caller: z
      .string(callerRule)
      .regex(/^(?:key|cus|jwt)_[\w-]{1,64}$/, callerRule)
      .describe('The id, such as key_wEgDyZcCFEX9HpSB.'),
  }),
  output: z
    .strictObject({
      complete,
      ...lastCalls.shape,
      refusals: z.array(shownRefusal).max(50).describe('Empty if no gateway remembers one.'),
    })
    .meta({ id: 'RefusalsOfCaller' }),
  async run({ fleet, store }, { caller }) {
    const found = await fleet.explanations.find({ caller });
    if (found === null) throw new Refused('busy', TOO_MANY);
    const { last = null, admittedAt = null, refusedSince = null } = found.calls ?? {};
    const refusals = await asOfNow(found.refusals, store);
    return { output: { complete: fleet.presence.isComplete, last, admittedAt, refusedSince, refusals } };
  },
});

/**
 * The refusals with name and owner of their keys, and what to do about them now: an operator may have lifted the ban. Of callers with
 * tokens, and where the store does not answer, names are null and the advice considers only the time.
 */
async function asOfNow(found: readonly FoundRefusal[], store: LiveContext['store']) {
  const asked = new Map<string, Promise<unknown>>();
  const once = <T>(what: string, ask: (opened: OperatorStore) => Promise<T>) => {
    const known =
      asked.get(what) ??
      store()
        .then(ask)
        .catch(() => null);
    asked.set(what, known);
    return known as Promise<T | null>;
  };
  const shown = [];
  for (const one of found) {
    const id = one.consumerId === null || isTokenHolder(one.consumerId) ? null : one.consumerId;
    const key = id === null ? null : await once(`key ${id}`, (opened) => recordOf(KEYS, opened, id));
    const usage =
      id === null || one.retryAt === null ? null : await once(`usage ${id}`, (opened) => usageOf(opened, id));
    const [name, owner, advice] = [key?.name ?? null, key?.owner ?? null, adviceSince(one, usage)];
    shown.push({ ...one, name, owner, advice });
  }
  return shown;
}

export const followNow = defineStream({
  name: 'followNow',
  line: 'GET /events/now',
  role: 'viewer',
  sentence: 'Streams the state of everything, at once and then every 2 s.',
  description:
    'Server-sent events. `now` has `{at, gateways, traffic, refused, refusedMore, near, nearUnreadable, asOf, mostRefused, refusedCallers}`: the contents of ' +
    '`GET /gateways` and `GET /traffic`, at most 200 consumers of `GET /now` (`refusedMore`: there are more), at most 50 keys of `GET /near`, ' +
    'with at most 50 of those that cannot be read, and when the store was asked for these lists. While the store is away they stay as they were, and `asOf` (null if the store was never ' +
    'reached) is their time. `mostRefused` has at most 10 callers, each as `{id, name, owner, plan, refused, banned}`: those whose ' +
    'requests the gateways refused most in the last ten minutes, with the counts of all gateways (each names the 20 that it refused most). ' +
    '`refusedCallers` is the number of different callers, as far as known. `store` has `{state: "away"|"present"}` and comes when that ' +
    'changes, and first if the store is away. `end` has `{reason}` and is the last event. `beat` has `{}` and comes every 2 s: after 6 s without an event the gateway or the connection is gone. A gateway has at most 20 ' +
    'streams, and cuts one whose reader does not read.',
  input: NO_PARAMETERS,
});

const textRule = 'must have at most 256 characters';
const text = z.string().max(256, textRule).optional();
const statusRule = 'must be a status code, such as 429, or a class of them, such as 4xx';

export const followRequests = defineStream({
  name: 'followRequests',
  line: 'GET /events/requests',
  role: 'viewer',
  sentence: 'Streams the requests of all gateways that match, for 10 minutes.',
  description:
    'Server-sent events. `requests` has `{requests, skipped}`: at most 50 requests, at most twice a second, each with `at`, `gateway`, ' +
    '`requestId`, `method`, `path` (without the query), `route`, `consumerId`, `plan`, `verdict`, `status`, `code`, `window`, `totalMs`, ' +
    '`clientAddress` and, if it paid something in a unit such as tokens, `units` with `reserved` and `settled` of each; `skipped` counts those beyond. Other gateways take part within a second or two. `store`, `end` and `beat` are as in ' +
    '`GET /events/now`. No key, query or body is in it.',
  input: z.strictObject({
    plan: text,
    key: text.describe('An id of a key or of a caller with tokens.'),
    route: text.describe('The route as in gateway.yaml.'),
    verdict: judgement.optional(),
    status: z
      .string()
      .regex(/^[1-5](?:[0-9]{2}|xx)$/, statusRule)
      .optional()
      .describe('A status code, or a class of them.')
      .meta({ examples: ['4xx'] }),
  }),
});
