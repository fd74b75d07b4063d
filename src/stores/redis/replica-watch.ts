import { Failure } from '../../failure.ts';
import type { RedisClient } from './connection.ts';
import { Replication, replicaTrouble, type WantedReplicas } from './replication.ts';

interface ReplicaWatchOptions {
  readonly redis: RedisClient;
  readonly wanted: WantedReplicas;
  /** Called when the trouble has changed; with an empty list when it is over. */
  readonly onChange: (trouble: readonly string[]) => void;
  /** 5 s if left out. */
  readonly everyMs?: number;
}

/**
 * Looks for replicas that are away. While one is, the store acknowledges no change to a key: an operator must learn the reason
 * before the hour in which a key has to be revoked.
 */
export class ReplicaWatch {
  readonly #options: ReplicaWatchOptions;
  readonly #replication: Replication;
  readonly #timer: NodeJS.Timeout;
  #isAsking = false;
  /**
   * The sentences of the last look. The watch reports only those that it has seen twice, because a failover is over within a few
   * seconds.
   */
  #last: readonly string[] = [];
  #trouble: readonly string[] = [];

  constructor(options: ReplicaWatchOptions) {
    this.#options = options;
    this.#replication = new Replication({ client: options.redis, wanted: options.wanted });
    this.#timer = setInterval(() => void this.#look(), options.everyMs ?? 5_000);
    this.#timer.unref();
  }

  /** A sentence for each replica that is away or behind, with what to do. */
  get trouble(): readonly string[] {
    return this.#trouble;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const found = await troubleOf(this.#replication);
    this.#isAsking = false;
    // The store is away, which another part reports.
    if (found === null) return;
    const trouble = found.filter((sentence) => this.#last.includes(sentence));
    this.#last = found;
    if (trouble.join('\n') === this.#trouble.join('\n')) return;
    this.#trouble = trouble;
    this.#options.onChange(trouble);
  }
}

/** Sentences for operators about the replicas; null if the servers do not answer. */
export async function troubleOf(replication: Replication): Promise<readonly string[] | null> {
  try {
    return replicaTrouble(await replication.states(), replication.wanted);
  } catch (error) {
    if (!(error instanceof Failure)) return null;
    return [`${error.message} Until then, changes to keys are answered with 202 ("durability": "unknown").`];
  }
}
