import { createServer } from 'node:http';
import type { Exchange } from './exchange.ts';
import { HttpClient } from './http-client.ts';
import { type Harm, harmOf, isHarmed, judgeHarm, type Service } from './judge/harm.ts';
import { judge, type Observed } from './judge/judge.ts';
import { Notes } from './judge/notes.ts';
import { outcomeOf } from './judge/verdict.ts';
import { runPart } from './part.ts';
import type { Watcher } from './progress.ts';
import type { ClientKind, Scenario } from './scenario.ts';
import type { Stand } from './stand.ts';
import { Tally } from './tally.ts';

/** One stretch of load: a scenario, or a scenario without its abusers. */
export interface Part {
  readonly scenario: string;
  /** False where the abusers were left out, to compare with. */
  readonly whole: boolean;
  /** Unix milliseconds. */
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly observed: readonly Observed[];
  readonly tally: Tally;
}

export interface ScenarioResult {
  readonly scenario: Scenario;
  readonly parts: readonly Part[];
  /** One for each time that the scenario was compared with itself without abusers. */
  readonly harms: readonly Harm[];
  readonly notes: Notes;
}

export interface RunOptions {
  readonly stand: Stand;
  readonly scenarios: readonly Scenario[];
  readonly watcher: Watcher;
  readonly signal: AbortSignal;
}

/** What a gateway that has just started does slowly is not what is measured. */
const WARM_UP: ClientKind = {
  name: 'warm-up',
  plan: 'roomy',
  standIn: 'business',
  limits: {},
  keys: 1,
  rate: 240,
  refused: 'wait',
  abuser: false,
  credentials: 'key',
  path: '/v1/pets?limit=1',
  cost: 1,
  expect: [200, 429],
};
const WARM_UP_MS = 1_500;

/** Runs scenarios one after the other, those that only wait beside them, and judges each. */
export async function run(options: RunOptions): Promise<readonly ScenarioResult[]> {
  const { scenarios, watcher, signal, stand } = options;
  const http = new HttpClient(stand.origins);
  const failed = new AbortController();
  const runner = new Runner({
    ...options,
    http,
    addresses: await hasAddresses(stand.origins),
    signal: AbortSignal.any([signal, failed.signal]),
  });
  try {
    watcher.begin(expectedMs(scenarios));
    await runner.warmUp();
    const aside = scenarios.filter(({ beside }) => beside).map((scenario) => runner.scenario(scenario, false));
    const inTurn = async () => {
      const results: ScenarioResult[] = [];
      for (const scenario of scenarios.filter(({ beside }) => !beside)) {
        if (!runner.signal.aborted) results.push(await runner.scenario(scenario, true));
      }
      if (aside.length > 0) watcher.waiting();
      return results;
    };
    const all = await Promise.all([inTurn(), Promise.all(aside)]).catch((error) => {
      failed.abort();
      throw error;
    });
    return all.flat();
  } finally {
    watcher.end();
    await http.close();
  }
}

function expectedMs(scenarios: readonly Scenario[]): number {
  const inTurn = scenarios.reduce((sum, it) => (it.beside ? sum : sum + it.duration + (it.without ?? 0)), 0);
  return WARM_UP_MS + Math.max(inTurn, ...scenarios.map((it) => (it.beside ? it.duration : 0)));
}

type RunnerOptions = RunOptions & { readonly http: HttpClient; readonly addresses: boolean };

class Runner {
  readonly signal: AbortSignal;
  readonly #options: RunnerOptions;
  readonly #knownAddresses = new Set<string>();

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.signal = options.signal;
  }

  async warmUp(): Promise<void> {
    const { watcher, stand } = this.#options;
    if (!stand.makesKeys) return;
    const tally = new Tally();
    watcher.part('warm-up', tally, WARM_UP_MS);
    await this.#run([WARM_UP], WARM_UP_MS, (exchange) => tally.add(exchange));
  }

  /** @param watched false where it runs beside others */
  async scenario(scenario: Scenario, watched: boolean): Promise<ScenarioResult> {
    const notes = new Notes();
    const parts: Part[] = [];
    const harms: Harm[] = [];
    await this.#once(scenario, watched, parts, harms);
    // A busy machine may have had a bad moment: only harm that shows again counts.
    if (harms[0] !== undefined && isHarmed(harms[0])) await this.#once(scenario, watched, parts, harms);
    for (const { observed } of parts) judge(observed, notes);
    const last = harms.at(-1);
    if (last !== undefined) judgeHarm(scenario.name, last, notes);
    return { scenario, parts, harms, notes };
  }

  async #once(scenario: Scenario, watched: boolean, parts: Part[], harms: Harm[]): Promise<void> {
    const alone = scenario.without === undefined ? null : await this.#part(scenario, false, scenario.without, watched);
    const whole = await this.#part(scenario, true, scenario.duration, watched);
    parts.push(...(alone === null ? [whole] : [alone, whole]));
    const harm = alone === null ? null : harmOf(serviceOf(scenario, alone), serviceOf(scenario, whole));
    if (harm !== null && !this.signal.aborted) harms.push(harm);
  }

  async #part(scenario: Scenario, whole: boolean, durationMs: number, watched: boolean): Promise<Part> {
    const clients = scenario.clients.filter(
      ({ abuser, cost }) => (whole || !abuser) && (cost === 1 || this.#options.stand.own),
    );
    const tally = new Tally();
    const name = whole ? scenario.name : `${scenario.name} without abusers`;
    if (watched) this.#options.watcher.part(name, tally, durationMs);
    const startedAtMs = Date.now();
    const observed = await this.#run(clients, durationMs, (exchange) => tally.add(exchange));
    return { scenario: scenario.name, whole, startedAtMs, endedAtMs: Date.now(), observed, tally };
  }

  #run(clients: readonly ClientKind[], durationMs: number, onExchange: (exchange: Exchange) => void) {
    const { stand, http, addresses } = this.#options;
    const knownAddresses = this.#knownAddresses;
    return runPart({ stand, http, clients, durationMs, onExchange, signal: this.signal, addresses, knownAddresses });
  }
}

function serviceOf({ clients }: Scenario, { observed }: Part): Service {
  const good = new Set(clients.filter(({ abuser }) => !abuser).map(({ name }) => name));
  const theirs = observed.flatMap(({ exchanges }) => exchanges).filter(({ client }) => good.has(client));
  return {
    latenciesMs: theirs.filter((it) => outcomeOf(it) === 'admitted').map(({ latencyMs }) => latencyMs),
    errors: theirs.filter(({ status }) => status === 0 || status >= 500).length,
  };
}

/** Linux has all of 127.0.0.0/8; other systems have 127.0.0.1, and no other machine can be called from there. */
async function hasAddresses(origins: readonly string[]): Promise<boolean> {
  if (!origins.every((origin) => new URL(origin).hostname === '127.0.0.1')) return false;
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(0, '127.0.0.2', () => server.close(() => resolve(true)));
  });
}
