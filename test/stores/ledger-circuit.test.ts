import { connect, createServer, type Socket } from 'node:net';
import { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { Circuit, type CircuitOptions, type CircuitState } from '../../src/stores/redis/circuit.ts';
import { connectRedis, untilReady } from '../../src/stores/redis/connection.ts';
import { DurableWrites } from '../../src/stores/redis/durable-writes.ts';
import { RedisLedger } from '../../src/stores/redis/ledger.ts';
import { allowance } from '../support/allowance.ts';
import { busyFor } from '../support/busy-for.ts';
import { eventually } from '../support/conditions.ts';
import { atEnd } from '../support/endings.ts';
import { holdTime } from '../support/hold-time.ts';
import { listen } from '../support/listening.ts';
import { privateRedis, testRedis } from '../support/redis.ts';

const never = () => new Promise<never>(() => {});

function circuitWith(options: Partial<CircuitOptions>) {
  const states: CircuitState[] = [];
  const circuit = new Circuit({
    timeoutMs: 40,
    failures: 3,
    probeEveryMs: 20,
    probe: never,
    onChange: (state) => states.push(state),
    ...options,
  });
  atEnd(() => circuit.close());
  return { circuit, states };
}

const failing = (circuit: Circuit, call: () => Promise<unknown>) =>
  expect(circuit.run(call)).rejects.toMatchObject({ code: 'store_unavailable' });

describe('the circuit', () => {
  test.each([
    'OOM command not allowed',
    "READONLY You can't write against a read only replica.",
    "NOPERM User jo has no permissions to run the 'hset' command",
  ])('is away for what writes and not for what reads after %s (reliability 366)', async (message) => {
    let isFull = true;
    const refused = async () => {
      if (isFull) throw new Error(message);
    };
    const { circuit, states } = circuitWith({ probe: async () => 'PONG', trial: refused });
    for (let i = 0; i < 3 && circuit.state === 'present'; i++) await failing(circuit, refused);
    expect(circuit.state).toBe('away');
    let writes = 0;
    await failing(circuit, async () => writes++);
    expect(await circuit.read(async () => 'a record')).toBe('a record');
    await expect(circuit.read(never)).rejects.toMatchObject({ code: 'store_unavailable' });
    expect([writes, circuit.state]).toEqual([0, 'away']);
    isFull = false;
    await eventually(() => expect(states).toEqual(['away', 'present']));
  });

  test('makes no call that reads either, while nothing answers', async () => {
    const { circuit } = circuitWith({ probe: () => Promise.reject(new Error('Connection is closed.')) });
    for (let i = 0; i < 3; i++) await failing(circuit, () => Promise.reject(new Error('Connection is closed.')));
    expect(circuit.state).toBe('away');
    let reads = 0;
    await expect(circuit.read(async () => reads++)).rejects.toMatchObject({ code: 'store_unavailable' });
    expect(reads).toBe(0);
  });

  test('gives a silent store its time, three times, and after that makes no call at all', async () => {
    const { circuit, states } = circuitWith({ probeEveryMs: 60_000 });
    const pass = holdTime();
    for (let i = 0; i < 3; i++) {
      let given = false;
      const call = failing(circuit, never).finally(() => {
        given = true;
      });
      await pass(39);
      expect(given).toBe(false);
      await pass(1);
      expect(given).toBe(true);
      await call;
    }
    expect(circuit.state).toBe('away');
    let calls = 0;
    // No time passes: what waited at all would wait for ever.
    await failing(circuit, async () => calls++);
    expect(calls).toBe(0);
    expect(states).toEqual(['away']);
  });

  test('counts only failures in a row', async () => {
    const { circuit } = circuitWith({});
    for (let i = 0; i < 4; i++) {
      await failing(circuit, () => Promise.reject(new Error('no')));
      await failing(circuit, () => Promise.reject(new Error('no')));
      expect(await circuit.run(async () => i)).toBe(i);
    }
    expect(circuit.state).toBe('present');
  });

  test('comes back when a probe succeeds, by one chain of probes whatever happens meanwhile', async () => {
    let isBack = false;
    let probes = 0;
    const { circuit, states } = circuitWith({
      probe: async () => {
        probes++;
        if (!isBack) throw new Error('no');
      },
    });
    // A late answer to an earlier call brings it back, and it goes away again while a probe is still due.
    let answer = (_value: unknown) => {};
    const late = circuit.run(() => new Promise((resolve) => (answer = resolve)));
    const fail = () => Promise.reject(new Error('no'));
    await Promise.all([failing(circuit, fail), failing(circuit, fail), failing(circuit, fail)]);
    answer(1);
    await late;
    for (let i = 0; i < 3; i++) await failing(circuit, fail);
    expect(states).toEqual(['away', 'present', 'away']);
    probes = 0;
    const sinceMs = performance.now();
    await eventually(() => probes >= 8);
    expect(performance.now() - sinceMs).toBeGreaterThan(7 * 20);
    isBack = true;
    await eventually(() => circuit.state === 'present');
    expect(await circuit.run(async () => 7)).toBe(7);
    expect(states.at(-1)).toBe('present');
  });

  test('does not tell a call late whose answer has arrived while we were busy', async () => {
    const { url } = await testRedis();
    const redis = new Redis(url);
    atEnd(() => redis.disconnect());
    const { circuit } = circuitWith({ timeoutMs: 60 });
    await redis.ping();
    for (let i = 0; i < 4; i++) {
      const call = circuit.run(() => redis.ping());
      busyFor(100);
      expect(await call).toBe('PONG');
      // Busy before it is sent, in the same turn: the time until then is not the store's.
      await new Promise(setImmediate);
      busyFor(100);
      expect(await circuit.run(() => redis.ping())).toBe('PONG');
    }
    expect(circuit.state).toBe('present');
  });
});

describe('a ledger whose Redis', () => {
  const TIMEOUT_MS = 1_000;
  const ask = { consumerId: 'a', allowance: allowance({ minute: 1_000 }), cost: 1, n: 1 };
  const ledgerOn = async (url: string) => {
    const redis = connectRedis({ url, connectTimeoutMs: 500 });
    const { circuit } = circuitWith({ timeoutMs: TIMEOUT_MS, probe: () => redis.ping() });
    atEnd(() => redis.disconnect());
    await untilReady(redis, 5_000);
    const writes = new DurableWrites({ redis, replicas: 0, timeoutMs: TIMEOUT_MS });
    return { ledger: new RedisLedger({ redis, circuit, publish: async () => {}, writes }), circuit };
  };

  test('falls silent waits for no call longer than the deadline, and finds it again', async () => {
    const server = await privateRedis();
    const { ledger, circuit } = await ledgerOn(server.url);
    await ledger.decide([ask]);
    await server.pause();
    const pass = holdTime();
    const calls = Array.from({ length: 20 }, () => ledger.decide([ask]).catch(({ code }) => code));
    await pass(TIMEOUT_MS);
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['store_unavailable']));
    // It is known to be away: no time passes for this one.
    await expect(ledger.decide([ask])).rejects.toMatchObject({ code: 'store_unavailable' });
    await server.resume();
    await eventually(async () => {
      await pass(50);
      return circuit.state === 'present';
    });
    const [decision] = await ledger.decide([ask]);
    expect(decision?.admitted).toBe(1);
  });

  test('cuts the link in the middle of a call is not sent it again', async () => {
    const server = await privateRedis();
    const received: string[] = [];
    let cut = false;
    const proxy = createServer((socket: Socket) => {
      relay(socket, server.port, (text) => {
        if (!text.includes('tg:a:')) return true;
        received.push(text);
        return !cut;
      });
    });
    const { port } = await listen(proxy);
    atEnd(() => proxy.close());
    const { ledger, circuit } = await ledgerOn(`redis://127.0.0.1:${port}`);
    await ledger.decide([ask]);
    const before = received.length;
    cut = true;
    await expect(ledger.decide([ask])).rejects.toMatchObject({ code: 'store_unavailable' });
    cut = false;
    await eventually(async () => (await ledger.decide([ask]))[0]?.admitted === 1, { withinMs: 5_000 });
    expect(circuit.state).toBe('present');
    // The call that was cut, and those that were asked anew by this test, each once.
    const again = (await ledger.present('a', ask.allowance))!.accounts[0].windows.minute!.used;
    expect(again).toBe(2);
    expect(received.length).toBeGreaterThan(before + 1);
  });
});

/** Passes bytes between a client and a server; `passes` sees what the client sends, and false cuts both. */
function relay(client: Socket, port: number, passes: (text: string) => boolean): void {
  const server = connect(port, '127.0.0.1');
  const end = () => {
    client.destroy();
    server.destroy();
  };
  for (const socket of [client, server]) socket.on('error', end).on('close', end);
  client.on('data', (chunk: Buffer) => (passes(chunk.toString('latin1')) ? server.write(chunk) : end()));
  server.on('data', (chunk: Buffer) => client.write(chunk));
}
