import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Plan, WINDOWS, type WindowName } from '../admit/plan.ts';
import { digestOf } from '../identify/api-key.ts';
import { newKey } from '../identify/key-changes.ts';
import { type OpenStore, withStore } from './open-store.ts';

export interface DemoKey {
  readonly plan: string;
  readonly key: string;
}

/** What a demo key brings where its plan says `custom` (contract section 1: enterprise with 1000/100000). */
const CUSTOM: Readonly<Record<WindowName, number>> = { second: 100, minute: 1_000, hour: 20_000, day: 100_000 };

/**
 * A demo key for each plan, the same at each start: kept with their secrets in the data folder, readable to its owner
 * only. Only `npm start` makes any. One that was revoked or lost its record is made anew.
 */
export function demoKeys(env: NodeJS.ProcessEnv): Promise<readonly DemoKey[]> {
  return withStore(env, async (store) => {
    const file = join(store.settings.dataFolder, 'demo-keys.json');
    const before = read(file);
    const keys: DemoKey[] = [];
    for (const plan of store.plans.plans.values()) {
      const kept = before[plan.name];
      const key = kept !== undefined && (await works(store, kept, plan)) ? kept : await make(store, plan);
      keys.push({ plan: plan.name, key });
    }
    const after = Object.fromEntries(keys.map(({ plan, key }) => [plan, key]));
    if (JSON.stringify(after) !== JSON.stringify(before)) write(file, after);
    return keys;
  });
}

async function works({ keys, peppers }: OpenStore, secret: string, plan: Plan): Promise<boolean> {
  for (const pepper of peppers) {
    const key = await keys.findByDigest(digestOf(secret, pepper));
    if (key !== null) return key.revokedAtMs === null && key.plan === plan.name;
  }
  return false;
}

async function make({ keys, peppers, plans }: OpenStore, plan: Plan): Promise<string> {
  const custom = WINDOWS.filter((window) => plan.limits[window] === 'custom');
  const limits = Object.fromEntries(custom.map((window) => [window, CUSTOM[window]]));
  const wishes = { plan: plan.name, limits, name: `demo ${plan.name}`, owner: null, expiresAtMs: null };
  const { key, secret } = newKey(wishes, {
    plans: plans.plans,
    pepper: peppers[0]!,
    random: randomBytes,
    nowMs: Date.now(),
  });
  await keys.create(key);
  return secret;
}

function read(file: string): Readonly<Record<string, string>> {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>;
  } catch {
    return {};
  }
}

/** Whole or not at all. */
function write(file: string, keys: Readonly<Record<string, string>>): void {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(keys, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}
