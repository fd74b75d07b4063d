import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { planRoutesOf } from '../../config/plans-and-routes.ts';
import { Failure } from '../../failure.ts';
import { compileCacheVariables } from '../../io/compile-cache.ts';
import { startThread } from '../../io/own-program.ts';
import { STEPS_PER_SLICE } from '../../io/steps.ts';
import type { Plans } from '../../model/plan.ts';
import type { RecentRecord } from '../../simulate/recent-record.ts';
import { countLiveKeys, type PlanUserStores } from '../plans-in-use.ts';
import { ReachedCallers, type Reaches } from './affected.ts';
import type { Results } from './draft-report.ts';
import type { FromThread, LiveCount, Question, RefusedDraft, Task, ToThread } from './draft-thread.ts';
import type { PlansFile } from './plans-file.ts';

export interface PlanDraftsOptions {
  readonly file: PlansFile;
  /** Returns the plans in force, and what gateway.yaml says of their users. */
  readonly inForce: () => {
    readonly plans: Plans;
    readonly routes: Parameters<typeof planRoutesOf>[0];
    readonly hasTokens: boolean;
  };
  /** Null: this gateway keeps no record of recent requests. */
  readonly recent: (() => Promise<RecentRecord>) | null;
  /** Unix milliseconds. */
  readonly nowMs: () => number;
  readonly monotonicMs: () => number;
  /** Other bounds than those of a gateway, which serves while it checks. */
  readonly bounds?: Partial<Bounds>;
}

interface Bounds {
  /** How long a check and a difference may take, and a simulation, in milliseconds. */
  readonly checkMs: number;
  readonly simulateMs: number;
  /** Heap of the thread, in megabytes. */
  readonly checkMb: number;
  readonly simulateMb: number;
  /** How long keys are counted, in milliseconds. */
  readonly countMs: number;
}

/** The largest plans.yaml needs 100 MB, as SettingsReader says; the largest log 200 MB. Counting a million keys takes about 10 s. */
const BOUNDS: Bounds = { checkMs: 20_000, simulateMs: 60_000, checkMb: 192, simulateMb: 384, countMs: 10_000 };

/** A request that was not done. */
interface RefusedTask {
  readonly code: RefusedDraft['code'] | 'busy' | 'too_costly';
  readonly message: string;
}

export type Outcome<T> = { readonly result: T } | { readonly refusal: RefusedTask };

/** Checks, and simulations, that wait for the one under way. Each holds its body. */
const MAX_WAITING = { checks: 8, simulations: 1 };
/** Keys that are read in one turn of the event loop, so that requests are served in between. */
const PAGE = 100;

/**
 * Checks, compares and tries drafts of plans.yaml, one check and one simulation at a time.
 *
 * Attack: a draft or a log whose check takes seconds, or more memory than the process has. Each runs in a thread of its
 * own, which is ended when its time is over or its heap is full. Bodies are not even parsed by the thread that serves.
 */
export class PlanDrafts {
  readonly #options: PlanDraftsOptions;
  readonly #bounds: Bounds;
  readonly #checks = new Queue(MAX_WAITING.checks);
  readonly #simulations = new Queue(MAX_WAITING.simulations);

  constructor(options: PlanDraftsOptions) {
    this.#options = options;
    this.#bounds = { ...BOUNDS, ...options.bounds };
  }

  /** Finds the faults of a draft. @param body `{text}` as JSON */
  check(body: Uint8Array): Promise<Outcome<Results['check']>> {
    return this.#check({ kind: 'check', body, file: this.#options.file.name, users: this.#users() }, null);
  }

  /** Changes the text of a draft. @param body `{text, edits, plan}` as JSON */
  edit(body: Uint8Array): Promise<Outcome<Results['edit']>> {
    return this.#check({ kind: 'edit', body, file: this.#options.file.name }, null);
  }

  /**
   * Finds the faults of a draft that is to be written, and returns its text.
   * @param body `{text, reason}` as JSON
   * @param replaced the plans in whose place it comes
   */
  sound(body: Uint8Array, replaced: Plans): Promise<Outcome<Results['sound']>> {
    return this.#check({ kind: 'sound', body, file: this.#options.file.name, inForce: replaced }, null);
  }

  /**
   * Compares a draft with the plans in force and the file, or with another text.
   * @param body `{text, from}` as JSON
   * @throws Failure `conflict` if the file cannot be read
   */
  async diff(body: Uint8Array, stores: PlanUserStores): Promise<Outcome<Results['diff']>> {
    const { file, inForce } = this.#options;
    const [{ text }, { plans }, users] = [file.read(), inForce(), this.#users()];
    return this.#check(
      { kind: 'diff', body, file: file.name, users, inForce: plans, text, path: file.pathInPatch },
      stores,
    );
  }

