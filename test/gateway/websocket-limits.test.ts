import { once } from 'node:events';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { LATE_MS, paced } from '../support/room.ts';
import {
  asking,
  logged,
  metric,
  openWebSocket,
  rawClient,
  startWebSocketUpstream,
  WEBSOCKET_ROUTES,
  type WebSocketUpstream,
} from '../support/web-sockets.ts';

let gateway: TestGateway;
let upstream: WebSocketUpstream;

const start = (more = '', listen = {}) =>
  openGateway({ upstream: upstream.origin, routes: WEBSOCKET_ROUTES, more, listen });

const refused = async (key: string) => {
  const { responses } = await rawExchange(gateway.port, asking(key), { until: 'closed' });
  return responses[0]!;
};

beforeAll(async () => {
  upstream = await startWebSocketUpstream();
});

// Attack: a caller sends and receives through tunnels, and its share of the serving thread is unused all the same.
test("the thread's work for a WebSocket is charged to its consumer (reliability 396)", async () => {
  const gateway = await start();
  const { key } = await gateway.createKey('free');
  const { socket } = await openWebSocket(gateway, key);
  const charged = () => metric(gateway, 'tollgate_thread_seconds_total');
  const before = await charged();
  for (let i = 0; i < 50; i++) {
    socket.send(Buffer.alloc(64 * 1024));
    await once(socket, 'message');
  }
  expect(await charged()).toBeGreaterThan(before);
  socket.terminate();
});

describe('there are so many WebSockets at a time and no more', () => {
  let one: string;
  let other: string;

  beforeAll(async () => {
    gateway = await start('websockets: { maxPerKey: 2, max: 3 }');
    ({ key: one } = await gateway.createKey('free'));
    ({ key: other } = await gateway.createKey('free'));
  });

  beforeEach(() =>
    eventually(async () => {
      expect(await metric(gateway, 'tollgate_websockets')).toBe(0);
    }),
  );

  test('of one key: 503 overloaded that says so, counted, and another key is served', async () => {
    const own = [await openWebSocket(gateway, one), await openWebSocket(gateway, one)];
    const answer = await refused(one);
    expect(answer.status).toBe(503);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      code: 'overloaded',
      message: expect.stringContaining('This API key'),
    });
    expect(answer.header('retry-after')).toBe('1');
    expect(answer.header('x-ratelimit-remaining')).toBe('57');
    const another = await openWebSocket(gateway, other);
    own[0]!.socket.terminate();
    await eventually(async () => expect(await metric(gateway, 'tollgate_websockets')).toBe(2));
    const again = await openWebSocket(gateway, one);
    for (const { socket } of [own[1]!, another, again]) socket.terminate();
  });

  // Attack: two keys of one customer had all WebSockets.
  test('of one customer: half of what others leave, and what one key may have (reliability 422)', async () => {
    const gateway = await start('websockets: { maxPerKey: 2, max: 4 }');
    const { stdout } = await gateway.command('customers', 'create', '--plan', 'free', '--json');
    const { id } = JSON.parse(stdout) as { id: string };
    const create = async () => {
      const made = await gateway.command('keys', 'create', '--customer', id, '--json');
      return (JSON.parse(made.stdout) as { key: string }).key;
    };
    const [first, second] = [await create(), await create()];
    const own = [await openWebSocket(gateway, first), await openWebSocket(gateway, first)];
    const { responses } = await rawExchange(gateway.port, asking(second), { until: 'closed' });
    expect(JSON.parse(responses[0]!.body.toString())).toMatchObject({
      status: 503,
      code: 'overloaded',
      message: expect.stringContaining('The keys of this customer'),
    });
    expect(responses[0]!.header('x-ratelimit-remaining')).toBe('57');
    const { key } = await gateway.createKey('free');
    const others = [await openWebSocket(gateway, key), await openWebSocket(gateway, key)];
    own[0]!.socket.terminate();
    await eventually(async () => expect(await metric(gateway, 'tollgate_websockets')).toBe(3));
    const again = await openWebSocket(gateway, second);
    for (const { socket } of [own[1]!, ...others, again]) socket.terminate();
  });

  test('in all: 503 overloaded, not counted (reliability 395) (reliability 370)', async () => {
    const open = [
      await openWebSocket(gateway, one),
      await openWebSocket(gateway, one),
      await openWebSocket(gateway, other),
    ];
    const remaining = async () => Number((await gateway.get('/v1/pets', other)).headers.get('x-ratelimit-remaining'));
    const left = await remaining();
    const answer = await refused(other);
    expect(answer.status).toBe(503);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      code: 'overloaded',
      message: expect.stringContaining('Too many WebSockets'),
    });
    expect(await remaining()).toBe(left - 1);
    // A caller that has nothing left gets its 429 all the same (reliability 370).
    const { key: spent } = await gateway.createKey('closed');
    expect((await refused(spent)).status).toBe(429);
    for (const { socket } of open) socket.terminate();
  });

  test('those that do not come about, and those asked for at once, leave no room taken and take no more than there is', async () => {
    const { key } = await gateway.createKey('endless');
    for (let i = 0; i < 5; i++) expect((await refused('tg_live_none')).status).toBe(401);
    for (let i = 0; i < 5; i++) {
      const client = await rawClient(gateway, asking(key));
      client.socket.resetAndDestroy();
    }
    const sockets = Array.from({ length: 8 }, () => {
      const headers = { Authorization: `Bearer ${key}` };
      return new WebSocket(`ws://127.0.0.1:${gateway.port}/v1/live`, { headers });
    });
    const ends = await Promise.all(
      sockets.map(
        (socket) =>
          new Promise<number>((resolve) => {
            socket.on('error', () => {});
            socket.once('open', () => resolve(101));
            socket.once('close', () => resolve(503));
          }),
      ),
    );
    expect(ends.filter((end) => end === 101)).toHaveLength(2);
    for (const socket of sockets) socket.terminate();
  });
});

