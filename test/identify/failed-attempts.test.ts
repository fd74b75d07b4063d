import { describe, expect, test } from 'vitest';
import { type AttemptCounter, type Budget, FailedAttempts, networkOf } from '../../src/identify/failed-attempts.ts';
import { MemoryAttemptCounter } from '../../src/identify/memory-attempts.ts';
import { Circuit } from '../../src/stores/redis/circuit.ts';
import type { RedisClient } from '../../src/stores/redis/connection.ts';
import { RedisAttemptCounter } from '../../src/stores/redis/failed-attempts.ts';
import { gatewayOn } from '../stores/redis-connections.ts';
import { holdTime } from '../support/hold-time.ts';
import { privateRedis, redisCommand, testRedis } from '../support/redis.ts';

/** Counts without a clock of its own, and remembers what it was asked. */
class FakeCounter implements AttemptCounter {
  readonly asked: string[] = [];
  readonly forgotten: string[] = [];
  readonly #counts = new Map<string, number>();

  async add(address: string) {
    this.asked.push(address);
    const count = (this.#counts.get(address) ?? 0) + 1;
    this.#counts.set(address, count);
    return { count, endsInMs: 60_000 };
  }

  forget(address: string) {
    this.forgotten.push(address);
    this.#counts.delete(address);
  }
}

function attempts(counter: AttemptCounter, { limit = 3, addresses = 100, timeoutMs = 100 } = {}) {
  const settings = { limit };
  const clock = { monotonicMs: 5_000, wallMs: 1_800_000_000_000 };
  const failed = new FailedAttempts({
    counter,
    limit: () => settings.limit,
    monotonicMs: () => clock.monotonicMs,
    wallMs: () => clock.wallMs,
    addresses,
    timeoutMs,
  });
  return { failed, clock, settings };
}

describe('the budget of an address', () => {
  test('is spent one by one, and what is beyond it is not allowed until its minute ends', async () => {
    const { failed, clock } = attempts(new FakeCounter());
    const resetAtMs = clock.wallMs + 60_000;
    expect(failed.peek('192.0.2.1')).toEqual({ limit: 3, remaining: 3, resetAtMs: clock.wallMs, allowed: true });
    for (const remaining of [2, 1, 0]) {
      expect(await failed.fail('192.0.2.1')).toEqual({ limit: 3, remaining, resetAtMs, allowed: true });
    }
    expect(await failed.fail('192.0.2.1')).toEqual({ limit: 3, remaining: 0, resetAtMs, allowed: false });
    expect(failed.peek('192.0.2.1')).toEqual({ limit: 3, remaining: 0, resetAtMs, allowed: false });
    expect(failed.peek('192.0.2.2').remaining).toBe(3);
  });

  test('once spent is answered from the table without asking the store (reliability 49)', async () => {
    const counter = new FakeCounter();
    const { failed, clock } = attempts(counter);
    for (let i = 0; i < 3; i++) await failed.fail('192.0.2.1');
    for (let i = 0; i < 1_000; i++) expect(failed.fail('192.0.2.1')).not.toBeInstanceOf(Promise);
    expect(counter.asked).toHaveLength(3);
    clock.monotonicMs += 60_000;
    expect(failed.peek('192.0.2.1').remaining).toBe(3);
    await failed.fail('192.0.2.1');
    expect(counter.asked).toHaveLength(4);
  });

  test('does not follow the wall clock when that is set', async () => {
    const { failed, clock } = attempts(new FakeCounter());
    for (let i = 0; i < 4; i++) await failed.fail('192.0.2.1');
    clock.wallMs += 86_400_000;
    expect(failed.peek('192.0.2.1')).toMatchObject({ allowed: false, resetAtMs: clock.wallMs + 60_000 });
  });

  test('ends at one moment in each answer, however the clocks and the answers of the counter tremble (reliability 373)', async () => {
    const counter = new FakeCounter();
    const { failed, clock } = attempts(counter, { limit: 100 });
    const { resetAtMs } = await failed.fail('192.0.2.1');
    counter.add = async () => {
      // The counter has rounded, and its answer took 3 ms.
      const leftMs = Math.round(65_000 - clock.monotonicMs);
      clock.monotonicMs += 3;
      return { count: 2, endsInMs: leftMs };
    };
    for (let i = 0; i < 50; i++) {
      // Whole milliseconds of a wall clock that NTP slows down.
      clock.monotonicMs += 101.7;
      clock.wallMs = Math.floor(1_800_000_000_000 + (clock.monotonicMs - 5_000) * 0.999);
      expect((await failed.fail('192.0.2.1')).resetAtMs).toBe(resetAtMs);
      expect(failed.peek('192.0.2.1').resetAtMs).toBe(resetAtMs);
    }
  });

  test('lasts no longer than a minute where the clock of the counter was set back', async () => {
    const counter: AttemptCounter = { add: async () => ({ count: 4, endsInMs: 43_260_000 }), forget: () => {} };
    const { failed, clock } = attempts(counter);
    expect(await failed.fail('192.0.2.1')).toMatchObject({ allowed: false, resetAtMs: clock.wallMs + 60_000 });
    clock.monotonicMs += 60_000;
    expect(failed.peek('192.0.2.1').allowed).toBe(true);
  });

  test('grows at once with the limit', async () => {
    const { failed, settings } = attempts(new FakeCounter());
    for (let i = 0; i < 4; i++) await failed.fail('192.0.2.1');
    settings.limit = 10;
    expect(await failed.fail('192.0.2.1')).toMatchObject({ limit: 10, allowed: true });
  });

  test('of 0 refuses every failure for a minute and counts none', async () => {
    const counter = new FakeCounter();
    const { failed, clock } = attempts(counter, { limit: 0 });
    expect(await failed.fail('192.0.2.1')).toEqual({
      limit: 0,
      remaining: 0,
      resetAtMs: clock.wallMs + 60_000,
      allowed: false,
    });
    expect(failed.peek('192.0.2.1').allowed).toBe(false);
    expect(counter.asked).toEqual([]);
  });

  test('is counted in the table where nothing else counts', async () => {
    const counter: AttemptCounter = { add: () => Promise.reject(new Error('broken')), forget: () => {} };
    const { failed } = attempts(counter);
    const allowed: boolean[] = [];
    for (let i = 0; i < 4; i++) allowed.push((await failed.fail('192.0.2.1')).allowed);
    expect(allowed).toEqual([true, true, true, false]);
  });

  test('is counted in the table when the request has waited for the store as long as it may', async () => {
    const counter: AttemptCounter = { add: () => new Promise(() => {}), forget: () => {} };
    const { failed } = attempts(counter, { timeoutMs: 100 });
    const pass = holdTime();
    let budget: Budget | undefined;
    void Promise.resolve(failed.fail('192.0.2.1', 60)).then((counted) => {
      budget = counted;
    });
    await pass(38);
    expect(budget).toBeUndefined();
    await pass(2);
    expect(budget).toMatchObject({ remaining: 2, allowed: true });
  });

  test('takes memory for a bounded number of addresses, also behind the table (reliability 49, 50)', async () => {
    const counter = new FakeCounter();
    const { failed } = attempts(counter, { addresses: 10 });
    for (let i = 0; i < 1_000; i++) await failed.fail(`198.51.${i >> 8}.${i & 255}`);
    expect(counter.forgotten).toHaveLength(990);
  });
});

describe('whose budget an address is', () => {
  test.each([
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:c000:201', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['', 'unknown'],
    ['no address', 'unknown'],
  ])('%j counts as %j', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });

  test('is one for all of a /64, and another for the next', async () => {
    const { failed } = attempts(new FakeCounter());
    for (let i = 0; i < 4; i++) await failed.fail(`2001:db8::${i + 1}`);
    expect(failed.peek('2001:db8::ffff').allowed).toBe(false);
    expect(failed.peek('2001:db8:0:1::1').allowed).toBe(true);
  });
});

