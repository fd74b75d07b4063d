import { isDeepStrictEqual } from 'node:util';
import type { Settings } from '../config/settings.ts';
import { purgeIn, ResponseCache } from '../forward/cache/response-cache.ts';
import type { ChangeFeed } from '../identify/record-store.ts';
import { CLOCKS } from '../io/clocks.ts';
import type { GatewayMetrics } from '../telemetry/metrics.ts';

/** Keeps the stored responses for the settings in force: a reload that changes routes, upstreams or `cache` empties the cache. */
export class ResponseCaches {
  #settings: Pick<Settings, 'cache' | 'routes' | 'upstreams'> | null = null;
  #present: ResponseCache | null = null;

  constructor(changes: ChangeFeed, metrics: Pick<GatewayMetrics, 'cacheSizeFrom'>) {
    metrics.cacheSizeFrom(() => this.bytes ?? 0);
    changes.subscribe(({ kind, keyId }) => {
      // After a lost message, `any`, what is stored may be what an operator has purged.
      if (kind === 'cache' || kind === 'any') this.#present?.purge(purgeIn(keyId));
    });
  }

  /** Of the stored responses; null if no route has a cache. */
  get bytes(): number | null {
    return this.#present?.bytes ?? null;
  }

  /** The cache for these settings; null if no route has one. */
  of({ cache, routes, upstreams }: Pick<Settings, 'cache' | 'routes' | 'upstreams'>): ResponseCache | null {
    const settings = { cache, routes, upstreams };
    if (!isDeepStrictEqual(settings, this.#settings)) {
      const isUsed = routes.some((route) => route.cache !== null);
      this.#present = isUsed ? new ResponseCache(cache, CLOCKS.wallMs) : null;
      this.#settings = settings;
    }
    return this.#present;
  }
}
