import { writeFileSync } from 'node:fs';
import { appendFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { type Configuration, loadConfiguration } from '../../src/config/settings.ts';
import { SettingsWatcher } from '../../src/config/settings-watcher.ts';
import { eventually } from '../support/conditions.ts';
import { temporaryFolder } from '../support/processes.ts';

const GATEWAY = `
upstreams: { store: { targets: [http://127.0.0.1:9000] } }
routes: [{ path: /v1/pets, methods: [GET], upstream: store }]
`;
/** Sound by itself: who reads it while the rest is being written takes the second plan for gone. */
const HALF = 'plans:\n  free: { limits: { minute: 2 } }\n';
const REST = '  pro: { limits: { minute: 3 } }\n';

let plans: string;
let env: Record<string, string>;
let taken: string[][];
let refused: string[];
let same: number;
/** What bringing a change into force waits for. */
let goesOn: Promise<void>;
let files: SettingsWatcher;

const threads = () => process.getActiveResourcesInfo().filter((it) => it === 'Worker' || it === 'MessagePort').length;

async function filesUnder(variables: Readonly<Record<string, string | undefined>>): Promise<SettingsWatcher> {
  return new SettingsWatcher(variables, await loaded(), {
    onChange: async ({ configuration }) => {
      taken.push([...configuration.plans.plans.keys()]);
      await goesOn;
      return true;
    },
    onRefused: ({ files }) => refused.push(...files.flatMap(({ faults }) => faults)),
    onSame: () => same++,
  });
}

async function loaded(): Promise<Configuration> {
  const read = await loadConfiguration(env);
  if ('faults' in read) throw new Error(read.faults.join());
  return read;
}

beforeEach(async () => {
  const folder = await temporaryFolder();
  plans = join(folder, 'plans.yaml');
  env = { TOLLGATE_CONFIG: join(folder, 'gateway.yaml'), TOLLGATE_PLANS: plans };
  await writeFile(env.TOLLGATE_CONFIG!, GATEWAY);
  await writeFile(plans, 'plans: { free: { limits: { minute: 1 } } }\n');
  [taken, refused, same, goesOn] = [[], [], 0, Promise.resolve()];
});

afterEach(() => files.close());

test('what changes between the start and the first look is taken', async () => {
  const before = await loaded();
  await writeFile(plans, HALF + REST);
  files = new SettingsWatcher(env, before, {
    onChange: async ({ configuration }) => taken.push([...configuration.plans.plans.keys()]) > 0,
    onRefused: ({ files }) => refused.push(...files.flatMap(({ faults }) => faults)),
    onSame: () => {},
  });
  files.follow();
  await eventually(() => expect(taken).toEqual([['free', 'pro']]));
});

// What a change takes beyond that is the time to read it.
test('a change is read by the second poll that finds it, half a second after it was made', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  files = await filesUnder(env);
  files.follow();
  await writeFile(plans, HALF + REST);
  vi.advanceTimersByTime(500);
  await eventually(() => expect(taken).toEqual([['free', 'pro']]));
});

test('a signal in the middle of a write takes the whole file, and no half of it', async () => {
  files = await filesUnder(env);
  await writeFile(plans, HALF);
  files.readSoon();
  await appendFile(plans, REST);
  await eventually(() => expect(taken).toEqual([['free', 'pro']]));
  expect(refused).toEqual([]);
});

test('a file that is written to while it is read is left for the next look', async () => {
  files = await filesUnder(env);
  await writeFile(plans, HALF);
  files.readSoon(Number.POSITIVE_INFINITY);
  writeFileSync(plans, HALF + REST);
  files.follow();
  await eventually(() => expect(taken).not.toEqual([]));
  expect([taken, refused]).toEqual([[['free', 'pro']], []]);
});

test('of changes that come while another is brought into force none is lost, and the last is in force', async () => {
  const going = Promise.withResolvers<void>();
  goesOn = going.promise;
  files = await filesUnder(env);
  await writeFile(plans, HALF);
  files.readSoon(Number.POSITIVE_INFINITY);
  await eventually(() => expect(taken).toEqual([['free']]));
  // A signal for each; neither is read before the first is in force.
  await writeFile(plans, HALF.replace('free', 'second'));
  files.readSoon(Number.POSITIVE_INFINITY);
  await writeFile(plans, HALF.replace('free', 'third'));
  files.readSoon(Number.POSITIVE_INFINITY);
  expect(taken).toEqual([['free']]);
  going.resolve();
  await eventually(() => expect(taken).toEqual([['free'], ['third']]));
});

test('closed while it reads, it tells nothing more and leaves no thread behind', async () => {
  files = await filesUnder(env);
  await writeFile(plans, HALF);
  files.readSoon(Number.POSITIVE_INFINITY);
  expect(threads()).toBe(1);
  await files.close();
  expect([threads(), taken, refused]).toEqual([0, [], []]);
  files.readSoon(Number.POSITIVE_INFINITY);
  expect(threads()).toBe(0);
});

test('a thread is there for one reading, and for none where nothing has changed', async () => {
  files = await filesUnder(env);
  files.readSoon(Number.POSITIVE_INFINITY);
  await eventually(() => expect(same).toBe(1));
  await eventually(() => expect(threads()).toBe(0));
});
