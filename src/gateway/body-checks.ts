import type { Worker } from 'node:worker_threads';
import { compileCacheVariables } from '../io/compile-cache.ts';
import { ReplyDeadlines } from '../io/deadlines.ts';
import { FairShares, type Share } from '../io/fair-shares.ts';
import { startThread } from '../io/own-program.ts';
import type { Program } from '../validate/program.ts';
import type { BodyCheck } from '../validate/validator.ts';
import { ExcessError } from '../validate/work.ts';
import type { BodyResult, BodyTask } from './body-thread.ts';

/** `busy`: too many bodies wait to be checked. `late`: the thread did not end with this one in time. */
export type Checked = BodyResult | 'busy' | 'late';

/** The thread that serves requests reads no body that is larger, in bytes. */
const MAX_AT_ONCE = 64 * 1024;
/** The steps of work (`Work`) of all bodies that are checked in one turn of the event loop: 10 ms. */
const STEPS_OF_TURN = 300_000;
/** The class looks for the end of a turn only after this many steps. */
const STEPS_UNWATCHED = 50_000;
/** The bodies that may wait for the thread, and the part of them that one consumer may have. */
const MAX_WAITING = 256;
const FAIR_SHARE = 0.25;
/** The number of programs that the thread keeps. No body needs those of descriptions that have changed. */
const MAX_PROGRAMS = 256;
/** The thread ends when there has been no large body for this long, and gives back its memory. */
const IDLE_MS = 30_000;

interface Bounds {
  /** How long the thread may take for a body, which has at most half a second of work, in milliseconds. */
  readonly withinMs: number;
  /** Heap of the thread, in megabytes. A body of 1 MiB takes at most 60. */
  readonly heapMb: number;
}

const BOUNDS: Bounds = { withinMs: 20_000, heapMb: 192 };

/**
 * Checks bodies of JSON: small ones at once, large ones and those that take long in a thread.
 *
 * Attack: a body of a megabyte takes a quarter of a second to be read, and 100 MB of memory. On the thread that serves
 * requests, two of them a second made all requests wait. So what that thread does for a body is bounded, and for all bodies of
 * one turn of the event loop. The other thread has one body at a time, of each consumer in turn, so that one that sends many
 * does not keep those of others waiting.
 */
export class BodyChecks {
  readonly #bounds: Bounds;
  readonly #shares = new FairShares<QueuedCheck>({ maxConnections: 1, maxQueue: MAX_WAITING, fairShare: FAIR_SHARE });
  #thread: BodyThread | null = null;
  /** Ends the thread when it has had nothing to do for long. */
  readonly #deadlines = new ReplyDeadlines();
  #idle: NodeJS.Timeout | null = null;
  /** Steps of the bodies in this turn of the event loop, or since it was last asked whether the turn has ended. */
  #stepsOfTurn = 0;
  #watchesTurn = false;

  /** @param bounds that tests make smaller */
  constructor(bounds: Partial<Bounds> = {}) {
    this.#bounds = { ...BOUNDS, ...bounds };
  }

