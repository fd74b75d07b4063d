import type { LookupOptions } from 'node:dns';
import { Redis } from 'ioredis';
import { expect, test, vi } from 'vitest';
import { HostNames, type SystemLookup, sentinelConnector, serverConnector } from '../../src/stores/redis/connectors.ts';
import { atEnd } from '../support/endings.ts';
import { testRedis } from '../support/redis.ts';
import { privateSentinels } from '../support/redis-sentinel.ts';

// Attack: the name server is away, and takes many seconds to say so. The system answers few questions at a time; if every
// attempt to reach Redis left one behind, no request would reach a service by its name.

type Callback = Parameters<SystemLookup>[2];

/** A system that answers when the test says so. */
function slowSystem() {
  const waiting: { readonly host: string; readonly callback: Callback }[] = [];
  const asked: string[] = [];
  const names = new HostNames((host, _options, callback) => {
    asked.push(host);
    waiting.push({ host, callback });
  });
  return {
    asked,
    ask: (host: string, options: LookupOptions = {}) =>
      new Promise<string>((resolve) => {
        names.lookup(host, options, (error, address) => resolve(error?.code ?? String(address)));
      }),
    say: async (error: string | null, address = '') => {
      waiting.shift()!.callback(error === null ? null : Object.assign(new Error(error), { code: error }), address, 4);
      await Promise.resolve();
    },
    turn: () => new Promise<void>((resolve) => process.nextTick(resolve)),
  };
}

test('however many connections wait for a name, the system is asked once, and for one name at a time', async () => {
  const { ask, say, asked, turn } = slowSystem();
  const answers = [ask('a.test'), ask('a.test'), ask('b.test'), ask('a.test')];
  await turn();
  expect(asked).toEqual(['a.test']);
  await say(null, '10.0.0.1');
  expect(await Promise.all([answers[0], answers[1], answers[3]])).toEqual(['10.0.0.1', '10.0.0.1', '10.0.0.1']);
  expect(asked).toEqual(['a.test', 'b.test']);
  await say('EAI_AGAIN');
  expect(await answers[2]).toBe('EAI_AGAIN');
});

test('an answer that came too late serves the next connection, then the system is asked anew; a failure is forgotten at once', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  atEnd(() => vi.useRealTimers());
  const { ask, say, asked, turn } = slowSystem();
  void ask('a.test');
  await turn();
  await say(null, '10.0.0.1');
  await turn();
  vi.advanceTimersByTime(1_999);
  expect(await ask('a.test')).toBe('10.0.0.1');
  vi.advanceTimersByTime(1);
  const next = ask('a.test');
  await turn();
  await say('ENOTFOUND');
  expect(await next).toBe('ENOTFOUND');
  void ask('a.test');
  await turn();
  expect(asked).toHaveLength(3);
});

test('connections to servers and to Sentinels look their names up this way, and no other', async () => {
  const asked = new Set<string>();
  const names = new HostNames((host, { all }, callback) => {
    asked.add(host);
    if (all) callback(null, [{ address: '127.0.0.1', family: 4 }]);
    else callback(null, '127.0.0.1', 4);
  });
  const { port } = new URL((await testRedis()).url);
  const { sentinels } = await privateSentinels();
  const own = { lazyConnect: true, replyMapping: 'legacy' } as const;
  const server = new Redis({ ...own, host: 'server.test', port: Number(port), Connector: serverConnector(names) });
  const primary = new Redis({
    ...own,
    sentinels: sentinels.slice(0, 1).map((one) => ({ host: 'sentinel.test', port: one.port })),
    name: 'main',
    Connector: sentinelConnector(names),
  });
  for (const redis of [server, primary]) {
    atEnd(() => redis.disconnect());
    await redis.connect();
    expect(await redis.ping()).toBe('PONG');
  }
  expect([...asked]).toEqual(['server.test', 'sentinel.test']);
});
