import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FairShares, type FairSharesOptions, type Share } from '../../src/io/fair-shares.ts';

const CONSUMERS = ['a', 'b', 'c', 'd'] as const;

interface Sent {
  readonly consumer: string;
  readonly share: Share<Sent>;
  stage: 'reserved' | 'paused' | 'waiting' | 'running' | 'over';
}

/** The same rules, written down with lists that are searched from end to end. */
class Model {
  readonly sent: Sent[] = [];
  /** In the order in which they came. */
  queue: Sent[] = [];
  /** The consumers that may have the next connection, in their order. */
  line: string[] = [];
  readonly maxRunning: number;
  readonly maxReserved: number;
  readonly #options: FairSharesOptions;

  constructor(options: FairSharesOptions) {
    const { maxConnections, maxQueue, fairShare } = options;
    this.#options = options;
    this.maxRunning = Math.max(1, Math.floor(maxConnections * fairShare));
    const maxWaiting = maxQueue === 0 ? 0 : Math.max(1, Math.floor(maxQueue * fairShare));
    this.maxReserved = fairShare === 1 ? Number.POSITIVE_INFINITY : this.maxRunning + maxWaiting;
  }

  running(consumer: string | null = null): number {
    return this.#count('running', consumer);
  }

  reserved(consumer: string): number {
    return this.sent.filter((it) => it.consumer === consumer && it.stage !== 'over').length;
  }

  mayReserve(consumer: string): boolean {
    return this.reserved(consumer) < this.#most(consumer);
  }

  hasPlace(consumer: string): boolean {
    const isWithin = this.reserved(consumer) - this.#count('paused', consumer) <= this.#most(consumer);
    return isWithin && (this.mayTake(consumer) || this.mayQueue());
  }

  #most(consumer: string): number {
    const { maxConnections, maxQueue, fairShare } = this.#options;
    if (fairShare === 1) return Number.POSITIVE_INFINITY;
    const placed = this.sent.filter(({ stage }) => stage !== 'over' && stage !== 'paused');
    const others = placed.filter((it) => it.consumer !== consumer).length;
    const ofRest = Math.ceil((maxConnections + maxQueue - others) * Math.max(fairShare, 0.5));
    return Math.min(this.maxReserved, Math.max(1, ofRest));
  }

  mayTake(consumer: string): boolean {
    return this.running() < this.#options.maxConnections && this.running(consumer) < this.maxRunning;
  }

  mayQueue(): boolean {
    return this.queue.length < this.#options.maxQueue;
  }

  next(): Sent | null {
    if (this.running() >= this.#options.maxConnections) return null;
    return this.queue.find(({ consumer }) => consumer === this.line[0]) ?? null;
  }

  /** Who may not have a connection leaves the line; who may and stands not in it comes to its end. */
  settle(): void {
    const may = (consumer: string) =>
      this.queue.some((it) => it.consumer === consumer) && this.running(consumer) < this.maxRunning;
    this.line = this.line.filter(may);
    this.line.push(...CONSUMERS.filter((consumer) => may(consumer) && !this.line.includes(consumer)));
  }

  #count(stage: Sent['stage'], consumer: string | null): number {
    return this.sent.filter((it) => it.stage === stage && (consumer === null || it.consumer === consumer)).length;
  }
}

type Step =
  | { readonly kind: 'reserve' | 'send'; readonly consumer: string }
  /** `at` chooses the request among those that can do the step. */
  | { readonly kind: keyof typeof STAGE_OF; readonly at: number };

/** More requests come than go, so that connections and queue are full most of the time. */
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom('send' as const, 'send' as const, 'reserve' as const),
      consumer: fc.constantFrom(...CONSUMERS),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        ...(['give back', 'give back', 'give back', 'enter', 'enter'] as const),
        ...(['withdraw', 'release', 'pause', 'resume'] as const),
      ),
      at: fc.nat(1_000),
    }),
  },
) as fc.Arbitrary<Step>;

const options: fc.Arbitrary<FairSharesOptions> = fc.record({
  maxConnections: fc.integer({ min: 1, max: 6 }),
  maxQueue: fc.integer({ min: 0, max: 20 }),
  fairShare: fc.constantFrom(0.01, 0.25, 0.5, 0.75, 1),
});

const STAGE_OF = {
  enter: 'reserved',
  pause: 'reserved',
  resume: 'paused',
  withdraw: 'waiting',
  'give back': 'running',
  release: 'reserved',
} as const;

