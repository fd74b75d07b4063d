import type { TailedRequest, TailFilter } from '../model/refusal.ts';
import type { Fleet } from '../operations/fleet/fleet.ts';
import type { GatewayBatch } from '../operations/fleet/tails.ts';
import { type Call, personOf } from './call.ts';
import type { EventResponse, EventStream, EventStreams } from './event-streams.ts';
import { type NowFeed, tellStore } from './now-feed.ts';

/** What streams of events are made of. */
export interface Events {
  readonly fleet: Fleet;
  readonly streams: EventStreams;
  readonly now: NowFeed;
}

/** The data of the event `requests`, which the console reads. */
export interface RequestsEvent {
  readonly requests: readonly (TailedRequest & { readonly gateway: string })[];
  /** Matching requests beyond those. */
  readonly skipped: number;
}

const TAIL_EVERY_MS = 500;
const TAIL_ENDS_AFTER_MS = 600_000;
/** Maximum requests in one event of a tail. */
const MAX_TAILED = 50;

/** The response to a request for a stream. The input has been read. */
export function eventResponse(name: string, input: object, { identity }: Call, events: Events): EventResponse {
  const begin = BEGIN[name as keyof typeof BEGIN];
  // The signal ends the stream when the session ends that it was authorised by.
  return { person: personOf(identity), signal: identity.signal, begin: (stream) => begin(stream, events, input) };
}

/** How each stream begins, by its name. Each returns a function that ends it. */
const BEGIN = {
  followNow: (stream: EventStream, { now }: Events) => now.watch(stream),
  followRequests: (stream: EventStream, { fleet }: Events, input: Partial<TailFilter>) =>
    beginTail(stream, fleet, { plan: null, key: null, route: null, verdict: null, status: null, ...input }),
};

/** Sends the requests of all gateways that match, twice a second. @returns a function that ends the tail */
function beginTail(stream: EventStream, fleet: Fleet, filter: TailFilter): () => void {
  let requests: RequestsEvent['requests'][number][] = [];
  let skipped = 0;
  const leaveTail = fleet.tails.open(filter, (batch: GatewayBatch) => {
    const room = MAX_TAILED - requests.length;
    for (const one of batch.requests.slice(0, room)) requests.push({ ...one, gateway: batch.gateway });
    skipped += batch.skipped + Math.max(batch.requests.length - room, 0);
  });
  const sendSome = () => {
    if (requests.length === 0 && skipped === 0) return;
    const data: RequestsEvent = { requests: requests.sort((a, b) => (a.at < b.at ? -1 : 1)), skipped };
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
