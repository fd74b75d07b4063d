import { isTokenHolder } from '../identify/api-key.ts';
import type { RefusedCount } from '../model/refusal.ts';
import type { Fleet } from '../operations/fleet/fleet.ts';
import { NEAR_SHARE, type NearReport, nearLimits } from '../operations/live/near-limits.ts';
import type { TrafficReport } from '../operations/live/traffic.ts';
import { atPresent, KEYS, type OperatorStore, recordOf } from '../operations/operator-store.ts';
import { type RefusedReport, refusedConsumers } from '../operations/refused-now.ts';
import { unreadableReport } from '../operations/unreadable.ts';
import type { EventStream } from './event-streams.ts';

const EVERY_MS = 2_000;
const MAX_REFUSED = 200;
const MAX_NEAR = 50;
const MAX_REFUSED_CALLERS = 10;
/** Consumers of the index of refusals that one event looks at, however few of them are still refused. */
const MAX_LOOKED_AT = 1_000;

/** Who is refused and who is near a limit. */
interface Lists {
  readonly refused: readonly RefusedReport[];
  readonly refusedMore: boolean;
  readonly near: readonly NearReport[];
  /** Those whose records cannot be read, so that it is not known whether they are near a limit. */
  readonly nearUnreadable: ReturnType<typeof unreadableReport>;
  /** When the store was asked for them, RFC 3339; null if it has not been reached. */
  readonly asOf: string | null;
}

type CallerName = Pick<RefusedReport, 'name' | 'owner'>;

/** The data of the event `now`, which the console reads. */
export interface NowEvent extends Lists {
  readonly at: string;
  readonly gateways: Awaited<ReturnType<Fleet['presence']['gateways']>>;
  readonly traffic: TrafficReport;
  /** Of the last ten minutes, the most refused first. */
  readonly mostRefused: readonly (CallerName & RefusedCount)[];
  /** How many callers were refused in that time. */
  readonly refusedCallers: number;
}

/** The event `now`: computed every 2 s for all who watch, and only while somebody does. */
export class NowFeed {
  readonly #fleet: Fleet;
  readonly #store: () => Promise<OperatorStore>;
  readonly #wallMs: () => number;
  readonly #streams = new Set<EventStream>();
  #timer: NodeJS.Timeout | null = null;
  #isComputing = false;
  /** Name and owner of keys that were refused most, for the time when the store is away. */
  #names: ReadonlyMap<string, CallerName> = new Map();
  #lists: Lists = { refused: [], refusedMore: false, near: [], nearUnreadable: [], asOf: null };
  /** The last event, for watchers that come until the next one; null while no one watches. */
  #last: string | null = null;

  /** @param store rejects with Failure while the store is away */
  constructor(fleet: Fleet, store: () => Promise<OperatorStore>, wallMs: () => number) {
    this.#fleet = fleet;
    this.#store = store;
    this.#wallMs = wallMs;
  }

  /** @returns a function that ends it */
  watch(stream: EventStream): () => void {
    this.#streams.add(stream);
    if (this.#last !== null) stream.send('now', this.#last);
    if (this.#timer === null) {
      this.#timer = setInterval(() => void this.#send(), EVERY_MS).unref();
      void this.#send();
    }
    const leaveStore = tellStore(stream, this.#fleet);
    return () => {
      leaveStore();
      this.#streams.delete(stream);
      if (this.#streams.size > 0 || this.#timer === null) return;
      clearInterval(this.#timer);
      this.#timer = null;
      this.#last = null;
    };
  }

  async #send(): Promise<void> {
    // A slow store must not make events overtake each other.
    if (this.#isComputing) return;
    this.#isComputing = true;
    try {
      const event = await this.#compute();
      this.#last = this.#timer === null ? null : event;
      for (const stream of this.#streams) stream.send('now', event);
    } finally {
      this.#isComputing = false;
    }
  }

  async #compute(): Promise<string> {
    const { presence } = this.#fleet;
    const [gateways, traffic] = [await presence.gateways(), await presence.traffic()];
    const { callers: refusedCallers, most } = await presence.mostRefused();
    const at = new Date(this.#wallMs()).toISOString();
    // While the store is away the lists stay as they were, and `asOf` says of when they are.
    this.#lists = await this.#readLists(at).catch(() => this.#lists);
    const mostRefused = await this.#named(most.slice(0, MAX_REFUSED_CALLERS));
    const event: NowEvent = { at, gateways, traffic, ...this.#lists, mostRefused, refusedCallers };
    return JSON.stringify(event);
  }

  async #named(counts: readonly RefusedCount[]): Promise<NowEvent['mostRefused']> {
    const store = await this.#store().catch(() => null);
    const named = await Promise.all(
      counts.map(async ({ id, ...count }) => {
        const known = this.#names.get(id) ?? { name: null, owner: null };
        if (isTokenHolder(id) || store === null) return { id, ...known, ...count };
        const { name, owner } = await recordOf(KEYS, store, id).then(
          (key) => key ?? known,
          () => known,
        );
        return { id, name, owner, ...count };
      }),
    );
    this.#names = new Map(named.map(({ id, name, owner }) => [id, { name, owner }]));
    return named;
  }

  async #readLists(at: string): Promise<Lists> {
    const store = atPresent(await this.#store());
    const refused: RefusedReport[] = [];
    let [refusedMore, lookedAt] = [false, 0];
    for await (const { report } of refusedConsumers(store, { after: null, scan: false })) {
      if (refused.length === MAX_REFUSED || lookedAt === MAX_LOOKED_AT) {
        refusedMore = true;
        break;
      }
      if (report !== null) refused.push(report);
      lookedAt++;
    }
    const wanted = { share: NEAR_SHARE, window: null, most: MAX_NEAR };
    const { keys: near, unreadable } = await nearLimits(store, await this.#fleet.presence.near(), wanted);
    const nearUnreadable = unreadableReport(unreadable.slice(0, MAX_NEAR));
    return { refused, refusedMore, near, nearUnreadable, asOf: at };
  }
}

/** Sends whether the store is away: at once if it is, and on each change. */
export function tellStore(stream: EventStream, { storeWatch }: Fleet): () => void {
  const send = (state: 'away' | 'present') => stream.send('store', JSON.stringify({ state }));
  if (storeWatch.state === 'away') send('away');
  return storeWatch.onChange(send);
}
