import type { Allowance } from '../../../src/admit/allowance.ts';
import { SimulatedGateway } from './gateway.ts';
import { type History, LONGEST_MS, type Step } from './history.ts';
import { Judge } from './judge.ts';
import { GOOD_LINK, type LinkMode } from './link.ts';
import { TICKET_MS } from './redis-model.ts';
import { RedisServer } from './redis-server.ts';
import { VirtualTime } from './virtual-time.ts';

export interface Played {
  /** The bound that broke, as a sentence; null if all held. */
  readonly broken: string | null;
  /** After how many steps it broke; the number of all steps if it broke at the end. */
  readonly steps: number;
  /** The number of requests by who answered them. */
  readonly answers: Readonly<Record<'store' | 'lease' | 'memory' | 'local', number>>;
}

/** How long everything is well at the end, so that each gateway settles what it owes. */
const REST_MS = 4_000;

/**
 * Plays a history and judges it after each callback. While it plays, the timers and clocks of this process are virtual, so
 * nothing else may run in the process. The same history always gives the same result.
 */
export async function play(history: History): Promise<Played> {
  const time = new VirtualTime(() => fleet.judge.check());
  time.install();
  const fleet = new Fleet(history, time);
  try {
    for (const [i, step] of history.steps.entries()) {
      await fleet.play(step);
      if (fleet.judge.broken !== null) return played(fleet, i + 1);
    }
    await fleet.rest();
    return played(fleet, history.steps.length);
  } finally {
    time.restore();
  }
}

function played({ judge }: Fleet, steps: number): Played {
  return { broken: judge.broken, steps, answers: judge.answers };
}

class Fleet {
  readonly judge: Judge;
  readonly #history: History;
  readonly #time: VirtualTime;
  readonly #server: RedisServer;
  readonly #gateways: SimulatedGateway[];
  readonly #starts = new Map<number, number>();

  constructor(history: History, time: VirtualTime) {
    this.#history = history;
    this.#time = time;
    this.#server = new RedisServer(history.startsAtMs - time.nowMs);
    this.judge = new Judge(this.#server);
    this.#gateways = history.wallOffsetsMs.map((wallOffsetMs, i) => this.#start(i, wallOffsetMs, history.plans[0]!));
  }

  async play(step: Step): Promise<void> {
    switch (step.kind) {
      case 'ask': {
        const gateway = this.#gateways[step.gateway]!;
        for (let i = 0; i < step.n; i++) gateway.ask(this.#consumerId(step.consumer), step.cost, step);
        if (step.isSameTurn) return;
        break;
      }
      case 'burst':
        this.#burst(step);
        break;
      case 'pass':
        return this.#time.pass(step.ms);
      case 'link':
        this.#gateways[step.gateway]!.link.mode = step.mode;
        this.judge.faulty(this.#gateways[step.gateway]!.name, isFaulty(step.mode) ? Number.POSITIVE_INFINITY : 0);
        break;
      case 'cut':
        this.#cut(this.#gateways[step.gateway]!, step.arrives, step.forMs);
        break;
      case 'server':
        this.#server.become(step.mode);
        this.#judgeServer();
        break;
      case 'replace':
        for (const gateway of this.#gateways) this.#cut(gateway, false, step.forMs);
        this.#server.replace(step.lost);
        this.#judgeServer();
        this.#server.clockOffsetMs += step.clockMs;
        if (step.lost > 0 || step.clockMs !== 0) this.judge.storeDisturbed();
        break;
      case 'clock':
        this.#server.clockOffsetMs += step.ms;
        this.judge.storeDisturbed();
        break;
      case 'own clock':
        this.#gateways[step.gateway]!.wallOffsetMs += step.ms;
        break;
      case 'kill': {
        const { name, plan } = this.#gateways[step.gateway]!;
        this.#gateways[step.gateway]!.kill();
        this.judge.killed(name);
        this.#gateways[step.gateway] = this.#start(step.gateway, step.wallOffsetMs, plan);
        break;
      }
      case 'reload':
        this.#gateways[step.gateway]!.plan = this.#history.plans[step.plan]!;
        this.judge.reloaded(new Set(this.#gateways.map(({ plan }) => plan)).size > 1);
        break;
      case 'lift':
        this.#lift(this.#consumerId(step.consumer), step.heardAfterMs);
        break;
    }
    await this.#time.turn();
  }

  /** Everything is well again for as long as gateways need to settle what they owe. */
  async rest(): Promise<void> {
    this.#server.become('well');
    this.#judgeServer();
    for (const { link } of this.#gateways) {
      link.mode = GOOD_LINK;
      link.connect();
    }
    await this.#time.pass(REST_MS);
    if (this.judge.broken === null) this.judge.end();
    if (!this.#history.plans.some(({ boundsInFlight, units }) => boundsInFlight || units !== undefined)) return;
    await this.#time.pass(LONGEST_MS + TICKET_MS);
    this.judge.check();
    this.judge.endOfUnits();
  }

  #consumerId(consumer: number): string {
    const { customers } = this.#history;
    return customers === undefined ? `c${consumer}` : `cus_${consumer % customers}/c${consumer}`;
  }

  #start(gateway: number, wallOffsetMs: number, plan: Allowance): SimulatedGateway {
    this.#time.wallOffsetMs = wallOffsetMs;
    const starts = this.#starts.get(gateway) ?? 0;
    this.#starts.set(gateway, starts + 1);
    const name = `${gateway}${starts === 0 ? '' : String.fromCharCode(97 + starts)}`;
    return new SimulatedGateway(name, this.#server, this.judge, { plan, wallOffsetMs });
  }

  #burst({ gateways, consumer, cost, n, everyMs, times }: Extract<Step, { kind: 'burst' }>): void {
    const consumerId = this.#consumerId(consumer);
    const askSome = (gateway: number, left: number) => {
      for (let i = 0; i < n; i++) this.#gateways[gateway]!.ask(consumerId, cost, { waitedMs: 0 });
      if (left > 1) setTimeout(() => askSome(gateway, left - 1), everyMs);
    };
    // Gateways do not count in step.
    for (const gateway of gateways) setTimeout(() => askSome(gateway, times), gateway);
  }

  /** While the server is not well, neither is any link. */
  #judgeServer(): void {
    for (const { name, link } of this.#gateways) {
      const isWell = this.#server.mode === 'well' && !isFaulty(link.mode);
      this.judge.faulty(name, isWell ? 0 : Number.POSITIVE_INFINITY);
    }
  }

  #cut({ link, name }: SimulatedGateway, arrives: boolean, forMs: number): void {
    this.judge.faulty(name, Math.max(forMs, 1));
    link.cut(arrives);
    setTimeout(() => link.connect(), forMs);
  }

  /** Lifts the ban of a consumer, or else that of its customer. */
  #lift(consumerId: string, heardAfterMs: number): void {
    const [customerId] = consumerId.split('/') as [string];
    const accountId = [consumerId, customerId].find((id) => this.#server.model.lift(id));
    if (accountId === undefined) return;
    const gateways = [...this.#gateways];
    this.judge.lifted(
      accountId,
      gateways.map(({ name }) => name),
    );
    for (const gateway of gateways) {
      setTimeout(() => {
        gateway.forget();
        this.judge.liftAnnounced(gateway.name, accountId);
      }, heardAfterMs);
    }
  }
}

/** Whether messages of a link may be lost, or come so late that what is returned of a lease is not waited for. */
function isFaulty({ thereMs, backMs, loses }: LinkMode): boolean {
  return loses !== 'nothing' || thereMs + backMs > SLOW_MS;
}

const SLOW_MS = 60;
