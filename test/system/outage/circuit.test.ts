import { expect, test } from 'vitest';
import { NothingDone } from '../../../src/admit/ledger.ts';
import { Failure } from '../../../src/failure.ts';
import {
  Circuit,
  type CircuitChange,
  type CircuitOptions,
  type CircuitState,
} from '../../../src/stores/redis/circuit.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import { holdTime } from '../../support/hold-time.ts';

const never = () => new Promise<never>(() => {});
const refuse = (message: string) => () => Promise.reject(Object.assign(new Error(message), { name: 'ReplyError' }));

function circuitWith(options: Partial<CircuitOptions> = {}) {
  const changes: [state: CircuitState, change?: CircuitChange | undefined][] = [];
  const circuit = new Circuit({
    timeoutMs: 100,
    failures: 3,
    probeEveryMs: 20,
    probe: async () => {},
    onChange: (...change) => changes.push(change),
    ...options,
  });
  atEnd(() => circuit.close());
  return { circuit, changes };
}

const out = (circuit: Circuit) =>
  expect(circuit.run(refuse('LOADING Redis is loading'))).rejects.toBeInstanceOf(NothingDone);

test('a server that says that it can count nothing is away at once, for the reason that it gave', async () => {
  for (const said of [
    'OOM command not allowed',
    'READONLY You can’t write',
    'LOADING',
    'MISCONF',
    'NOAUTH Authentication required.',
  ]) {
    const { circuit, changes } = circuitWith({ probe: never });
    await expect(circuit.run(refuse(said))).rejects.toBeInstanceOf(NothingDone);
    expect(changes).toEqual([['away', { reason: said, lastedMs: expect.any(Number) }]]);
  }
});

test('what was refused, or never sent, is known to have done nothing; what was given up is not', async () => {
  const { circuit } = circuitWith({ failures: 10, timeoutMs: 30 });
  await expect(circuit.run(refuse('ERR no'))).rejects.toBeInstanceOf(NothingDone);
  const unsent = new Error("Stream isn't writeable and enableOfflineQueue options is false");
  await expect(circuit.run(() => Promise.reject(unsent))).rejects.toBeInstanceOf(NothingDone);
  for (const open of [never, () => Promise.reject(new Error('Connection is closed.'))]) {
    const failure = await circuit.run(open).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Failure);
    expect(failure).not.toBeInstanceOf(NothingDone);
  }
});

test('is back when it has taken a write: answers to reads are no sign', async () => {
  let takesWrites = false;
  const { circuit, changes } = circuitWith({
    trial: async () => {
      if (!takesWrites) throw new Error('OOM');
    },
  });
  const { promise, resolve } = Promise.withResolvers<string>();
  const read = circuit.run(() => promise);
  await out(circuit);
  resolve('an answer to what was asked before');
  await read;
  let probes = 0;
  await eventually(() => probes++ > 10);
  expect(circuit.state).toBe('away');
  takesWrites = true;
  await eventually(() => circuit.state === 'present');
  expect(changes.map(([state]) => state)).toEqual(['away', 'present']);
});

test('when it is back calls are let in a few at a time, then more and more (reliability 113)', async () => {
  const { circuit } = circuitWith();
  await out(circuit);
  await eventually(() => circuit.state === 'present');
  let underWay = 0;
  const most: number[] = [];
  const release: (() => void)[] = [];
  const call = () => {
    most.push(++underWay);
    return new Promise<void>((resolve) => {
      release.push(() => {
        underWay--;
        resolve();
      });
    });
  };
  const calls = Array.from({ length: 100 }, () => circuit.run(call));
  const rooms: number[] = [];
  while (most.length < 100) {
    rooms.push(underWay);
    for (const answer of release.splice(0)) answer();
    await new Promise(setImmediate);
  }
  for (const answer of release.splice(0)) answer();
  await Promise.all(calls);
  expect(rooms).toEqual([4, 8, 16, 32]);
});

test('an operator waits longer than a request, and an answer that is too late for requests changes nothing for them', async () => {
  const pass = holdTime();
  const { circuit, changes } = circuitWith({ probe: never });
  const late = (ms: number) => () => new Promise<string>((resolve) => setTimeout(() => resolve('late'), ms));
  const failed = async () => {
    const call = expect(circuit.run(late(500))).rejects.toThrow('within 100 ms');
    await pass(101);
    await call;
  };
  await failed();
  await failed();
  const asked = circuit.run(late(500), undefined, 2_000);
  await pass(501);
  expect(await asked).toBe('late');
  expect(changes).toEqual([]);
  // The two failures before it still count.
  await failed();
  expect(changes.map(([state]) => state)).toEqual(['away']);
});

test('who waits to be let in waits no longer than the deadline, and is then known not to have been sent', async () => {
  const { circuit } = circuitWith();
  await out(circuit);
  await eventually(() => circuit.state === 'present');
  const pass = holdTime();
  const failures: unknown[] = [];
  for (let i = 0; i < 10; i++) circuit.run(never).catch((error: unknown) => failures.push(error));
  await pass(99);
  expect(failures).toEqual([]);
  // Whoever got a whole deadline anew once it is let in would still wait.
  await pass(1);
  expect(failures).toHaveLength(10);
  expect(failures.filter((failure) => failure instanceof NothingDone)).toHaveLength(6);
});

test('that goes away again at once is away after one failure, and is probed less often (reliability 113)', async () => {
  const probes: number[] = [];
  const { circuit } = circuitWith({
    probe: async () => {
      probes.push(performance.now());
    },
  });
  for (let i = 0; i < 4; i++) {
    await circuit.run(refuse(i === 0 ? 'LOADING' : 'ERR once')).catch(() => {});
    expect(circuit.state).toBe('away');
    await eventually(() => circuit.state === 'present');
  }
  expect(probes[3]! - probes[2]!).toBeGreaterThan(70);
});
