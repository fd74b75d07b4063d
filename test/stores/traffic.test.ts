import { beforeEach, describe, expect, test } from 'vitest';
import { addMinute } from '../../src/operations/traffic/add-minute.ts';
import { decodeRecord, encodeRecord, newCells, newRecord } from '../../src/operations/traffic/traffic-record.ts';
import type { TrafficStore } from '../../src/operations/traffic/traffic-store.ts';
import { openDatabase } from '../../src/stores/embedded/database.ts';
import { EmbeddedTraffic } from '../../src/stores/embedded/traffic.ts';
import { keyspace } from '../../src/stores/redis/keyspace.ts';
import { atEnd } from '../support/endings.ts';
import { redisCommand, testRedis } from '../support/redis.ts';
import { privateCluster } from '../support/redis-cluster.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { gatewayOn } from './redis-connections.ts';

/** What every TrafficStore promises. `open` gives an empty store. */
function trafficStoreContract(open: () => Promise<TrafficStore>): void {
  let store: TrafficStore;
  beforeEach(async () => {
    store = await open();
  });
  const bytes = (text: string) => Buffer.from([255, 0, ...Buffer.from(text)]);
  const minute = { part: 'minute', at: 29_000_000 } as const;
  const hour = { part: 'hour', at: 483_333 } as const;
  const read = async () =>
    (await store.read([minute, hour])).map((found) => (found === null ? null : Buffer.from(found).toString('hex')));
  const hex = (text: string) => bytes(text).toString('hex');

  test('writes all records of a swap, or none if one has changed since it was read', async () => {
    expect(await read()).toEqual([null, null]);
    expect(await store.swap([{ ...minute, before: null, after: bytes('m1') }])).toBe(true);
    const stale = [
      { ...hour, before: null, after: bytes('h1') },
      { ...minute, before: null, after: bytes('m2') },
    ];
    expect(await store.swap(stale)).toBe(false);
    expect(await store.swap([{ ...hour, before: bytes('h0'), after: bytes('h1') }])).toBe(false);
    expect(await read()).toEqual([hex('m1'), null]);
    expect(await store.swap([stale[0]!, { ...minute, before: bytes('m1'), after: bytes('m2') }])).toBe(true);
    expect(await read()).toEqual([hex('m2'), hex('h1')]);
  });

  test('adds what twelve gateways write in the same moment, each once', async () => {
    const counted = (i: number) => {
      const cells = newCells();
      cells[1] = cells[5] = 10 ** 6;
      const record = { ...newRecord(), reports: 1, series: new Map([[4, cells]]) };
      const names = [`route /v1/${i % 3}`];
      return { minute: minute.at, mark: i, names, bytes: encodeRecord(record, names, Infinity) };
    };
    const all = Array.from({ length: 12 }, (_, i) => addMinute(store, counted(i), 0));
    expect(await Promise.all(all)).toEqual(Array(12).fill(true));
    expect(await addMinute(store, counted(0), 0)).toBe(true);
    const { reports, series } = decodeRecord((await store.read([minute]))[0]!)!;
    expect([reports, [...series.values()].map((cells) => cells[1])]).toEqual([12, [4e6, 4e6, 4e6]]);
  });
}

describe('traffic in the embedded store', () => {
  const open = async () => {
    const db = openDatabase(await temporaryFolder());
    atEnd(() => db.close());
    return new EmbeddedTraffic({ db });
  };
  trafficStoreContract(open);

  test('is gone after 48 hours as minutes and after 92 days as hours', async () => {
    const store = await open();
    const at = (part: 'minute' | 'hour', at: number) => ({ part, at, before: null, after: Buffer.of(1) });
    await store.swap([at('minute', 10_000), at('minute', 10_100), at('hour', 10_000), at('hour', 10_100)]);
    await store.swap([at('minute', 10_001 + 49 * 60), at('hour', 10_001 + 93 * 24)]);
    const places = (['minute', 'hour'] as const).flatMap((part) => [10_000, 10_100].map((at) => ({ part, at })));
    expect((await store.read(places)).map((found) => found !== null)).toEqual([false, true, false, true]);
  });
});

describe('traffic in Redis', () => {
  const open = async () => {
    const { url } = await testRedis();
    await redisCommand(url, 'FLUSHDB');
    return { url, store: (await gatewayOn(url)).traffic };
  };
  trafficStoreContract(async () => (await open()).store);

  test('expires: minutes after 49 hours, hours after 93 days', async () => {
    const { url, store } = await open();
    const swap = (part: 'names' | 'minute' | 'hour') => ({ part, at: 7, before: null, after: Buffer.of(1) });
    await store.swap([swap('names'), swap('minute'), swap('hour')]);
    const hours = async (part: 'names' | 'minute' | 'hour') =>
      Math.ceil(Number(await redisCommand(url, 'TTL', keyspace.traffic(part, 7))) / 3_600);
    expect([await hours('minute'), await hours('hour'), await hours('names')]).toEqual([49, 93 * 24, 94 * 24]);
  });

  describe('in a cluster', () => {
    trafficStoreContract(async () => {
      const { redis, traffic } = await gatewayOn((await privateCluster()).url);
      await redis.del(...(['minute', 'hour', 'names'] as const).map((part) => keyspace.traffic(part, 0)));
      return traffic;
    });
  });
});
