import type { NearCandidate } from '../../model/refusal.ts';
import { joinedFound } from '../../operations/live/found.ts';
import { refusedCallersOf } from '../../operations/live/refused-callers.ts';
import type {
  DecidedColumns,
  GatewayFacts,
  LiveQuestion,
  LocalAnswer,
  LocalGateway,
  ProcessAnswer,
  ProcessState,
  RequestsSeen,
  TailBatch,
  Traffic,
} from '../../operations/live/shapes.ts';
import { STEP_MS } from '../../operations/live/shapes.ts';
import { latestStepOf, sumOf } from '../../operations/live/traffic.ts';

/** A worker, as the collection of what it has seen needs it. */
interface SeeingWorker {
  readonly state: 'starting' | 'serving' | 'leaving';
  askLive(about: LiveQuestion, withinMs: number): Promise<ProcessAnswer | null>;
  ask(question: 'decidedColumns', withinMs: number): Promise<DecidedColumns | null>;
}

/**
 * What all workers report of their requests. The traffic of a worker that has ended stays in the sums, as it was when the
 * worker answered last; its refusals are gone.
 */
export class WorkersAsOne implements LocalGateway {
  readonly #running: ReadonlySet<SeeingWorker>;
  readonly #withinMs: number;
  readonly #factsOf: (state: ProcessState) => Promise<GatewayFacts>;
  readonly #lastTraffic = new Map<SeeingWorker, Traffic>();
  #trafficOfEnded: Traffic;

  /**
   * @param running the live set of running workers
   * @param withinMs how long a worker's answer is waited for
   * @param wallMs Unix milliseconds
   */
  constructor(
    running: ReadonlySet<SeeingWorker>,
    withinMs: number,
    factsOf: (state: ProcessState) => Promise<GatewayFacts>,
    wallMs: () => number,
  ) {
    this.#running = running;
    this.#withinMs = withinMs;
    this.#factsOf = factsOf;
    this.#trafficOfEnded = sumOf([], Math.floor(wallMs() / STEP_MS));
  }

  async ask(question: LiveQuestion): Promise<LocalAnswer> {
    const answers: ProcessAnswer[] = [];
    await Promise.all(
      this.#serving.map(async (worker) => {
        const answer = await worker.askLive(question, this.#withinMs);
        if (answer === null) return;
        this.#lastTraffic.set(worker, answer.seen.traffic);
        answers.push(answer);
      }),
    );
    const facts = await this.#factsOf(joinedState(answers.map(({ state }) => state)));
    const seen = answers.map((answer) => answer.seen);
    return { facts, seen: { ...joinedSeen(question.queries, seen), traffic: this.#traffic() } };
  }

  decidedColumns(): Promise<readonly (DecidedColumns | null)[]> {
    return Promise.all(this.#serving.map((worker) => worker.ask('decidedColumns', this.#withinMs)));
  }

  get #serving(): readonly SeeingWorker[] {
    return [...this.#running].filter(({ state }) => state !== 'starting');
  }

  #traffic(): Traffic {
    const all = [this.#trafficOfEnded, ...this.#lastTraffic.values()];
    const latest = latestStepOf(all);
    for (const [worker, traffic] of this.#lastTraffic) {
      if (this.#running.has(worker)) continue;
      this.#lastTraffic.delete(worker);
      this.#trafficOfEnded = sumOf([this.#trafficOfEnded, traffic], latest);
    }
    return sumOf(all, latest);
  }
}

/** An upstream has a usable target only where every worker could use it, so that trouble is seen. */
function joinedState(states: readonly ProcessState[]): ProcessState {
  const sum = (of: (state: ProcessState) => number) => states.reduce((total, state) => total + of(state), 0);
  const names = new Set(states.flatMap(({ upstreams }) => upstreams.map(({ name }) => name)));
  const upstreams = [...names].map((name) => {
    const all = states.flatMap((state) => state.upstreams.filter((one) => one.name === name));
    const targets = all[0]!.targets.map((target) => {
      const same = all.flatMap((one) => one.targets.filter((other) => other.name === target.name));
      return { ...target, usable: same.every(({ usable }) => usable) };
    });
    return { name, inFlight: all.reduce((total, { inFlight }) => total + inFlight, 0), targets };
  });
  const expiries = states.flatMap(({ certificateExpiresAtMs }) => certificateExpiresAtMs ?? []);
  return {
    certificateExpiresAtMs: expiries.length === 0 ? null : Math.min(...expiries),
    connections: sum(({ connections }) => connections),
    inFlight: sum(({ inFlight }) => inFlight),
    callsWithoutNetwork: sum(({ callsWithoutNetwork }) => callsWithoutNetwork),
    cache: states.every(({ cache }) => cache === null)
      ? null
      : {
          bytes: sum(({ cache }) => cache?.bytes ?? 0),
          hits: sum(({ cache }) => cache?.hits ?? 0),
          misses: sum(({ cache }) => cache?.misses ?? 0),
        },
    upstreams,
  };
}

function joinedSeen(queries: LiveQuestion['queries'], all: readonly RequestsSeen[]): Omit<RequestsSeen, 'traffic'> {
  const near = new Map<string, NearCandidate>();
  for (const one of all.flatMap((seen) => seen.near)) {
    const known = near.get(one.id);
    if (known === undefined || known.atMs < one.atMs) near.set(one.id, one);
  }
  const tails = Map.groupBy(
    all.flatMap((seen) => seen.tails),
    ({ id }) => id,
  );
  const joinedTails = [...tails].map(([id, batches]): TailBatch => {
    const requests = batches.flatMap((batch) => batch.requests).sort((a, b) => (a.at < b.at ? -1 : 1));
    return { id, requests, skipped: batches.reduce((total, { skipped }) => total + skipped, 0) };
  });
  return {
    refused: refusedCallersOf(all.map((seen) => seen.refused)),
    near: [...near.values()].sort((a, b) => a.share - b.share),
    found: queries.map((_, i) => joinedFound(all.flatMap((seen) => seen.found[i] ?? []))),
    tails: joinedTails,
  };
}