test.each([
  ['revoke', 'revoked'],
  ['suspend', 'suspended'],
])("after `keys %s` a key loses its WebSockets within a second, and no other's", async (command, reason) => {
  gateway = await start();
  const { key, id } = await gateway.createKey('free');
  const { key: other } = await gateway.createKey('free');
  const gone = await openWebSocket(gateway, key);
  const stays = await openWebSocket(gateway, other);
  const closed = once(gone.socket, 'close').then(([code]) => [code, performance.now()]);
  await gateway.command('keys', command, id);
  const revokedAtMs = performance.now();
  const [code, closedAtMs] = await closed;
  expect(code).toBe(1006);
  expect(closedAtMs - revokedAtMs).toBeLessThan(LATE_MS);
  await eventually(() => expect(logged(gateway, 'websocket closed')).toMatchObject([{ reason }]));
  stays.socket.send('still here');
  expect(String((await once(stays.socket, 'message'))[0])).toBe('still here');
  stays.socket.terminate();
});

test.each([
  ['keys end-secret', (id: string, last4: string) => ['keys', 'end-secret', id, '--last4', last4]],
  ['keys rotate --leaked', (id: string) => ['keys', 'rotate', id, '--leaked']],
])(
  'after `%s` the WebSockets of a secret that has ended are closed within a second (reliability 264)',
  async (_, words) => {
    gateway = await start();
    const { key, id } = await gateway.createKey('free');
    const { key: second } = JSON.parse(
      (await gateway.command('keys', 'rotate', id, '--overlap', '1h', '--json')).stdout,
    );
    const [gone, other] = [await openWebSocket(gateway, key), await openWebSocket(gateway, second)];
    const closed = once(gone.socket, 'close').then(([code]) => [code, performance.now()]);
    const command = words(id, key.slice(-4));
    expect((await gateway.command(...command)).code).toBe(0);
    const endedAtMs = performance.now();
    const [code, closedAtMs] = await closed;
    expect([code, closedAtMs - endedAtMs < LATE_MS]).toEqual([1006, true]);
    // A rotation as leaked ends all secrets before it.
    const [count, stays] = command.includes('--leaked') ? [2, null] : [1, other.socket];
    await eventually(() =>
      expect(logged(gateway, 'websocket closed').map(({ reason }) => reason)).toEqual(Array(count).fill('revoked')),
    );
    if (stays === null) return;
    stays.send('still here');
    expect(String((await once(stays, 'message'))[0])).toBe('still here');
    stays.terminate();
  },
);

test('the WebSockets of a key of a suspended customer are closed within a second (reliability 263)', async () => {
  gateway = await start();
  const json = async (...words: string[]) => JSON.parse((await gateway.command(...words, '--json')).stdout);
  const { id: customer } = await json('customers', 'create', '--plan', 'free');
  const { key } = await json('keys', 'create', '--customer', customer);
  const { socket } = await openWebSocket(gateway, key);
  const closed = once(socket, 'close');
  await gateway.command('customers', 'suspend', customer);
  const suspendedAtMs = performance.now();
  await closed;
  expect(performance.now() - suspendedAtMs).toBeLessThan(LATE_MS);
  await eventually(() => expect(logged(gateway, 'websocket closed')).toMatchObject([{ reason: 'suspended' }]));
});

describe('a gateway that stops', () => {
  test('takes no new WebSocket, lets those that are open go on, and says nothing in them', async () => {
    gateway = await start('', { drainDelay: `${paced(1_000)}ms`, drainTimeout: '1m' });
    const { key } = await gateway.createKey('free');
    const { socket } = await openWebSocket(gateway, key);
    const kept = await rawClient(gateway);
    let said = 0;
    socket.on('message', () => said++);
    const stopped = gateway.process.stop();
    const readyz = `http://127.0.0.1:${gateway.adminPort}/readyz`;
    await eventually(async () => expect((await fetch(readyz)).status).toBe(503));
    kept.socket.write(asking(key));
    const answer = await kept.answer();
    expect([answer.status, answer.header('retry-after')]).toEqual([503, '1']);
    const serves = () =>
      fetch(gateway.origin).then(
        () => true,
        () => false,
      );
    await eventually(async () => expect(await serves()).toBe(false));
    expect([socket.readyState, said]).toEqual([WebSocket.OPEN, 0]);
    socket.send('still here');
    expect(String((await once(socket, 'message'))[0])).toBe('still here');
    socket.close();
    expect((await stopped).code).toBe(0);
  });

  test('cuts those that are left at `drainTimeout`, without a word, and exits with 0', async () => {
    gateway = await start('', { drainTimeout: '600ms' });
    const { key } = await gateway.createKey('free');
    const { socket } = await openWebSocket(gateway, key);
    let said = 0;
    socket.on('message', () => said++);
    const closed = once(socket, 'close').then(([code]) => [code, performance.now()]);
    const startedAtMs = performance.now();
    const stopped = gateway.process.stop();
    const [code, closedAtMs] = await closed;
    expect([code, said]).toEqual([1006, 0]);
    expect(closedAtMs - startedAtMs).toBeGreaterThan(550);
    // Without it the drain would take 30 s.
    expect(closedAtMs - startedAtMs).toBeLessThan(600 + LATE_MS);
    expect((await stopped).code).toBe(0);
    expect(logged(gateway, 'websocket closed')).toMatchObject([{ reason: 'drained' }]);
    await eventually(() => expect(upstream.open).toBe(0));
  });
});
