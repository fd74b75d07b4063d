import { expect, test } from 'vitest';
import type { KeyNetworkStore, NetworksSwap } from '../../src/operations/key-network-store.ts';
import { MAX_SEEN, networksReport } from '../../src/operations/key-networks.ts';
import { NetworkCounter } from '../../src/telemetry/network-counter.ts';
import { atEnd } from '../support/endings.ts';

const DAY_MS = 86_400_000;
const START_MS = Date.UTC(2026, 10, 30, 12);

/** A store in memory, and gateways that count into it. */
function counted() {
  const records = new Map<string, string>();
  const state = { nowMs: START_MS, isAway: false, deleted: new Set<string>(), reads: 0 };
  const store: KeyNetworkStore = {
    async read(ids) {
      state.reads++;
      if (state.isAway) throw new Error('away');
      return ids.map((id) => records.get(id) ?? null);
    },
    async swap(swaps: readonly NetworksSwap[]) {
      if (state.isAway) throw new Error('away');
      return swaps.map(({ keyId, before, after }) => {
        if ((records.get(keyId) ?? null) !== before) return false;
        records.set(keyId, after);
        return true;
      });
    },
    async forget(id) {
      records.delete(id);
    },
  };
  const gateway = () => {
    const counter = new NetworkCounter({
      store,
      isKey: async (id) => !state.deleted.has(id),
      nowMs: () => state.nowMs,
    });
    atEnd(() => counter.writes.close());
    const call = (clientAddress: string, consumerId = 'key_a') => counter.count({ consumerId, clientAddress });
    const attempt = (clientAddress: string, last4: string, keyId = 'key_a') =>
      counter.count({ consumerId: null, endedSecret: { keyId, last4 }, clientAddress });
    return { call, attempt, flush: (all = true) => counter.writes.flush(all), uncounted: () => counter.uncounted };
  };
  const report = (id = 'key_a') => networksReport(records.get(id) ?? null, state.nowMs);
  return { gateway, records, report, state };
}

const iso = (ms: number) => new Date(ms).toISOString();

test('networks of several gateways are counted together, with first, last, calls and share', async () => {
  const { gateway, report, state } = counted();
  const [one, other] = [gateway(), gateway()];
  for (let i = 0; i < 6; i++) one.call('203.0.113.7');
  one.call('2001:db8:1:2::9');
  state.nowMs += 60_000;
  other.call('203.0.113.200');
  other.call('::ffff:198.51.100.4');
  await Promise.all([one.flush(), other.flush()]);
  expect(report().networks).toEqual([
    { network: '203.0.113.0/24', firstAt: iso(START_MS), lastAt: iso(state.nowMs), calls: 7, share: 7 / 9 },
    { network: '2001:db8:1::/48', firstAt: iso(START_MS), lastAt: iso(START_MS), calls: 1, share: 1 / 9 },
    { network: '198.51.100.0/24', firstAt: iso(state.nowMs), lastAt: iso(state.nowMs), calls: 1, share: 1 / 9 },
  ]);
  expect([report().others, report().endedSecrets]).toEqual([null, []]);
});

test('calls that are more than 40 days ago are not counted, and a network without others is forgotten', async () => {
  const { gateway, report, state } = counted();
  const { call, flush } = gateway();
  call('203.0.113.7');
  call('198.51.100.7');
  await flush();
  state.nowMs += 40 * DAY_MS;
  call('203.0.113.7');
  await flush();
  expect(report().networks).toEqual([
    { network: '203.0.113.0/24', firstAt: iso(state.nowMs), lastAt: iso(state.nowMs), calls: 1, share: 1 },
  ]);
});