describe('the shares of an upstream', () => {
  test('are what a simple model says, whatever requests come, wait, leave and end', () => {
    fc.assert(
      fc.property(options, fc.array(step, { maxLength: 150, size: 'max' }), (given, steps) => {
        const shares = new FairShares<Sent>(given);
        const model = new Model(given);
        for (const it of steps) take(it, shares, model);
        // All that is left ends in some way or other, and nothing is held any more.
        for (const sent of model.sent) end(sent, shares, model);
        expect(shares.inFlight).toBe(0);
        for (const consumer of CONSUMERS) {
          const lone = Math.ceil((given.maxConnections + given.maxQueue) * Math.max(given.fairShare, 0.5));
          const most = given.fairShare === 1 ? 50 : Math.min(model.maxReserved, Math.max(1, lone));
          const all = Array.from({ length: most }, () => shares.takePlace(consumer));
          expect(all).not.toContain(null);
          if (given.fairShare < 1) expect(shares.takePlace(consumer)).toBeNull();
          for (const share of all) share!.release();
        }
      }),
      { numRuns: 300, seed: 20261201 },
    );
  });

  test('are kept for consumers that come again, and forgotten with those that do not', () => {
    const shares = new FairShares<object>({ maxConnections: 100, maxQueue: 100, fairShare: 0.25 });
    const held = shares.takePlace('stays')!;
    const connected = shares.takePlace('connected')!;
    expect(shares.take(connected)).toBe(true);
    // Its reservation ends before its connection is given back.
    connected.release();
    for (let i = 0; i < 100_000; i++) shares.takePlace(`key_${i}`)!.release();
    expect(shares.size).toBeLessThan(5_000);
    expect(shares.takePlace('stays')).toBe(held);
    expect(shares.takePlace('connected')).toBe(connected);
    const again = shares.takePlace('key_99999')!;
    again.release();
    expect(shares.takePlace('key_99999')).toBe(again);
  });

  test.each([
    [{ maxConnections: 256, maxQueue: 1_024, fairShare: 0.25 }, 64 + 256],
    [{ maxConnections: 1, maxQueue: 1, fairShare: 0.25 }, 1],
    [{ maxConnections: 1, maxQueue: 20, fairShare: 0.5 }, 1 + 10],
    [{ maxConnections: 8, maxQueue: 8, fairShare: 0.75 }, 6 + 6],
    [{ maxConnections: 8, maxQueue: 0, fairShare: 0.25 }, 2],
  ])('%j: one consumer has at most %i requests in flight', (given, most) => {
    const shares = new FairShares<object>(given);
    for (let i = 0; i < most; i++) expect(shares.takePlace('a')).not.toBeNull();
    expect(shares.takePlace('a')).toBeNull();
    expect(shares.takePlace('b')).not.toBeNull();
  });

  test('leave room in the queue for one more consumer while eight use all that they may (reliability 360)', () => {
    const shares = new FairShares<object>({ maxConnections: 256, maxQueue: 1_024, fairShare: 0.25 });
    const send = (consumerId: string) => {
      const share = shares.takePlace(consumerId);
      return share !== null && (shares.take(share) || shares.queue(share, {}));
    };
    const sentBy = (consumerId: string) => {
      let count = 0;
      while (send(consumerId)) count++;
      return count;
    };
    expect(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map(sentBy)).toEqual([320, 320, 320, 160, 80, 40, 20, 10]);
    expect(send('newcomer')).toBe(true);
  });
});

function take(it: Step, shares: FairShares<Sent>, model: Model): void {
  if ('consumer' in it) {
    const mayReserve = model.mayReserve(it.consumer);
    const share = shares.takePlace(it.consumer);
    expect(share !== null).toBe(mayReserve);
    if (share === null) return;
    const sent: Sent = { consumer: it.consumer, share, stage: 'reserved' };
    model.sent.push(sent);
    if (it.kind === 'send') enter(sent, shares, model);
    return;
  }
  const able = model.sent.filter(({ stage }) => stage === STAGE_OF[it.kind]);
  const sent = able[it.at % Math.max(able.length, 1)];
  if (sent === undefined) return;
  if (it.kind === 'enter') enter(sent, shares, model);
  else if (it.kind === 'pause' || it.kind === 'resume') {
    sent.share[it.kind]();
    sent.stage = it.kind === 'pause' ? 'paused' : 'reserved';
    expect(shares.hasPlace(sent.share)).toBe(model.hasPlace(sent.consumer));
  } else end(sent, shares, model);
  expect(shares.inFlight).toBe(model.running() + model.queue.length);
}

function enter(sent: Sent, shares: FairShares<Sent>, model: Model): void {
  expect(shares.hasPlace(sent.share)).toBe(model.hasPlace(sent.consumer));
  const taken = shares.take(sent.share);
  expect(taken).toBe(model.mayTake(sent.consumer));
  if (taken) sent.stage = 'running';
  else {
    const queued = shares.queue(sent.share, sent);
    expect(queued).toBe(model.mayQueue());
    if (!queued) return;
    sent.stage = 'waiting';
    model.queue.push(sent);
  }
  model.settle();
}

/** Ends a request where it is, and gives what becomes free to those that wait. */
function end(sent: Sent, shares: FairShares<Sent>, model: Model): void {
  const { stage } = sent;
  if (stage === 'over') return;
  sent.stage = 'over';
  // Of no consequence where it does not wait.
  shares.withdraw(sent.share, sent);
  model.queue = model.queue.filter((it) => it !== sent);
  if (stage === 'running') shares.release(sent.share);
  if (stage === 'paused') sent.share.resume();
  sent.share.release();
  model.settle();
  for (;;) {
    const expected = model.next();
    const next = shares.takeForNext();
    expect(next).toBe(expected);
    if (next === null) return;
    next.stage = 'running';
    model.queue = model.queue.filter((it) => it !== next);
    // Behind all others, if it may have another one.
    model.line.shift();
    model.settle();
  }
}
