import { setTimeout as delay } from 'node:timers/promises';
import { Agent, fetch } from 'undici';
import { stopwatch } from '../../support/stopwatch.ts';
import type { Stage } from './stage.ts';

/** How a well-behaved client was served. */
export interface Health {
  readonly requests: number;
  /** Answers other than 200, and none at all. */
  readonly errors: readonly string[];
  readonly p99Ms: number;
}

const EVERY_MS = 10;

/** Asks every 10 ms, one request at a time, until the returned function is called, which closes its connection. */
export function startHealthyClient({ origin, healthyKey }: Stage): () => Promise<Health> {
  const tookMs: number[] = [];
  const errors: string[] = [];
  const connections = new Agent();
  const stop = new AbortController();
  const asking = (async () => {
    while (!stop.signal.aborted) {
      const took = stopwatch();
      try {
        const answer = await fetch(`${origin}/healthy`, {
          headers: { Authorization: `Bearer ${healthyKey}` },
          dispatcher: connections,
        });
        await answer.text();
        if (answer.status !== 200) errors.push(`status ${answer.status}`);
      } catch (error) {
        errors.push(String(error));
      }
      tookMs.push(took());
      await delay(EVERY_MS);
    }
  })();
  return async () => {
    stop.abort();
    await asking;
    await connections.close();
    const sorted = tookMs.toSorted((a, b) => a - b);
    return { requests: sorted.length, errors, p99Ms: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0 };
  };
}