  /** Tries a draft on recorded requests. @param body `{text, record: "recent"}` or `{text, log}` as JSON */
  simulate(body: Uint8Array): Promise<Outcome<Results['simulate']>> {
    const { simulateMs, simulateMb } = this.#bounds;
    const { file, inForce } = this.#options;
    return this.#simulations.run(() =>
      this.#run({ kind: 'simulate', body, file: file.name, inForce: inForce().plans }, null, simulateMs, simulateMb),
    );
  }

  #check<T extends Exclude<Task, { kind: 'simulate' }>>(
    task: T,
    stores: PlanUserStores | null,
  ): Promise<Outcome<Results[T['kind']]>> {
    const { checkMs, checkMb } = this.#bounds;
    return this.#checks.run(() => this.#run(task, stores, checkMs, checkMb));
  }

  #users() {
    const { routes, hasTokens } = this.#options.inForce();
    return { hasTokens, ...planRoutesOf(routes) };
  }

  async #run<T extends Task>(
    task: T,
    stores: PlanUserStores | null,
    withinMs: number,
    heapMb: number,
  ): Promise<Outcome<Results[T['kind']]>> {
    const worker = startThread(import.meta, 'draft-thread', {
      env: { ...process.env, ...compileCacheVariables() },
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    const { promise, resolve, reject } = Promise.withResolvers<Outcome<Results[T['kind']]>>();
    const isOver = new AbortController();
    const tooCostly = (why: string) => {
      const message = `The draft was not ${task.kind === 'simulate' ? 'simulated' : 'checked'}: ${why}. Make it smaller, or use \`tollgate plans ${task.kind === 'sound' ? 'check' : task.kind}\`.`;
      resolve({ refusal: { code: 'too_costly', message } });
    };
    const timer = setTimeout(() => tooCostly(`that takes longer than ${withinMs / 1_000} s`), withinMs).unref();
    worker.unref();
    worker.on('message', (message: FromThread) => {
      if (message.kind === 'done') resolve({ result: message.result as Results[T['kind']] });
      else if (message.kind === 'refused') resolve({ refusal: message.refusal });
      else this.#answer(message, { worker, stores, isOver: isOver.signal }).catch(reject);
    });
    worker.on('error', (error: Error & { code?: string }) => {
      if (error.code === 'ERR_WORKER_OUT_OF_MEMORY') tooCostly(`that takes more than ${heapMb} MB of memory`);
      else reject(error);
    });
    worker.on('exit', () => reject(new Error('the thread ended without a result')));
    try {
      await hand(task, worker);
      return await promise;
    } finally {
      clearTimeout(timer);
      isOver.abort();
      await worker.terminate();
    }
  }

  async #answer(
    question: Question,
    { worker, stores, isOver }: { worker: Worker; stores: PlanUserStores | null; isOver: AbortSignal },
  ): Promise<void> {
    const post = (message: ToThread) => worker.postMessage(message);
    if (question.about === 'live') {
      return post({ kind: 'live', live: await this.#count(stores!, question.reaches, isOver) });
    }
    const { recent } = this.#options;
    if (recent === null) return post({ kind: 'recent', kept: null });
    const record = await recent();
    const kept = await record.read((requests) => {
      if (!isOver.aborted) post({ kind: 'requests', requests });
      return !isOver.aborted;
    });
    if (kept !== null) post({ kind: 'recent', kept });
  }

  /** Counts the live keys by plan, and lets the gateway serve in between. A store that is away is no fault of the draft. */
  async #count(stores: PlanUserStores, reaches: Reaches, isOver: AbortSignal): Promise<LiveCount> {
    const { nowMs, monotonicMs } = this.#options;
    const untilMs = monotonicMs() + this.#bounds.countMs;
    let keysRead = 0;
    let isComplete = true;
    const onPage = async (read: number) => {
      keysRead = read;
      await nextTurn();
      isComplete = monotonicMs() < untilMs && !isOver.aborted;
      return isComplete;
    };
    const reached = new ReachedCallers(reaches);
    const onUser = reached.add.bind(reached);
    try {
      const { byPlan, unreadable } = await countLiveKeys(stores, nowMs(), { page: PAGE, onPage, onUser });
      return { byPlan, unreadable, reached: reached.byPlan, keysRead, isComplete };
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== 'store_unavailable') throw error;
      return { byPlan: new Map(), unreadable: [], reached: new Map(), keysRead, isComplete: false };
    }
  }
}

/** Sends a task to its thread: plans in slices between which requests are served, since there may be ten thousand. */
async function hand(task: Task, worker: Worker): Promise<void> {
  const post = (message: ToThread, moved: ArrayBuffer[] = []) => worker.postMessage(message, moved);
  let sent: Task = task;
  if ('inForce' in task) {
    const plans = [...task.inForce.plans.values()];
    for (let from = 0; from < plans.length; from += STEPS_PER_SLICE) {
      post({ kind: 'plans', plans: plans.slice(from, from + STEPS_PER_SLICE) });
      await nextTurn();
    }
    sent = { ...task, inForce: { ...task.inForce, plans: new Map() } };
  }
  const { buffer, byteLength } = task.body;
  // A large body has a buffer of its own and is handed over without a copy. Small ones share a buffer, which must stay.
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  post({ kind: 'task', task: sent }, isWhole ? [buffer] : []);
}

/** Runs work one piece after the other, and refuses it if too much waits. */
class Queue {
  readonly #maxWaiting: number;
  #waiting = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting;
  }

  async run<T>(work: () => Promise<Outcome<T>>): Promise<Outcome<T>> {
    // The piece that runs is counted, too.
    if (this.#waiting > this.#maxWaiting) {
      return { refusal: { code: 'busy', message: 'Too many drafts wait for this gateway already. Retry shortly.' } };
    }
    this.#waiting++;
    const done = this.#last.then(work).finally(() => this.#waiting--);
    this.#last = done.catch(() => {});
    return done;
  }
}
