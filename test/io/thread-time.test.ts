import { describe, expect, test } from 'vitest';
import { type ConsumerTime, type LargestPart, ThreadTime } from '../../src/io/thread-time.ts';

// The clock stands still but for the work that is done, and for the pauses of a thread without work.

const POLL_MS = 0.01;

/** A thread that reads all that has arrived, then does what was put off, and begins again. */
function simulated() {
  let nowMs = 1_000;
  let putOff: (() => void)[] = [];
  const reported: LargestPart[] = [];
  const thread = new ThreadTime({
    monotonicMs: () => nowMs,
    afterReading: (work) => putOff.push(work),
    onLargest: (largest) => reported.push(largest),
  });
  const clients: Client[] = [];
  const runFor = (ms: number) => {
    const untilMs = nowMs + ms;
    while (nowMs < untilMs) {
      nowMs += POLL_MS;
      for (const client of clients) client.arrive(nowMs);
      const due = putOff;
      putOff = [];
      for (const work of due) work();
    }
  };
  /** @param connections each of which sends its next request `pauseMs` after an answer */
  const client = (id: string, connections: number, costMs: number, pauseMs = 0): Client => {
    const made = new Client(id, connections, pauseMs, (turn) => {
      const time = thread.of(id);
      const work = (isLate: boolean) => {
        nowMs += isLate ? 0.01 : costMs;
        turn(isLate, nowMs);
      };
      if (thread.mustWait(time)) thread.wait(time, work);
      else thread.measure(time, work);
    });
    clients.push(made);
    return made;
  };
  return { thread, client, runFor, reported, now: () => nowMs, pause: (ms: number) => (nowMs += ms) };
}

type Answered = (isLate: boolean, nowMs: number) => void;

class Client {
  readonly id: string;
  served = 0;
  late = 0;
  longestMs = 0;
  readonly #nextAtMs: number[];
  readonly #pauseMs: number;
  readonly #send: (answered: Answered) => void;

  constructor(id: string, connections: number, pauseMs: number, send: (answered: Answered) => void) {
    this.id = id;
    this.#nextAtMs = Array.from({ length: connections }, () => 0);
    this.#pauseMs = pauseMs;
    this.#send = send;
  }

  arrive(nowMs: number): void {
    for (let i = 0; i < this.#nextAtMs.length; i++) {
      if (this.#nextAtMs[i]! > nowMs) continue;
      const sentAtMs = Math.max(this.#nextAtMs[i]!, nowMs - 1);
      this.#nextAtMs[i] = Number.POSITIVE_INFINITY;
      this.#send((isLate, atMs) => {
        if (isLate) this.late++;
        else this.served++;
        this.longestMs = Math.max(this.longestMs, atMs - sentAtMs);
        this.#nextAtMs[i] = atMs + this.#pauseMs;
      });
    }
  }
}

/** What each client has of the thread from now on, from 0 to 1. */
function parts(
  { runFor, now }: ReturnType<typeof simulated>,
  ms: number,
  costs: ReadonlyMap<Client, number>,
): number[] {
  const before = [...costs.keys()].map(({ served }) => served);
  const fromMs = now();
  runFor(ms);
  return [...costs].map(([{ served }, cost], i) => ((served - before[i]!) * cost) / (now() - fromMs));
}

describe('a consumer that is alone (reliability 216)', () => {
  test('has the whole thread and never waits, on however many connections', () => {
    const world = simulated();
    const only = world.client('only', 500, 0.05);
    world.runFor(3_000);
    expect(world.thread.waited).toBe(0);
    expect(only.served * 0.05).toBeGreaterThan(2_900);
  });

  test('also if another one was there before it, but not lately', () => {
    const world = simulated();
    world.thread.spent(world.thread.of('other'), 1, world.now());
    world.pause(11_000);
    world.client('only', 64, 0.05);
    world.runFor(1_000);
    expect(world.thread.waited).toBe(0);
  });

  test('also after a pause in which it was forgotten', () => {
    const world = simulated();
    world.client('only', 64, 0.05);
    world.runFor(1_000);
    world.pause(1_000);
    world.thread.look();
    world.thread.look();
    expect(world.thread.size).toBe(0);
    world.runFor(1_000);
    expect(world.thread.waited).toBe(0);
  });

  test('has what the others leave', () => {
    const world = simulated();
    const hog = world.client('hog', 64, 0.05);
    const calm = world.client('calm', 1, 0.05, 10);
    world.runFor(500);
    const [ofHog = 0, ofCalm = 0] = parts(
      world,
      3_000,
      new Map([
        [hog, 0.05],
        [calm, 0.05],
      ]),
    );
    // What is missing is the time to read.
    expect(ofHog + ofCalm).toBeGreaterThan(0.97);
    expect(ofHog).toBeGreaterThan(0.96);
    expect(hog.late).toBe(0);
  });
});

describe('a calm consumer beside one that sends all it can (reliability 216)', () => {
  test.each([
    ['refusals from memory', 64, 0.02],
    ['usual requests', 500, 0.05],
    ['dear requests', 64, 0.5],
  ])('waits for a turn of the line and not for all connections: %s', (_, connections, costMs) => {
    const world = simulated();
    const hog = world.client('hog', connections, costMs);
    const calm = world.client('calm', 1, 0.05, 5);
    // Until the first change of consumers the hog is alone.
    world.runFor(500);
    calm.longestMs = 0;
    world.runFor(3_000);
    expect(calm.served).toBeGreaterThan(400);
    // Half a millisecond of the line, one request beyond it, its own, and reading.
    expect(calm.longestMs).toBeLessThan(0.5 + 2 * costMs + 0.2);
    expect(hog.longestMs).toBeGreaterThan(calm.longestMs);
  });

  test('also if it is seldom there', () => {
    const world = simulated();
    world.client('hog', 500, 0.05);
    const calm = world.client('calm', 1, 0.05, 3_000);
    world.runFor(500);
    calm.longestMs = 0;
    world.runFor(20_000);
    expect(calm.longestMs).toBeLessThan(1);
  });
});