  /** @param isWanted asked when it is the body's turn */
  check(consumerId: string, check: BodyCheck, bytes: Uint8Array, isWanted: () => boolean): Checked | Promise<Checked> {
    if (bytes.length <= MAX_AT_ONCE && this.#stepsOfTurn < STEPS_OF_TURN) {
      try {
        const { fault, steps } = check.atOnce(bytes);
        this.#took(steps);
        return fault;
      } catch (error) {
        if (!(error instanceof ExcessError)) throw error;
        this.#took(STEPS_OF_TURN);
      }
    }
    const share = this.#shares.takePlace(consumerId);
    if (share === null) return 'busy';
    const { promise, resolve, reject } = Promise.withResolvers<Checked>();
    const body = { share, check, bytes, isWanted, resolve, reject };
    if (this.#shares.take(share)) void this.#run(body);
    else if (!this.#shares.queue(share, body)) {
      share.release();
      return 'busy';
    }
    return promise;
  }

  /** Ends the thread without checking the bodies that wait. */
  async close(): Promise<void> {
    if (this.#idle !== null) clearTimeout(this.#idle);
    await this.#endThread();
  }

  #took(steps: number): void {
    this.#stepsOfTurn += steps;
    if (this.#stepsOfTurn < STEPS_UNWATCHED || this.#watchesTurn) return;
    this.#watchesTurn = true;
    setImmediate(() => {
      this.#stepsOfTurn = 0;
      this.#watchesTurn = false;
    });
  }

  async #run({ share, check, bytes, isWanted, resolve, reject }: QueuedCheck): Promise<void> {
    if (this.#idle !== null) clearTimeout(this.#idle);
    this.#idle = null;
    try {
      resolve(isWanted() ? await this.#inThread(check, bytes) : null);
    } catch (error) {
      reject(error);
    }
    this.#shares.release(share);
    share.release();
    const next = this.#shares.takeForNext();
    if (next !== null) void this.#run(next);
    else this.#idle = setTimeout(() => void this.#endThread(), IDLE_MS).unref();
  }

  async #inThread(check: BodyCheck, bytes: Uint8Array): Promise<Checked> {
    if (this.#thread !== null && this.#thread.programCount >= MAX_PROGRAMS) await this.#endThread();
    if (this.#thread === null || this.#thread.hasEnded) this.#thread = new BodyThread(this.#bounds.heapMb);
    const late = this.#deadlines.set(() => void this.#endThread('late'), this.#bounds.withinMs);
    try {
      return await this.#thread.check(check, bytes);
    } finally {
      late.cancel();
    }
  }

  async #endThread(outcome: Checked = 'busy'): Promise<void> {
    const thread = this.#thread;
    this.#thread = null;
    await thread?.end(outcome);
  }
}

/** A thread that checks one body at a time. */
class BodyThread {
  readonly #worker: Worker;
  /** The numbers of the programs that the thread has. */
  readonly #ids = new Map<Program, number>();
  #asked: PromiseWithResolvers<Checked> | null = null;
  hasEnded = false;

  constructor(heapMb: number) {
    this.#worker = startThread(import.meta, 'body-thread', {
      env: { ...process.env, ...compileCacheVariables() },
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    this.#worker.unref();
    this.#worker.on('message', (result: BodyResult) => this.#asked?.resolve(result));
    this.#worker.on('error', (error: Error & { code?: string }) => {
      this.hasEnded = true;
      if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') this.#asked?.resolve('too_much');
      else this.#asked?.reject(error);
    });
    this.#worker.on('exit', () => {
      this.hasEnded = true;
      this.#asked?.reject(new Error('the thread that checks bodies has ended'));
    });
  }

  get programCount(): number {
    return this.#ids.size;
  }

  check({ program, name }: BodyCheck, bytes: Uint8Array): Promise<Checked> {
    const known = this.#ids.get(program);
    const id = known ?? this.#ids.size;
    this.#ids.set(program, id);
    const { code, automata } = program;
    // The bytes are forwarded once they have been checked, so that the thread gets a copy.
    const copy = new Uint8Array(bytes);
    const task: BodyTask = { id, program: known === undefined ? { code, automata } : null, check: name, bytes: copy };
    this.#asked = Promise.withResolvers();
    this.#worker.postMessage(task, [copy.buffer]);
    return this.#asked.promise;
  }

  /** @param outcome the result for the body that the thread checks, if it checks one */
  async end(outcome: Checked): Promise<void> {
    this.#asked?.resolve(outcome);
    await this.#worker.terminate();
  }
}

interface QueuedCheck {
  readonly share: Share<QueuedCheck>;
  readonly check: BodyCheck;
  readonly bytes: Uint8Array;
  readonly isWanted: () => boolean;
  readonly resolve: (checked: Checked) => void;
  readonly reject: (error: unknown) => void;
}
