import type { KeyStore } from '../identify/key-store.ts';
import { isTokenHolder } from '../identify/token-holder.ts';
import type { FoundRefusal } from '../operations/fleet/explanations.ts';
import type { Fleet } from '../operations/fleet/fleet.ts';
import type { GatewayBatch } from '../operations/fleet/tails.ts';
import type { TailedRequest, TailFilter } from '../operations/live/shapes.ts';
import type { Operations } from '../operations/operations.ts';
import { type Call, invalidQuery, personOf, readQuery } from './call.ts';
import type { EventResponse, EventStream, EventStreams } from './event-streams.ts';
import { type NowFeed, tellStore } from './now-feed.ts';
import { type AdminResponse, errorResponse, jsonResponse } from './response.ts';

// The resources about gateways, traffic and single requests. They answer while the store is away.

/** What these handlers work on. */
export interface Live {
  readonly fleet: Fleet;
  readonly streams: EventStreams;
  readonly now: NowFeed;
  /** Rejects with Failure while the store is away. */
  readonly operations: () => Promise<Operations>;
}

export type LiveHandler = (call: Call, live: Live) => Promise<AdminResponse | EventResponse>;

export const MAX_NEAR = 200;
const TAIL_EVERY_MS = 500;
const TAIL_ENDS_AFTER_MS = 600_000;
/** Most requests in one event of a tail. */
const MAX_TAILED = 50;

export async function showGateways(call: Call, { fleet }: Live): Promise<AdminResponse> {
  return withoutQuery(call) ?? jsonResponse(200, await fleet.presence.gateways());
}

export async function showTraffic(call: Call, { fleet }: Live): Promise<AdminResponse> {
  return withoutQuery(call) ?? jsonResponse(200, await fleet.presence.traffic());
}

export async function listNear(call: Call, { fleet, operations }: Live): Promise<AdminResponse> {
  const refusal = withoutQuery(call);
  if (refusal !== null) return refusal;
  return jsonResponse(200, { keys: await (await operations()).nearLimits(await fleet.presence.near(), MAX_NEAR) });
}

export async function showRefusals(call: Call, { fleet, operations }: Live): Promise<AdminResponse> {
  const refusal = withoutQuery(call);
  if (refusal !== null) return refusal;
  const [requestId] = call.ids as [string];
  const found = REQUEST_ID.test(requestId) ? await fleet.explanations.explain(requestId) : [];
  if (found === null) return errorResponse('busy', TOO_MANY, { 'Retry-After': '1' });
  if (found.length === 0) return errorResponse('not_found', NO_REFUSAL);
  return jsonResponse(200, { refusals: await named(found, operations) });
}

const TOO_MANY = 'The gateway looks for as many request ids as it may at a time. Retry shortly.';
/** The form of request ids that the gateway takes from clients and makes. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/;
const NO_REFUSAL =
  'No gateway remembers a refusal with this request id. Each gateway process keeps the last 10,000 refusals of known callers and 1,000 others, until it ends. The log may have it, but refusals from memory share one line, with the id of one of them.';

/** The refusals with name and owner of their keys; null where the store does not answer, and for token callers. */
async function named(found: readonly FoundRefusal[], operations: Live['operations']): Promise<object[]> {
  const keys = new Map<string, Awaited<ReturnType<KeyStore['get']>>>();
  for (const { consumerId } of found) {
    if (consumerId === null || isTokenHolder(consumerId) || keys.has(consumerId)) continue;
    const key = await operations()
      .then((them) => them.show(consumerId))
      .catch(() => null);
    keys.set(consumerId, key);
  }
  return found.map((one) => {
    const key = one.consumerId === null ? null : (keys.get(one.consumerId) ?? null);
    // A gateway of an earlier version does not say them.
    return { ...one, planLimits: one.planLimits ?? {}, name: key?.name ?? null, owner: key?.owner ?? null };
  });
}

export async function followNow(call: Call, { now }: Live): Promise<AdminResponse | EventResponse> {
  return withoutQuery(call) ?? { ...watcherOf(call), begin: (stream) => now.watch(stream) };
}

export async function followRequests(call: Call, { fleet }: Live): Promise<AdminResponse | EventResponse> {
  const given = readQuery(call.query, ['plan', 'key', 'route', 'verdict', 'status']);
  if ('refusal' in given) return given.refusal;
  const { verdict, status } = given;
  if (verdict !== null && !VERDICTS.includes(verdict)) {
    return invalidQuery(`verdict must be one of ${VERDICTS.join(', ')}.`).refusal;
  }
  if (status !== null && !/^[1-5](?:[0-9]{2}|xx)$/.test(status)) {
    return invalidQuery('status must be a status code, such as 429, or a class of them, such as 4xx.').refusal;
  }
  for (const name of ['plan', 'key', 'route'] as const) {
    if ((given[name]?.length ?? 0) > 256) return invalidQuery(`${name} must have at most 256 characters.`).refusal;
  }
  return { ...watcherOf(call), begin: (stream) => beginTail(stream, fleet, given) };
}

const VERDICTS: readonly string[] = [
  ...['admitted', 'refused', 'banned', 'shed', 'unauthenticated', 'preflight', 'usage', 'malformed', 'undecided'],
];

/** Sends the requests of all gateways that match, twice a second. @returns a function that ends the tail */
function beginTail(stream: EventStream, fleet: Fleet, filter: TailFilter): () => void {
  let requests: (TailedRequest & { readonly gateway: string })[] = [];
  let skipped = 0;
  const leaveTail = fleet.tails.open(filter, (batch: GatewayBatch) => {
    const room = MAX_TAILED - requests.length;
    for (const one of batch.requests.slice(0, room)) requests.push({ ...one, gateway: batch.gateway });
    skipped += batch.skipped + Math.max(batch.requests.length - room, 0);
  });
  const sendSome = () => {
    if (requests.length === 0 && skipped === 0) return;
    const data = { requests: requests.sort((a, b) => (a.at < b.at ? -1 : 1)), skipped };
    [requests, skipped] = [[], 0];
    stream.send('requests', JSON.stringify(data));
  };
  const leaveStore = tellStore(stream, fleet);
  const timer = setInterval(sendSome, TAIL_EVERY_MS).unref();
  const late = setTimeout(() => {
    sendSome();
    stream.end('The tail has stopped by itself after 10 minutes.');
  }, TAIL_ENDS_AFTER_MS).unref();
  return () => {
    leaveTail();
    leaveStore();
    clearInterval(timer);
    clearTimeout(late);
  };
}

/** Who watches, and the signal that ends the stream when the session ends that it was authorised by. */
function watcherOf({ identity }: Call): Pick<EventResponse, 'person' | 'signal'> {
  return { person: personOf(identity), signal: identity.signal };
}

function withoutQuery({ query }: Call): AdminResponse | null {
  for (const _ of query.keys()) return invalidQuery('There are no parameters here.').refusal;
  return null;
}
