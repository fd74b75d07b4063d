import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { eventually } from '../../support/conditions.ts';
import { freePort } from '../../support/free-port.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { startTollgate } from '../../support/processes.ts';
import { startUpstream } from '../../support/upstream.ts';
import { type Caller, caller } from './callers.ts';
import { readyOf, workersOf } from './fleet.ts';

// Attack: none but our own: every new version stops each gateway once. A load balancer asks `/readyz` and keeps away from who
// is not ready; one that repeats nothing must not have to.

const DRAIN_DELAY_MS = 1_000;
const ASKED_EVERY_MS = 50;
const CLIENTS = 8;

type Address = Pick<TestGateway, 'port' | 'adminPort'>;

/** Sends each request once, to a gateway that was ready when it was last asked, and reuses a connection until it is told not to. */
function balance(gateways: readonly Address[], key: string) {
  const ready = new Set<Address>();
  const lost: { status: number; adminPort: number }[] = [];
  const state = { isOver: false, served: 0 };
  const ask = async () => {
    while (!state.isOver) {
      for (const gateway of gateways) {
        const { status } = await readyOf(gateway).catch(() => ({ status: 0 }));
        if (status === 200) ready.add(gateway);
        else ready.delete(gateway);
      }
      await delay(ASKED_EVERY_MS);
    }
  };
  const client = async (turn: number) => {
    const lines = new Map<Address, Caller>();
    for (let i = turn; !state.isOver; i++) {
      const usable = [...ready];
      const gateway = usable[i % usable.length];
      if (gateway === undefined) {
        await delay(1);
        continue;
      }
      const line = lines.get(gateway) ?? caller(gateway, key);
      lines.set(gateway, line);
      const { status, closes } = await line.ask();
      if (closes) lines.delete(gateway);
      if (status === 200) state.served++;
      else lost.push({ status, adminPort: gateway.adminPort });
    }
  };
  const done = Promise.all([ask(), ...Array.from({ length: CLIENTS }, (_, turn) => client(turn))]);
  const stop = async () => {
    state.isOver = true;
    await done;
    return lost;
  };
  return { state, ready, stop };
}

test('two gateways of two workers are restarted one after the other under load, and a client that repeats nothing loses nothing (reliability 121)', async () => {
  const upstream = await startUpstream(async (_request, response) => {
    await delay(5);
    response.end('{}');
  });
  const [one, two] = [
    { port: await freePort(), adminPort: await freePort() },
    { port: await freePort(), adminPort: await freePort() },
  ];
  const portsOf = ({ port, adminPort }: Address) => ({ PORT: String(port), ADMIN_PORT: String(adminPort) });
  const first = await startGateway({
    upstream: upstream.origin,
    listen: { drainDelay: `${DRAIN_DELAY_MS}ms` },
    env: { ...(await workersOf(2)), ...portsOf(one) },
  });
  const { key } = await first.createKey('endless');
  const startOn = async (address: Address) => {
    const running = await startTollgate(['serve'], { env: { ...first.env, ...portsOf(address) } });
    await running.until(/"msg":"serving"/);
    return running;
  };
  const processes = [first.process, await startOn(two)];
  const load = balance([one, two], key);
  for (const [i, address] of [one, two].entries()) {
    await eventually(() => expect(load.ready.size).toBe(2), { withinMs: 10_000 });
    const before = load.state.served;
    await eventually(() => expect(load.state.served).toBeGreaterThan(before + 100), { withinMs: 10_000 });
    processes[i]?.signal('SIGTERM');
    expect(await processes[i]?.exit).toEqual({ code: 0, signal: null });
    const alone = load.state.served;
    await eventually(() => expect(load.state.served).toBeGreaterThan(alone + 100), { withinMs: 10_000 });
    processes[i] = await startOn(address);
  }
  await eventually(() => expect(load.ready.size).toBe(2), { withinMs: 10_000 });
  expect(await load.stop()).toEqual([]);
  expect(upstream.requests).toHaveLength(load.state.served);
  expect(load.state.served).toBeGreaterThan(400);
});
