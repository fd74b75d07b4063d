import { UnreadableRecord } from '../../model/record.ts';
import { ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';
import { keyspace } from './keyspace.ts';
import { type Calls, runSteps } from './shards.ts';
import { FOREIGN, holdWrites, type Value, type Values } from './string-values.ts';

/** The value under the name of a record. */
interface PointedRecord {
  readonly id: string;
  readonly text: Value;
}

/** Finds the records of API keys by the digests of their secrets: first the pointer, then the record that it names. */
export interface LookUps {
  /**
   * The record to which the pointer of this digest leads; null if there is no pointer or no record.
   * @throws Failure `store_corrupt` if another program's value is in the place of the pointer
   */
  recordOf(digest: string): Promise<PointedRecord | null>;
}

interface LookUpsOptions<R extends RedisClient = RedisClient> {
  readonly redis: R;
  readonly circuit: Calls;
  readonly values: Values;
  /** `read` also works while Redis refuses writes alone. */
  readonly way: keyof Calls;
}

export function lookUpsOn({ redis, ...options }: LookUpsOptions): LookUps {
  return redis instanceof ClusterClient ? new LookUpsApart(options) : new LookUpsTogether({ redis, ...options });
}

/** In a cluster, makes single calls for each name: a primary that is away does not affect the keys on the others. */
class LookUpsApart implements LookUps {
  readonly #circuit: Calls;
  readonly #values: Values;
  readonly #way: keyof Calls;

  constructor({ circuit, values, way }: Omit<LookUpsOptions, 'redis'>) {
    this.#way = way;
    this.#circuit = circuit;
    this.#values = values;
  }

  async recordOf(digest: string): Promise<PointedRecord | null> {
    const pointer = keyspace.digest(digest);
    // Both steps have one deadline, because a request waits for both.
    const found = await runSteps(
      this.#circuit,
      this.#way,
      async (step): Promise<PointedRecord | null | typeof FOREIGN> => {
        const id = await step(() => this.#values.get(pointer), pointer);
        if (typeof id !== 'string') return id;
        const name = keyspace.apiKey(id);
        return { id, text: await step(() => this.#values.get(name), name) };
      },
    );
    if (found === FOREIGN) throw foreignPointer(pointer);
    return found;
  }
}

function foreignPointer(pointer: string): UnreadableRecord {
  return new UnreadableRecord(pointer, `${pointer} in Redis holds something other than the id of a key. Remove it.`);
}

/** Maximum names in one call: Redis executes nothing else meanwhile. */
const MAX_AT_ONCE = 256;

interface QueuedLookUp {
  readonly pointer: string;
  readonly resolve: (record: PointedRecord | null | PromiseLike<null>) => void;
  readonly reject: (error: unknown) => void;
}

/** A look-up that has found its pointer. */
interface FoundPointer {
  readonly waiting: QueuedLookUp;
  readonly id: string;
  readonly name: string;
}

/**
 * Makes one call for all look-ups of one turn of the event loop. So during a flood of unknown secrets, Redis and the gateway handle
 * one command, one deadline and one answer for each turn instead of for each secret.
 */
class LookUpsTogether implements LookUps {
  readonly #redis: Exclude<RedisClient, ClusterClient>;
  readonly #circuit: Calls;
  readonly #values: Values;
  readonly #way: keyof Calls;
  #waiting: QueuedLookUp[] = [];

  constructor({ redis, circuit, values, way }: LookUpsOptions<Exclude<RedisClient, ClusterClient>>) {
    this.#way = way;
    this.#redis = redis;
    this.#circuit = circuit;
    this.#values = values;
  }

  recordOf(digest: string): Promise<PointedRecord | null> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(this.#send);
      this.#waiting.push({ pointer: keyspace.digest(digest), resolve, reject });
    });
  }

  readonly #send = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (let i = 0; i < waiting.length; i += MAX_AT_ONCE) this.#ask(waiting.slice(i, i + MAX_AT_ONCE));
  };

  #ask(batch: readonly QueuedLookUp[]): void {
    // Both steps have one deadline, because a request waits for both.
    this.#circuit[this.#way](() => this.#settle(batch)).catch((error) => {
      // Look-ups with an answer are already settled, so this has no effect on them.
      for (const { reject } of batch) reject(error);
    });
  }

  async #settle(batch: readonly QueuedLookUp[]): Promise<void> {
    const pointers = batch.map(({ pointer }) => pointer);
    // MGET replies nil for a missing value and for a value of another type. EXISTS counts the latter, too.
    const held = holdWrites(this.#redis);
    const asked = Promise.all([this.#redis.exists(pointers), this.#redis.mget(pointers)]);
    held.release();
    const [there, ids] = await asked;
    const hasForeign = there > ids.filter((id) => id !== null).length;
    const pointed: FoundPointer[] = [];
    for (const [i, waiting] of batch.entries()) {
      const id = ids[i] ?? null;
      // Answers at once: a look-up without a pointer does not wait for the records of the others.
      if (id === null) waiting.resolve(hasForeign ? this.#foreignOrNone(waiting.pointer) : null);
      else pointed.push({ waiting, id, name: keyspace.apiKey(id) });
    }
    if (pointed.length > 0) await this.#settlePointed(pointed);
  }

  /** The next look-up finds a pointer that another process has created meanwhile. */
  async #foreignOrNone(pointer: string): Promise<null> {
    if ((await this.#values.get(pointer)) === FOREIGN) throw foreignPointer(pointer);
    return null;
  }

  async #settlePointed(pointed: readonly FoundPointer[]): Promise<void> {
    const records = await this.#redis.mget(pointed.map(({ name }) => name));
    const missing: FoundPointer[] = [];
    for (const [i, lookUp] of pointed.entries()) {
      const record = records[i] ?? null;
      if (record === null) missing.push(lookUp);
      else lookUp.waiting.resolve({ id: lookUp.id, text: record });
    }
    // MGET replies nil for a value of another type, too. Such a value is foreign and must not count as an unknown key.
    await Promise.all(
      missing.map(async ({ waiting, id, name }) => waiting.resolve({ id, text: await this.#values.get(name) })),
    );
  }
}
