import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { allowanceOf, type Plan, WINDOWS, type WindowName } from '../admit/plan.ts';
import { digestOf } from '../identify/api-key.ts';
import { newKey } from '../identify/key-changes.ts';
import { type OpenStore, withStore } from './open-store.ts';
import { recorded, resultOfKey } from './recorded.ts';

export interface DemoKey {
  readonly plan: string;
  readonly key: string;
}

/** What a demo key brings where its plan says `custom` (contract section 1: enterprise with 1000/100000). */
const CUSTOM: Readonly<Record<WindowName, number>> = { second: 100, minute: 1_000, hour: 20_000, day: 100_000 };

/**
 * A demo key for each plan, the same at each start: kept with their secrets in the data folder, readable to its owner
 * only. Only `npm start` makes any. One that can no longer be used is made anew.
 */
export function demoKeys(env: NodeJS.ProcessEnv): Promise<readonly DemoKey[]> {
  return withStore(
    env,
    async (store) => {
      const file = join(store.settings.dataFolder, 'demo-keys.json');
      const before = read(file);
      const keys: DemoKey[] = [];
      for (const plan of store.plans.plans.values()) {
        const kept = before.get(plan.name);
        const key = kept !== undefined && (await works(store, kept, plan)) ? kept : await make(store, plan);
        keys.push({ plan: plan.name, key });
      }
      if (!isDeepStrictEqual(before, mapOf(keys))) write(file, mapOf(keys));
      return keys;
    },
    { makesSecrets: true },
  );
}

const mapOf = (keys: readonly DemoKey[]) => new Map(keys.map(({ plan, key }) => [plan, key]));

async function works({ keys, peppers }: OpenStore, secret: string, plan: Plan): Promise<boolean> {
  const nowMs = Date.now();
  const hasEnded = ({ expiresAtMs }: { expiresAtMs: number | null }) => expiresAtMs !== null && expiresAtMs <= nowMs;
  for (const digest of peppers.map((pepper) => digestOf(secret, pepper))) {
    const key = await keys.findByDigest(digest);
    if (key === null) continue;
    const isDead =
      key.revokedAtMs !== null || hasEnded(key) || key.secrets.some((it) => it.digest === digest && hasEnded(it));
    return !isDead && key.plan === plan.name && !('missing' in allowanceOf(plan, key.limits));
  }
  return false;
}

async function make(store: OpenStore, plan: Plan): Promise<string> {
  const { keys, peppers, plans } = store;
  const custom = WINDOWS.filter((window) => plan.limits[window] === 'custom');
  const limits = Object.fromEntries(custom.map((window) => [window, CUSTOM[window]]));
  const wishes = { plan: plan.name, limits, name: `demo ${plan.name}`, owner: null, expiresAtMs: null };
  const { key, secret } = newKey(wishes, {
    plans: plans.plans,
    pepper: peppers[0]!,
    random: randomBytes,
    nowMs: Date.now(),
  });
  await recorded(store, {
    action: 'key.create',
    target: null,
    warn: (line) => process.stderr.write(line),
    work: () => keys.create(key),
    resultOf: (durability) => resultOfKey({ key, durability }),
  });
  return secret;
}

/** By plan. Whatever else the file holds is overwritten. */
function read(file: string): ReadonlyMap<string, string> {
  try {
    const kept: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return new Map(Object.entries(kept ?? {}).filter(([, key]) => typeof key === 'string'));
  } catch {
    return new Map();
  }
}

/** Whole or not at all. */
function write(file: string, keys: ReadonlyMap<string, string>): void {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(Object.fromEntries(keys), null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}
