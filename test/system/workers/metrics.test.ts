import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { loadConfiguration, type Settings } from '../../../src/config/settings.ts';
import { joinReadiness } from '../../../src/serve/workers/joined-output.ts';
import { shareOf } from '../../../src/serve/workers/worker-context.ts';
import { Durations, RequestTally } from '../../../src/telemetry/durations.ts';
import { JoinedMetrics, type Snapshot } from '../../../src/telemetry/joined-metrics.ts';
import { createMetrics } from '../../../src/telemetry/metrics.ts';

/** What a worker that has these numbers tells. */
async function snapshot({
  up,
  expiresAtMs,
  counted,
}: {
  up: number;
  expiresAtMs: number;
  counted: number;
}): Promise<Snapshot> {
  const { registry, storeFailed } = createMetrics({
    connections: () => 2,
    inFlight: () => 1,
    upstreams: () => [{ name: 'store', inFlight: 3, targets: [{ name: 'a', usable: up === 1, weight: 1 }] }],
    store: () => up,
    certificateExpiresAtMs: () => expiresAtMs,
    versions: () => ({ settings: 's', plans: 'p' }),
  });
  for (let i = 0; i < counted; i++) storeFailed();
  return structuredClone(await registry.getMetricsAsJSON());
}

test('counts and numbers of things are added up, the worst of states is told, and what is a process’s own is told of each', async () => {
  const joined = new JoinedMetrics();
  const [first, second] = [
    await snapshot({ up: 1, expiresAtMs: 7_000, counted: 2 }),
    await snapshot({ up: 0, expiresAtMs: 5_000, counted: 3 }),
  ];
  joined.connectionDropped('connections');
  joined.workerLost();
  const { text, contentType } = await joined.text([
    { worker: 1, metrics: first },
    { worker: 2, metrics: second },
  ]);
  expect(contentType).toMatch(/^text\/plain; version=0\.0\.4/);
  for (const line of [
    'tollgate_store_failures_total 5',
    'tollgate_connections 4',
    'tollgate_in_flight 2',
    'tollgate_upstream_in_flight{upstream="store"} 6',
    'tollgate_workers 2',
    'tollgate_store_up 0',
    'tollgate_upstream_target_up{upstream="store",target="a"} 0',
    'tollgate_tls_certificate_expiry_timestamp_seconds 5',
    'tollgate_settings_info{settings="s",plans="p"} 1',
    'tollgate_connections_dropped_total{reason="connections"} 1',
    'tollgate_workers_lost_total 1',
  ]) {
    expect(text.split('\n')).toContain(line);
  }
  for (const worker of ['1', '2', 'supervisor']) {
    expect(text).toMatch(new RegExp(`^process_resident_memory_bytes\\{worker="${worker}"\\} \\d+$`, 'm'));
    expect(text).toMatch(new RegExp(`^nodejs_eventloop_lag_p99_seconds\\{worker="${worker}"\\} (\\d|Nan)`, 'm'));
  }
  // Each is told of once, and nothing that a reader of the format would stumble on.
  const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(text.replace(/^#.*$/gm, '')).not.toMatch(/null|undefined|\[object/);
});

test('what a worker had counted when it ended stays counted, what it held does not', async () => {
  const joined = new JoinedMetrics();
  joined.keep(await snapshot({ up: 0, expiresAtMs: 5_000, counted: 2 }));
  joined.keep(await snapshot({ up: 0, expiresAtMs: 5_000, counted: 3 }));
  const metrics = await snapshot({ up: 1, expiresAtMs: 7_000, counted: 4 });
  const { text } = await joined.text([{ worker: 1, metrics }]);
  expect(text).toMatch(/^tollgate_store_failures_total 9$/m);
  expect(text).toMatch(/^tollgate_connections 2$/m);
  expect(text).toMatch(/^tollgate_workers 1$/m);
  expect(text).toMatch(/^tollgate_store_up 1$/m);
});

test('our own counters and histograms are added up by label and by bucket', async () => {
  const one = async (seconds: readonly number[]) => {
    const registry = new Registry();
    const durations = new Durations(registry, {
      name: 'd',
      help: 'durations',
      bounds: [0.1, 1],
      parts: ['total'],
      upstreams: () => [{ name: 'store', targets: [{ name: 'a' }] }],
      monotonicMs: () => 0,
    });
    const tally = new RequestTally(registry, 't', 'tally', ['plan']);
    for (const each of seconds) {
      durations.of('store', 'a').total.add(each);
      tally.count(each > 1 ? 'slow' : 'fast');
    }
    return structuredClone((await registry.getMetricsAsJSON()) as Snapshot);
  };
  const { text } = await new JoinedMetrics().text([
    { worker: 1, metrics: await one([0.05, 0.5]) },
    { worker: 2, metrics: await one([0.5, 4]) },
    { worker: 3, metrics: await one([]) },
  ]);
  expect(text).toContain(
    [
      'd_bucket{le="0.1",part="total",upstream="store",target="a"} 1',
      'd_bucket{le="1",part="total",upstream="store",target="a"} 3',
      'd_bucket{le="+Inf",part="total",upstream="store",target="a"} 4',
      'd_sum{part="total",upstream="store",target="a"} 5.05',
      'd_count{part="total",upstream="store",target="a"} 4',
    ].join('\n'),
  );
  expect(text).toContain('t{plan="fast"} 3\nt{plan="slow"} 1');
});

test('it is ready while one worker is, and tells the worst of what they say of the store and the settings', () => {
  const well = { ready: true, store: 'present', draining: false } as const;
  const away = { ready: false, store: 'away', draining: false, outage: { reason: 'x', lastsMs: 5 } } as const;
  const refused = { ...well, settings: 'refused', faults: ['plans.yaml:1:1: bad'] } as const;
  expect(joinReadiness([well, away], [], false)).toEqual({ ...away, ready: true, workers: [] });
  expect(joinReadiness([well, refused, refused], [], false)).toEqual({ ...refused, workers: [] });
  expect(joinReadiness([away], [], false).ready).toBe(false);
  expect(joinReadiness([well], [], true)).toMatchObject({ ready: false, draining: true });
  expect(joinReadiness([], [], false)).toMatchObject({ ready: false, store: 'never_reached' });
});

test('the shares of all workers together are the whole, each is at least 1, and the rest is as it was', async () => {
  const configuration = await loadConfiguration({});
  if ('faults' in configuration) throw new Error(configuration.faults.join());
  const whole = configuration.settings;
  const shares = [1, 2, 3].map((worker) => shareOf(whole, worker, 3));
  const sum = (pick: (settings: Settings) => number) => shares.reduce((total, share) => total + pick(share), 0);
  for (const pick of [
    ({ listen }: Settings) => listen.maxConnections,
    ({ websockets }: Settings) => websockets.max,
    ({ upstreams }: Settings) => upstreams.get('store')!.maxConnections,
    ({ upstreams }: Settings) => upstreams.get('store')!.maxQueue,
  ]) {
    expect(sum(pick)).toBe(pick(whole));
  }
  expect(shareOf(whole, 256, 256).upstreams.get('store')?.maxConnections).toBe(1);
  const [share] = shares;
  expect(share?.listen.drainTimeoutMs).toBe(whole.listen.drainTimeoutMs);
  expect(share?.websockets.maxPerKey).toBe(whole.websockets.maxPerKey);
  expect(share?.routes).toBe(whole.routes);
  // A part of what the worker has, so that what one consumer may have is divided, too.
  expect(share?.upstreams.get('store')?.fairShare).toBe(0.25);
});
