import type { Redis } from 'ioredis';
import { NothingDone } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import { Circuit, type CircuitChange, type CircuitOptions, type CircuitState } from './circuit.ts';
import { addressOfNode, ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';

/** What a call is about: a name in Redis, or one node of a cluster. */
export type About = string | Redis;

/** How the stores make their calls: with a deadline, and not at all while nobody answers. */
export interface Calls {
  /** @param about a name or a node: in a cluster it says whose failure a failure is */
  run<T>(call: () => Promise<T>, about?: About): Promise<T>;
}

/** The circuit of a store, whatever its shape. */
export interface StoreCircuit extends Calls {
  readonly state: CircuitState;
  /** Whether any call has ever succeeded. */
  readonly reached: boolean;
  close(): void;
}

export interface StoreCircuitOptions extends Omit<CircuitOptions, 'probe'> {
  /** One part of a cluster went away or came back; the others go on. */
  readonly onShardChange?: (address: string, state: CircuitState) => void;
}

/** The circuit for a client: one, or one for each primary of a cluster. */
export function circuitFor(redis: RedisClient, options: StoreCircuitOptions): StoreCircuit {
  return redis instanceof ClusterClient
    ? new ClusterCircuit(redis, options)
    : new Circuit({ ...options, probe: () => redis.ping() });
}

/**
 * Work of several calls, one after the other, under one deadline: a request waits for them together. In a cluster each
 * call is a matter of its own primary, and only that one is blamed for it.
 */
export function runSteps<T>(calls: Calls, work: (step: Calls['run']) => Promise<T>): Promise<T> {
  return calls instanceof ClusterCircuit ? calls.runSteps(work) : calls.run(() => work((call) => call()));
}

/** Calls whose slot nobody is known to have. */
const NOBODY = '';

/**
 * A circuit for each primary: one that is away costs the consumers of the others nothing. Away as a whole is the cluster
 * only when every primary is.
 */
class ClusterCircuit implements StoreCircuit {
  readonly #cluster: ClusterClient;
  readonly #options: StoreCircuitOptions;
  readonly #circuits = new Map<string, Circuit>();
  #state: CircuitState = 'present';
  #reached = false;

  constructor(cluster: ClusterClient, options: StoreCircuitOptions) {
    this.#cluster = cluster;
    this.#options = options;
  }

  get state(): CircuitState {
    return this.#state;
  }

  get reached(): boolean {
    return this.#reached;
  }

  async run<T>(call: () => Promise<T>, about?: About): Promise<T> {
    const address = this.#addressFor(about);
    const value = await this.#circuitOf(address).run(() => {
      // The client would say of this too that the connection is closed, as it does of what may have been done.
      if (address !== NOBODY && this.#cluster.nodeAt(address)?.status !== 'ready')
        throw new NothingDone(`The part of the cluster at ${address} does not answer. Try again in a few seconds.`);
      return call();
    });
    this.#reached = true;
    return value;
  }

  runSteps<T>(work: (step: Calls['run']) => Promise<T>): Promise<T> {
    const { timeoutMs } = this.#options;
    return new Promise((resolve, reject) => {
      const late = () => reject(new Failure('store_unavailable', `Redis did not answer within ${timeoutMs} ms.`));
      // As in the circuit: replies that have arrived meanwhile are read first.
      const timer = setTimeout(() => setImmediate(late), timeoutMs);
      work((call, about) => this.run(call, about))
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }

  close(): void {
    for (const circuit of this.#circuits.values()) circuit.close();
  }

  #addressFor(about: About | undefined): string {
    if (typeof about === 'object') return addressOfNode(about);
    if (about !== undefined) return this.#cluster.primaryOf(about) ?? NOBODY;
    const present = [...this.#circuits].find(([, { state }]) => state === 'present');
    return present?.[0] ?? NOBODY;
  }

  #circuitOf(address: string): Circuit {
    const known = this.#circuits.get(address);
    if (known !== undefined) return known;
    this.#forgetFormer();
    const circuit = new Circuit({
      ...this.#options,
      probe: () => this.#probe(address),
      onChange: (state, change) => this.#changed(address, state, change),
    });
    this.#circuits.set(address, circuit);
    this.#settle();
    return circuit;
  }

  /** A primary that is one no longer has no calls, and so nobody would notice that it is back. */
  #forgetFormer(): void {
    const present = new Set(this.#cluster.slots.map((nodes) => nodes?.[0]));
    for (const [address, circuit] of this.#circuits) {
      if (present.has(address)) continue;
      circuit.close();
      this.#circuits.delete(address);
    }
  }

  /** A node may answer while the cluster refuses every command: only `ok` counts. And the slots may be elsewhere by now. */
  async #probe(address: string): Promise<void> {
    this.#cluster.refreshSoon();
    if (address === NOBODY && this.#cluster.status === 'ready') return;
    const info = await this.#cluster.nodeAt(address)?.cluster('INFO');
    if (!/^cluster_state:ok/m.test(String(info))) throw new Failure('store_unavailable', `${address} is not ready.`);
  }

  #changed(address: string, state: CircuitState, change?: CircuitChange): void {
    if (address !== NOBODY) this.#options.onShardChange?.(address, state);
    this.#settle(change);
  }

  #settle(change?: CircuitChange): void {
    const isAway = [...this.#circuits.values()].every((circuit) => circuit.state === 'away');
    const next = isAway ? 'away' : 'present';
    if (next === this.#state) return;
    this.#state = next;
    this.#options.onChange?.(next, change);
  }
}