test('a caller from ever new networks hides neither the usual one nor the latest, in a bounded record (reliability 501)', async () => {
  const { gateway, records, report, state } = counted();
  const { call, flush } = gateway();
  for (let i = 0; i < 50; i++) call('203.0.113.7');
  for (let i = 0; i < 2_000; i++) {
    state.nowMs += 1_000;
    call(`10.${i >> 8}.${i & 255}.1`);
    if (i % 7 === 0) await flush();
  }
  state.nowMs += 1_000;
  call('192.0.2.1');
  await flush();
  const { networks, others } = report();
  expect(networks).toHaveLength(MAX_SEEN);
  expect(networks[0]).toMatchObject({ network: '203.0.113.0/24', calls: 50 });
  expect(networks.map(({ network }) => network)).toContain('192.0.2.0/24');
  const sum = networks.reduce((calls, one) => calls + one.calls, others!.calls);
  expect(sum).toBe(2_051);
  expect(records.get('key_a')!.length).toBeLessThan(4_096);
});

test('attempts with ended secrets are counted by secret, with the network of the last one', async () => {
  const { gateway, report, state } = counted();
  const { attempt, flush } = gateway();
  attempt('203.0.113.7', '7YUi');
  attempt('198.51.100.7', 'abcd');
  await flush();
  state.nowMs += 5_000;
  attempt('192.0.2.1', '7YUi');
  await flush();
  expect(report().endedSecrets).toEqual([
    { last4: '7YUi', firstAt: iso(START_MS), lastAt: iso(state.nowMs), network: '192.0.2.0/24', refused: 2 },
    { last4: 'abcd', firstAt: iso(START_MS), lastAt: iso(START_MS), network: '198.51.100.0/24', refused: 1 },
  ]);
  expect(report().networks).toEqual([]);
});

test('nothing is kept of a deleted key, although its last calls are counted only after that', async () => {
  const { gateway, records, state } = counted();
  const { call, attempt, flush } = gateway();
  call('203.0.113.7');
  attempt('203.0.113.7', '7YUi', 'key_b');
  state.deleted.add('key_a');
  await flush();
  expect([...records.keys()]).toEqual(['key_b']);
});

test('what is counted while the store is away is added once it is back', async () => {
  const { gateway, report, state } = counted();
  const { call, flush } = gateway();
  call('203.0.113.7');
  state.isAway = true;
  await flush();
  call('203.0.113.7');
  call('198.51.100.7');
  await flush();
  state.isAway = false;
  await flush();
  expect(report().networks.map(({ calls }) => calls)).toEqual([2, 1]);
});

test('a busy key costs the store no call for ten seconds, and callers without a key none at all', async () => {
  const { gateway, report, state } = counted();
  const { call, flush } = gateway();
  for (let i = 0; i < 1_000; i++) call('203.0.113.7');
  call('203.0.113.7', 'jwt_x');
  await flush(false);
  expect(state.reads).toBe(0);
  state.nowMs += 10_000;
  await flush(false);
  expect([state.reads, report().networks[0]?.calls]).toEqual([1, 1_000]);
});

test('a damaged record is begun anew', async () => {
  const { gateway, records, report } = counted();
  const { call, flush } = gateway();
  records.set('key_a', '{"n":{"203.0.113.0/24":[1,"x"]}}');
  call('203.0.113.7');
  await flush();
  expect(report().networks).toMatchObject([{ calls: 1, share: 1 }]);
});

// Fault: calls of further keys were left out, and no screen said so.
test('calls of more keys than are counted at a time are left out, and how many is known (reliability 514)', async () => {
  const { gateway, report, state } = counted();
  const { call, flush, uncounted } = gateway();
  for (let i = 0; i < 10_000; i++) call('203.0.113.7', `key_${i}`);
  expect(uncounted()).toBe(0);
  for (let i = 0; i < 3; i++) call('203.0.113.7', 'key_late');
  call('203.0.113.7', 'key_0');
  expect(uncounted()).toBe(3);
  state.isAway = true;
  const flushed = flush(false);
  state.nowMs += 20_000;
  await flush(false);
  await flushed;
  state.isAway = false;
  await flush();
  expect([report('key_0').networks[0]?.calls, report('key_late').networks]).toEqual([2, []]);
});