describe('consumers that all send all they can (reliability 216)', () => {
  test.each([2, 3, 10])(
    '%i have equal parts, whatever their requests cost and however many connections they have',
    (count) => {
      const world = simulated();
      const costs = new Map<Client, number>();
      for (let i = 0; i < count; i++) {
        const cost = [0.02, 0.5, 3][i % 3]!;
        costs.set(world.client(`hog ${i}`, 200 / (i + 1), cost), cost);
      }
      const calm = world.client('calm', 1, 0.05, 5);
      world.runFor(500);
      calm.longestMs = 0;
      for (const part of parts(world, 5_000, costs)) {
        expect(part).toBeGreaterThan(0.6 / count);
        expect(part).toBeLessThan(1.5 / count);
      }
      expect(calm.longestMs).toBeLessThan(10);
    },
  );

  test('a thousand small ones are all served, and none is refused', () => {
    const world = simulated();
    const small = Array.from({ length: 1_000 }, (_, i) => world.client(`small ${i}`, 2, 0.05, 20));
    world.runFor(3_000);
    expect(Math.min(...small.map(({ served }) => served))).toBeGreaterThan(20);
    expect(small.filter(({ late }) => late > 0)).toEqual([]);
  });
});

test('work that has waited for a second of other work is late, and only that of the consumer beyond its share (reliability 216)', () => {
  const world = simulated();
  const hog = world.client('hog', 200, 20);
  const calm = world.client('calm', 1, 0.05, 5);
  world.runFor(20_000);
  expect(hog.late).toBeGreaterThan(0);
  expect(hog.served).toBeGreaterThan(500);
  expect(calm.late).toBe(0);
});

test('a thread that stood still makes nobody late', () => {
  const world = simulated();
  const hog = world.client('hog', 64, 0.05);
  world.client('calm', 1, 0.05, 5);
  world.runFor(500);
  world.pause(10_000);
  world.runFor(500);
  expect(hog.late).toBe(0);
});

test('work may wait again within its turn, as the rest of a body does', () => {
  const { thread, runFor } = simulated();
  const one = thread.of('one');
  let pieces = 0;
  const more = () => {
    if (++pieces < 100) thread.wait(one, more);
  };
  thread.wait(one, more);
  runFor(10);
  expect(pieces).toBe(100);
});

test('work that throws keeps no other work from its turn', () => {
  const { thread, runFor } = simulated();
  const done: string[] = [];
  thread.wait(thread.of('one'), () => {
    throw new Error('for this test');
  });
  thread.wait(thread.of('other'), () => void done.push('other'));
  expect(() => runFor(10)).toThrow('for this test');
  runFor(10);
  expect(done).toEqual(['other']);
});

describe('what is measured', () => {
  test('work within other work is charged once, to its own consumer', () => {
    const { thread, pause } = simulated();
    const [outer, inner] = [thread.of('outer'), thread.of('inner')];
    thread.measure(outer, () => {
      pause(3);
      thread.measure(inner, () => pause(2));
    });
    expect([outer.ms, inner.ms, thread.workedMs]).toEqual([3, 2, 5]);
  });

  test('is charged also if the work throws', () => {
    const { thread, pause } = simulated();
    const one = thread.of('one');
    const fails = () =>
      thread.measure(one, () => {
        pause(3);
        throw new Error('for this test');
      });
    expect(fails).toThrow('for this test');
    expect(one.ms).toBe(3);
  });

  test('the largest part, and a consumer is reported that has most while its work waits, once a minute', () => {
    const world = simulated();
    world.thread.of('hog');
    world.client('hog', 64, 0.05);
    world.client('calm', 1, 0.05, 5);
    for (let second = 0; second < 70; second++) {
      world.runFor(1_000);
      world.thread.look();
      expect(world.thread.largestPart).toBeGreaterThan(0.9);
    }
    expect(world.reported.map(({ consumerId }) => consumerId)).toEqual(['hog', 'hog']);
  });

  test('consumers without work are forgotten, and what an older request of theirs still costs is charged all the same', () => {
    const { thread, now, pause } = simulated();
    const old: ConsumerTime = thread.of('one');
    for (let i = 0; i < 10_000; i++) thread.spent(thread.of(`address ${i}`), 0.05, now());
    expect(thread.size).toBe(10_001);
    thread.look();
    pause(1_000);
    thread.look();
    expect(thread.size).toBe(0);
    thread.spent(old, 7, now());
    expect(thread.of('one').ms).toBe(7);
    expect(thread.size).toBe(1);
  });
});

// Attack: uploads that pause until their consumer is forgotten: its old object has had nothing lately, and would always be next.
test('work of a consumer that was forgotten waits as that of the consumer (reliability 217)', () => {
  const { thread } = simulated();
  const old = thread.of('a');
  thread.look();
  expect(old.isForgotten).toBe(true);
  const current = thread.of('a');
  expect(current).not.toBe(old);
  thread.wait(current, () => {});
  expect(thread.mustWait(old)).toBe(true);
  thread.wait(old, () => {});
  expect([current.waiting.length, old.waiting.length]).toEqual([2, 0]);
});
