import { writeFileSync } from 'node:fs';
import { appendFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Configuration, loadConfiguration } from '../../src/config/settings.ts';
import { SettingsFiles } from '../../src/config/settings-files.ts';
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
let files: SettingsFiles;

function filesUnder(variables: Readonly<Record<string, string | undefined>>): SettingsFiles {
  return new SettingsFiles(variables, loaded(), {
    onChange: (read) => {
      taken.push([...read.plans.plans.keys()]);
      return true;
    },
    onRefused: (faults) => refused.push(...faults),
    onSame: () => {},
  });
}

function loaded(): Configuration {
  const read = loadConfiguration(env);
  if ('faults' in read) throw new Error(read.faults.join());
  return read;
}

beforeEach(async () => {
  const folder = await temporaryFolder();
  plans = join(folder, 'plans.yaml');
  env = { TOLLGATE_CONFIG: join(folder, 'gateway.yaml'), TOLLGATE_PLANS: plans };
  await writeFile(env.TOLLGATE_CONFIG!, GATEWAY);
  await writeFile(plans, 'plans: { free: { limits: { minute: 1 } } }\n');
  [taken, refused] = [[], []];
});

afterEach(() => files.close());

test('what changes between the start and the first look is taken', async () => {
  const before = loaded();
  await writeFile(plans, HALF + REST);
  files = new SettingsFiles(env, before, {
    onChange: (read) => taken.push([...read.plans.plans.keys()]) > 0,
    onRefused: (faults) => refused.push(...faults),
    onSame: () => {},
  });
  files.follow();
  await eventually(() => expect(taken).toEqual([['free', 'pro']]));
});

test('a signal in the middle of a write takes the whole file, and no half of it', async () => {
  files = filesUnder(env);
  await writeFile(plans, HALF);
  files.readSoon();
  await appendFile(plans, REST);
  await eventually(() => expect(taken).toEqual([['free', 'pro']]));
  expect(refused).toEqual([]);
});

test('a file that is written to while it is read is left for the next look', async () => {
  let reads = 0;
  const meddled = {
    ...env,
    // Asked for at the construction, and then by each reading, before the file is opened.
    get TOLLGATE_PLANS() {
      if (++reads === 2) writeFileSync(plans, HALF);
      return plans;
    },
  };
  files = filesUnder(meddled);
  files.readSoon(Number.POSITIVE_INFINITY);
  expect([reads > 1, taken, refused]).toEqual([true, [], []]);
  await appendFile(plans, REST);
  files.follow();
  await eventually(() => expect(taken).toEqual([['free', 'pro']]));
});
