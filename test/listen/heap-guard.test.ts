import { createConnection, type Socket } from 'node:net';
import { expect, test, vi } from 'vitest';
import { HeapGuard, memoriesOf } from '../../src/listen/heap-guard.ts';
import { eventually } from '../support/conditions.ts';
import { startGateway } from '../support/gateway.ts';
import { startUpstream } from '../support/upstream.ts';

test('a heap is short from the second look that finds 90 % of it used, until one finds less than 80 %', () => {
  let used = 0;
  const told: (string | boolean)[] = [];
  const guard = new HeapGuard({ onChange: (isShort) => told.push(isShort), onShort: () => told.push('shed') }, [
    () => ({ of: 'heap', usedBytes: used, limitBytes: 100 }),
  ]);
  for (used of [50, 95, 50, 90, 89, 90, 91, 85, 80, 79, 90, 79, 90, 90]) guard.look();
  guard.close();
  expect(told).toEqual([true, 'shed', 'shed', 'shed', false, true, 'shed']);
  expect(guard.isShort).toBe(true);
});

test('the memory of a container that stays nearly full for 5 s is short again only when it grows (reliability 226)', () => {
  let used = 0;
  const told: boolean[] = [];
  const guard = new HeapGuard({ onChange: (isShort) => told.push(isShort), onShort: () => {} }, [
    () => ({ of: 'heap', usedBytes: 10, limitBytes: 100 }),
    () => ({ of: 'container', usedBytes: used, limitBytes: 100 }),
  ]);
  const look = (times: number, at: number) => {
    used = at;
    for (let i = 0; i < times; i++) guard.look();
  };
  look(2, 92);
  expect(told).toEqual([true]);
  look(200, 92);
  expect(told).toEqual([true, false]);
  look(2, 95);
  expect(told).toEqual([true, false, true]);
  look(1, 70);
  look(2, 91);
  guard.close();
  expect(told).toEqual([true, false, true, false, true]);
});

test('each of several processes has its part of the limit of their container (reliability 226)', () => {
  const limited = vi.spyOn(process, 'constrainedMemory').mockReturnValue(512 * 1024 * 1024);
  const container = memoriesOf(4)[1]!();
  expect(container).toMatchObject({ of: 'container', limitBytes: 128 * 1024 * 1024 });
  expect(container.usedBytes).toBeGreaterThan(1024 * 1024);
  limited.mockReturnValue(2 ** 64);
  expect(memoriesOf(4).length).toBe(1);
  limited.mockRestore();
});

// Attack: TLS sessions, or responses that nobody reads, fill the container while the heap is nearly empty.
test('a gateway whose container is nearly full sheds load before the kernel ends it, and recovers (reliability 226)', async () => {
  const upstream = await startUpstream();
  const filler = new URL('./fill-container.ts', import.meta.url).href;
  const gateway = await startGateway({ upstream: upstream.origin, env: { NODE_OPTIONS: `--import=${filler}` } });
  const { key } = await gateway.createKey('endless');
  const idle = createConnection(gateway.port, '127.0.0.1')
    .on('error', () => {})
    .resume();
  gateway.process.signal('SIGUSR2');
  await eventually(() => expect(idle.closed).toBe(true));
  await gateway.process.until(/the memory of the container is nearly full/);
  gateway.process.signal('SIGUSR2');
  await gateway.process.until(/the memory of the container has room again/);
  await eventually(async () => expect((await gateway.get('/v1/pets', key)).status).toBe(200));
});

// Attack: more connections than the heap has room for, each of which holds what it may.
test('a gateway whose heap is nearly full closes idle connections, takes no new ones, keeps what runs, says so, and recovers (reliability 148)', async () => {
  const running = Promise.withResolvers<void>();
  const upstream = await startUpstream(async (_, response) => {
    await running.promise;
    response.end('[]');
  });
  const filler = new URL('./fill-heap.ts', import.meta.url).href;
  const gateway = await startGateway({
    upstream: upstream.origin,
    env: { NODE_OPTIONS: `--max-old-space-size=256 --import=${filler}` },
  });
  const { key } = await gateway.createKey('endless');
  const admin = async (path: string) => fetch(`http://127.0.0.1:${gateway.adminPort}${path}`);
  const connect = (): Socket =>
    createConnection(gateway.port, '127.0.0.1')
      .on('error', () => {})
      .resume();
  const [idle, busy] = [connect(), createConnection(gateway.port, '127.0.0.1')];
  busy.write(`GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  await eventually(() => expect(upstream.requests).toHaveLength(1));
  // The heap is filled with what lives, and emptied at the next signal.
  gateway.process.signal('SIGUSR2');
  await eventually(() => expect(idle.closed).toBe(true));
  const readiness = await admin('/readyz');
  expect([readiness.status, await readiness.json()]).toMatchObject([503, { status: 'not_ready', memory: 'short' }]);
  expect(await (await admin('/metrics')).text()).toMatch(/^tollgate_memory_short 1$/m);
  const refused = connect();
  await eventually(() => expect(refused.closed).toBe(true));
  running.resolve();
  const answer = await new Promise<string>((resolve) => busy.once('data', (chunk) => resolve(String(chunk))));
  expect(answer).toContain('200 OK');
  gateway.process.signal('SIGUSR2');
  await eventually(async () => expect((await gateway.get('/v1/pets', key)).status).toBe(200));
  expect((await admin('/readyz')).status).toBe(200);
  // Whole lines are written a moment later.
  await gateway.process.until(/the heap is nearly full/);
  await gateway.process.until(/the heap has room again/);
  for (const socket of [idle, busy, refused]) socket.destroy();
});
