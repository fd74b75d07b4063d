import { beforeAll, expect, test } from 'vitest';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstream } from '../support/upstream.ts';
import { openWebSocket, startWebSocketUpstream } from '../support/web-sockets.ts';

// Weights of targets, and `sticky` of an upstream.

let targets: readonly string[];

beforeAll(async () => {
  const named = (name: string) => startUpstream((_request, response) => response.end(name));
  targets = (await Promise.all(['a', 'b', 'c', 'd'].map(named))).map(({ origin }) => origin);
});

const behind = async (sticky: string, given = targets.join(', ')) => {
  const gateway = await openGateway({ upstream: given, upstreamSettings: { sticky } });
  const { key } = await gateway.createKey('endless');
  return { gateway, key };
};

const ask = async (gateway: TestGateway, key: string, headers: Record<string, string> = {}) =>
  (await gateway.get('/v1/pets', key, { headers })).text();

test('targets get requests by their weights', async () => {
  const [a, b, c] = targets;
  const given = `${a}, { url: '${b}', weight: 3 }, { url: '${c}', weight: 0 }`;
  const gateway = await openGateway({ upstream: given });
  const { key } = await gateway.createKey('endless');
  const got = await Promise.all(Array.from({ length: 40 }, () => ask(gateway, key)));
  expect([got.filter((name) => name === 'a').length, got.filter((name) => name === 'b').length]).toEqual([10, 30]);
});

test('requests with one value of the cookie get one target, and those without it get any', async () => {
  const { gateway, key } = await behind('{ cookie: session }');
  const chosen = new Set<string>();
  for (let i = 0; i < 20; i++) {
    const cookie = `other=1; session=s${i}; xsession=${Math.random()}`;
    const got = await Promise.all(Array.from({ length: 4 }, () => ask(gateway, key, { cookie })));
    expect(new Set(got).size).toBe(1);
    chosen.add(got[0]!);
  }
  expect(chosen.size).toBe(4);
  expect(new Set(await Promise.all(Array.from({ length: 8 }, () => ask(gateway, key)))).size).toBe(4);
});

test.each(['{ key }', '{ key: true }'])('requests of one key get one target, with `sticky: %s`', async (sticky) => {
  const { gateway } = await behind(sticky);
  const chosen = new Set<string>();
  for (let i = 0; i < 20; i++) {
    const { key } = await gateway.createKey('endless');
    const [one, other] = [await ask(gateway, key), await ask(gateway, key)];
    expect(one).toBe(other);
    chosen.add(one);
  }
  expect(chosen.size).toBeGreaterThan(1);
});

test('requests of one address get one target, whatever their key', async () => {
  const { gateway, key } = await behind('{ address }');
  const { key: other } = await gateway.createKey('endless');
  const got = [await ask(gateway, key), await ask(gateway, other), await ask(gateway, key)];
  expect(new Set(got).size).toBe(1);
});

test('a WebSocket gets the target of its key', async () => {
  const services = await Promise.all([startWebSocketUpstream(), startWebSocketUpstream(), startWebSocketUpstream()]);
  const routes = `\n  - { path: /ws, methods: [GET], upstream: store, websocket: true }`;
  const upstream = services.map(({ origin }) => origin).join(', ');
  const gateway = await openGateway({ upstream, upstreamSettings: { sticky: '{ key }' }, routes });
  const { key } = await gateway.createKey('endless');
  for (let i = 0; i < 6; i++) await openWebSocket(gateway, key, '/ws');
  expect(services.map(({ asked }) => asked.length).toSorted()).toEqual([0, 0, 6]);
});