describe('counting', () => {
  test('in memory opens a minute with the first failure', async () => {
    const counter = new MemoryAttemptCounter();
    expect(await counter.add('a')).toEqual({ count: 1, endsInMs: 60_000 });
    const second = await counter.add('a');
    expect(second.count).toBe(2);
    expect(second.endsInMs).toBeLessThanOrEqual(60_000);
    expect(await counter.add('b')).toMatchObject({ count: 1 });
    counter.forget('a');
    expect(await counter.add('a')).toMatchObject({ count: 1 });
  });

  test('in Redis is shared by all gateways, and leaves nothing behind that does not expire', async () => {
    const { url } = await testRedis();
    const [one, other] = (await Promise.all([gatewayOn(url), gatewayOn(url)])).map(
      (gateway) => new RedisAttemptCounter(gateway),
    );
    expect(await one!.add('192.0.2.1')).toMatchObject({ count: 1 });
    const second = await other!.add('192.0.2.1');
    expect(second.count).toBe(2);
    expect(second.endsInMs).toBeGreaterThan(50_000);
    expect(second.endsInMs).toBeLessThanOrEqual(60_000);
    expect(await redisCommand(url, 'PTTL', 'tg:fail:192.0.2.1')).toBeGreaterThan(0);
  });

  // As PEXPIRE leaves it, so does a clock that is set back by 12 h.
  test('in Redis lasts no longer than a minute from then on where its clock was set back', async () => {
    const { url } = await testRedis();
    const counter = new RedisAttemptCounter(await gatewayOn(url));
    await counter.add('192.0.2.9');
    await redisCommand(url, 'PEXPIRE', 'tg:fail:192.0.2.9', '43260000');
    expect(await counter.add('192.0.2.9')).toMatchObject({ count: 2 });
    expect(await redisCommand(url, 'PTTL', 'tg:fail:192.0.2.9')).toBeLessThanOrEqual(60_000);
  });

  test('in Redis whose clock was set back takes one deadline in all (reliability 491)', async () => {
    const calls: string[] = [];
    const slow = (name: string, ms: number, value: unknown) => () => {
      calls.push(name);
      return new Promise((resolve) => setTimeout(resolve, ms, value));
    };
    const redis = {
      defineCommand: () => {},
      rlflxIncr: slow('rlflxIncr', 900, [1, 43_260_000]),
      expire: slow('expire', 900, 1),
    } as unknown as RedisClient;
    const circuit = new Circuit({ timeoutMs: 1_000, failures: 3, probeEveryMs: 50, probe: async () => {} });
    const pass = holdTime();
    let counted: Awaited<ReturnType<AttemptCounter['add']>> | undefined;
    void new RedisAttemptCounter({ redis, circuit }).add('192.0.2.1').then((of) => {
      counted = of;
    });
    await pass(1_001);
    expect(calls).toEqual(['rlflxIncr', 'expire']);
    expect(counted).toMatchObject({ count: 1, endsInMs: 60_000 });
  });

  test('goes on in memory while Redis is away or silent, without waiting beyond the deadline', async () => {
    const server = await privateRedis();
    const gateway = await gatewayOn(server.url, { timeoutMs: 1_000 });
    const counter = new RedisAttemptCounter(gateway);
    await counter.add('192.0.2.1');
    await server.pause();
    const pass = holdTime();
    const alone = counter.add('192.0.2.1');
    // Whoever tried again would wait for another deadline.
    await pass(1_000);
    expect(await alone).toMatchObject({ count: 1 });
    await server.resume();
    await server.kill();
    expect(await counter.add('192.0.2.1')).toMatchObject({ count: 2 });
  });
});
