import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { loadConfiguration } from '../../../src/config/settings.ts';
import { writeSettings } from '../../../tools/bench/contestants/tollgate.ts';
import { FEATURES, featureOf, PLAIN_GET } from '../../../tools/bench/features.ts';
import { KEY, messageOf } from '../../../tools/bench/request.ts';

const PLACE = {
  upstreamPort: 9000,
  port: 8080,
  adminPort: 9090,
  redisUrl: 'redis://127.0.0.1:6379',
  workers: 1,
  isBare: false,
};

describe.each(FEATURES)('$name', ({ plain, settings, load }) => {
  test('has settings that the gateway accepts', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const found = await loadConfiguration(await writeSettings(folder, PLACE, settings));
    expect('faults' in found ? found.faults : []).toEqual([]);
  });

  test('is compared with the same kind of load without a feature', () => {
    if (plain === null) return expect(settings).toEqual({});
    const other = featureOf(plain)!;
    expect(settings).not.toEqual({});
    expect(other.plain).toBeNull();
    expect(load).toMatchObject({ keyKind: other.load.keyKind, request: { method: other.load.request.method } });
    expect(load.request.body).toBe(other.load.request.body);
  });

  test('has one place for the key in its request', () => {
    expect(messageOf(load.request, 8080).split(KEY)).toHaveLength(2);
  });
});

test('no two features have one name, and the plain GET comes first', () => {
  const names = FEATURES.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(names[0]).toBe(PLAIN_GET);
});
