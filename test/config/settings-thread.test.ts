import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { type Configuration, loadConfiguration } from '../../src/config/settings.ts';
import type { Reading } from '../../src/config/settings-thread.ts';
import { SettingsReader } from '../../src/config/settings-watcher.ts';
import { atEnd } from '../support/endings.ts';
import { temporaryFolder } from '../support/processes.ts';

const MANY = 1_234;
const UPSTREAMS = 'upstreams: { store: { targets: [http://127.0.0.1:9000] } }\n';

let env: { TOLLGATE_CONFIG: string; TOLLGATE_PLANS: string };

beforeEach(async () => {
  const folder = await temporaryFolder();
  env = { TOLLGATE_CONFIG: join(folder, 'gateway.yaml'), TOLLGATE_PLANS: join(folder, 'plans.yaml') };
  const routes = Array.from(
    { length: MANY },
    (_, i) => `  - { path: '/v1/a${i}/{b}', methods: [GET], upstream: store }\n`,
  );
  await writeFile(env.TOLLGATE_CONFIG, `${UPSTREAMS}routes:\n${routes.join('')}`);
  await writeFile(env.TOLLGATE_PLANS, `plans:\n${plansOf(MANY)}`);
});

const plansOf = (count: number) =>
  Array.from({ length: count }, (_, i) => `  p${i}: { limits: { minute: ${i + 1} } }\n`).join('');

function readerFor(heapMb?: number): SettingsReader {
  const reader = new SettingsReader(env, heapMb);
  atEnd(() => reader.end());
  return reader;
}

function sound(read: Reading) {
  if ('files' in read) throw new Error(read.files.flatMap(({ faults }) => faults).join());
  return read;
}

/** The first value within that could be changed, if there is one. An `expect` for each of so many values takes seconds. */
function unfrozenWithin(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!Object.isFrozen(value)) return value;
  for (const inner of value instanceof Map ? value.values() : Object.values(value)) {
    const unfrozen = unfrozenWithin(inner);
    if (unfrozen !== undefined) return unfrozen;
  }
  return undefined;
}

test('what the thread has read is what this thread would have read, and frozen', async () => {
  const { configuration } = sound(await readerFor().read());
  const here = (await loadConfiguration(env)) as Configuration;
  expect(configuration).toEqual(here);
  expect(unfrozenWithin(configuration)).toBeUndefined();
  expect(() => (configuration.plans.plans as Map<string, unknown>).clear()).toThrow('frozen');
});

test('a file that takes more memory than the thread may have ends the thread alone, and is a fault', async () => {
  await writeFile(env.TOLLGATE_PLANS, `plans:\n${plansOf(10_000)}`);
  const read = await readerFor(24).read();
  const faults = [expect.stringMatching(/^The settings cannot be read: .*memory/)];
  expect(read).toEqual({ files: [{ file: 'settings', version: '', faults }], more: 0 });
});

test('of two thousand faults the first hundred come, and the number of the others', async () => {
  await writeFile(env.TOLLGATE_PLANS, `plans:\n${plansOf(2_000).replaceAll('minute', 'x')}`);
  const read = await readerFor().read();
  if (!('files' in read)) throw new Error('read without a fault');
  expect([read.files.map(({ file, faults }) => [file, faults.length]), read.more]).toEqual([[['plans', 100]], 1_900]);
});
