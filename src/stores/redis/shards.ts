import type { Redis } from 'ioredis';
import { NothingDone } from '../../admit/ledger.ts';
import { Failure } from '../../failure.ts';
import { ReplyDeadlines } from '../../io/deadlines.ts';
import { Circuit, type CircuitChange, type CircuitOptions, type CircuitState, Late } from './circuit.ts';
import { addressOfNode, ClusterClient } from './cluster.ts';
import type { RedisClient } from './connection.ts';

/** The name in Redis, or the node of a cluster, that a call uses. */
export type About = string | Redis;

/** Makes the calls of the stores: each with a deadline, and none while the store is away. */
export interface Calls {
  /**
   * @param about in a cluster, the primary of this name, or this node, is responsible for a failure
   * @param withinMs its deadline; unless given, that of a request
   */
  run<T>(call: () => Promise<T>, about?: About, withinMs?: number): Promise<T>;
  /** The same for a call that writes nothing. It also works while the store refuses writes alone. */
  read<T>(call: () => Promise<T>, about?: About, withinMs?: number): Promise<T>;
}

/** The same calls with the deadline of people, who wait longer than requests. */
export class PatientCalls implements Calls {
  readonly calls: Calls;
  readonly #withinMs: number;

  constructor(calls: Calls, withinMs: number) {
    this.calls = calls;
    this.#withinMs = withinMs;
  }

  run<T>(call: () => Promise<T>, about?: About): Promise<T> {
    return this.calls.run(call, about, this.#withinMs);
  }

  read<T>(call: () => Promise<T>, about?: About): Promise<T> {
    return this.calls.read(call, about, this.#withinMs);
  }

  /** @see runSteps */
  runSteps<T>(way: keyof Calls, work: (step: Calls['run']) => Promise<T>): Promise<T> {
    return runSteps(this.calls, way, work, this.#withinMs);
  }
}

/** A client, and the circuit that makes the calls with it. */
export interface StoreConnection {
  readonly redis: RedisClient;
  readonly circuit: Calls;
}

/** The circuit of a single server or of a cluster. */
export interface StoreCircuit extends Calls {
  readonly state: CircuitState;
  /** True if any call has ever succeeded. */
  readonly reached: boolean;
  close(): void;
}

interface StoreCircuitOptions extends Omit<CircuitOptions, 'probe'> {
  /** Called when one primary of a cluster went away or came back. */
  readonly onShardChange?: (address: string, state: CircuitState) => void;
}

/** The circuit for a client. For a cluster it contains one circuit for each primary. */
export function circuitFor(redis: RedisClient, options: StoreCircuitOptions): StoreCircuit {
  return redis instanceof ClusterClient
    ? new ClusterCircuit(redis, options)
    : new Circuit({ ...options, probe: () => redis.ping() });
}

/**
 * Runs several calls one after the other under one deadline, because a request waits for all of them. In a cluster each
 * call goes through the circuit of its own primary, so that a failure counts against that primary only.
 */
export function runSteps<T>(
  calls: Calls,
  way: keyof Calls,
  work: (step: Calls['run']) => Promise<T>,
  withinMs?: number,
): Promise<T> {
  if (calls instanceof PatientCalls) return calls.runSteps(way, work);
  if (calls instanceof ClusterCircuit) return calls.runSteps(way, work, withinMs);
  return calls[way](() => work((call) => call()), undefined, withinMs);
}

/** The address for calls whose slot has no known primary. */
const NO_PRIMARY = '';

/**
 * One circuit for each primary, so that a primary that is away does not affect the consumers of the others. The cluster is
 * away only if every primary is.
 */
class ClusterCircuit implements StoreCircuit {
  readonly #cluster: ClusterClient;
  readonly #options: StoreCircuitOptions;
  readonly #circuits = new Map<string, Circuit>();
  #state: CircuitState = 'present';
  #reached = false;
  readonly #deadlines = new ReplyDeadlines();

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

  run<T>(call: () => Promise<T>, about?: About, withinMs?: number): Promise<T> {
    return this.#make('run', call, about, withinMs);
  }

  read<T>(call: () => Promise<T>, about?: About, withinMs?: number): Promise<T> {
    return this.#make('read', call, about, withinMs);
  }

  async #make<T>(kind: keyof Calls, call: () => Promise<T>, about?: About, withinMs?: number): Promise<T> {
    const address = this.#addressFor(about);
    const value = await this.#circuitOf(address)[kind](
      () => {
        // The client's own error would be "connection is closed", which it also reports for commands that may have run.
        if (address !== NO_PRIMARY && this.#cluster.nodeAt(address)?.status !== 'ready')
          throw new NothingDone(`The part of the cluster at ${address} does not answer. Try again in a few seconds.`);
        return call();
      },
      about,
      withinMs,
    );
    this.#reached = true;
    return value;
  }

  /** @param timeoutMs the deadline of all steps together; unless given, that of a request */
  runSteps<T>(
    way: keyof Calls,
    work: (step: Calls['run']) => Promise<T>,
    timeoutMs = this.#options.timeoutMs,
  ): Promise<T> {
    const done = work((call, about) => this[way](call, about, timeoutMs));
    return this.#deadlines.within(done, timeoutMs, () => Promise.reject(new Late(timeoutMs)));
  }

  close(): void {
    for (const circuit of this.#circuits.values()) circuit.close();
  }

  #addressFor(about: About | undefined): string {
    if (typeof about === 'object') return addressOfNode(about);
    if (about !== undefined) return this.#cluster.primaryOf(about) ?? NO_PRIMARY;
    const present = [...this.#circuits].find(([, { state }]) => state === 'present');
    return present?.[0] ?? NO_PRIMARY;
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

  /** Drops the circuits of former primaries: without calls they would never become `present` again. */
  #forgetFormer(): void {
    const present = new Set(this.#cluster.slots.map((nodes) => nodes?.[0]));
    for (const [address, circuit] of this.#circuits) {
      if (present.has(address)) continue;
      circuit.close();
      this.#circuits.delete(address);
    }
  }

  /** A node may answer PING while the cluster refuses every command, so `cluster_state` must be ok. Refreshes the slots too. */
  async #probe(address: string): Promise<void> {
    this.#cluster.refreshSoon();
    if (address === NO_PRIMARY && this.#cluster.status === 'ready') return;
    const info = await this.#cluster.nodeAt(address)?.cluster('INFO');
    if (!/^cluster_state:ok/m.test(String(info))) throw new Failure('store_unavailable', `${address} is not ready.`);
  }

  #changed(address: string, state: CircuitState, change?: CircuitChange): void {
    if (address !== NO_PRIMARY) this.#options.onShardChange?.(address, state);
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
