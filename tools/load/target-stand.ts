import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { Failure } from '../../src/failure.ts';
import type { Plans } from '../../src/model/plan.ts';
import { WINDOWS } from '../../src/model/values.ts';
import { boundsOf, KeyMaker } from './key-maker.ts';
import { ownPlans, readPlans } from './own-plans.ts';
import type { Credential, KeyWish, Stand } from './stand.ts';

export interface Target {
  /** Origin of the gateways or of the load balancer before them. */
  readonly url: string;
  /** JSON `[{ "plan", "key", "limits": { "minute": 60, … } }, …]`; null: keys are made in the gateways' store. */
  readonly keysFile: string | null;
}

const FILE = z.array(
  z.strictObject({
    plan: z.string(),
    key: z.string().min(1),
    limits: z.partialRecord(z.enum(WINDOWS), z.int().min(1)),
  }),
);

/** Anything but this machine or a network that is nobody else's would be an attack. */
const HARMLESS = ['loopback', 'private', 'uniqueLocal', 'linkLocal'];

/**
 * Takes gateways that run already. Where there is no file of keys it makes them, which takes what the gateways were given:
 * REDIS_URL and KEY_PEPPER, or the files that hold them, and TOLLGATE_PLANS.
 * @throws Failure where the target is none that may be loaded, or keys cannot be had
 */
export async function targetStand({ url, keysFile }: Target, env: NodeJS.ProcessEnv): Promise<Stand> {
  const origin = await harmless(url);
  const base = { about: `gateways at ${origin}`, origins: [origin], own: false, freshAddresses: false };
  if (keysFile !== null) {
    const plans = plansOf(env);
    return {
      ...base,
      makesKeys: false,
      failedAuthentications: plans.failedAuthenticationPerMinute,
      ...keysFrom(keysFile, plans),
      close: async () => {},
    };
  }
  if (!env.REDIS_URL && !env.REDIS_URL_FILE) {
    throw new Failure(
      'bad_usage',
      'A --target needs keys: name a file with --keys, or give REDIS_URL and KEY_PEPPER (or REDIS_URL_FILE and KEY_PEPPER_FILE) so that they can be made.',
    );
  }
  const maker = await KeyMaker.open(env, ownPlans());
  return {
    ...base,
    makesKeys: true,
    failedAuthentications: maker.plans.failedAuthenticationPerMinute,
    keys: (wish) => maker.keys(wish),
    release: () => {},
    close: () => maker.close(),
  };
}

async function harmless(text: string): Promise<string> {
  const url = URL.parse(text);
  if (url === null || url.protocol !== 'http:') {
    throw new Failure('bad_usage', `--target is '${text}'; it must be an address such as http://127.0.0.1:8080.`);
  }
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const addresses = isIP(host) ? [{ address: host }] : await lookup(host, { all: true }).catch(() => []);
  if (addresses.length === 0) throw new Failure('refused', `--target: the host ${host} has no address.`);
  const strange = addresses.find(({ address }) => !HARMLESS.includes(ipaddr.process(address).range()));
  if (strange === undefined) return url.origin;
  throw new Failure(
    'bad_usage',
    `--target is ${strange.address}, a public address. The load test loads this machine and private networks only.`,
  );
}

function plansOf(env: NodeJS.ProcessEnv): Plans {
  return readPlans(env.TOLLGATE_PLANS || join(import.meta.dirname, '..', '..', 'plans.yaml'));
}

/** Hands out each key to one client at a time: two that share one would each see the other's requests as faults. */
function keysFrom(file: string, { plans }: Plans): Pick<Stand, 'keys' | 'release'> {
  const free = new Set(readKeys(file));
  const lent = new Map<Credential, z.output<typeof FILE>[number]>();
  const lend = ({ plan: wished, standIn, count }: KeyWish) => {
    const name = [...free, ...lent.values()].some(({ plan }) => plan === wished) ? wished : standIn;
    const candidates = [...free].filter(({ plan }) => plan === name);
    const plan = plans.get(name);
    if (plan === undefined || candidates.length < count) {
      throw new Failure(
        'refused',
        `${file} has ${candidates.length} free keys of plan '${name}', and ${count} are needed.`,
      );
    }
    return candidates.slice(0, count).map((entry) => {
      const { key, limits } = entry;
      const bounds = boundsOf(plan, limits);
      const credential = { authorization: `Bearer ${key}`, plan: name, limits: bounds, bans: plan.bans, fresh: false };
      free.delete(entry);
      lent.set(credential, entry);
      return credential;
    });
  };
  const release = (credentials: readonly Credential[]) => {
    for (const credential of credentials) {
      const entry = lent.get(credential);
      if (entry !== undefined) free.add(entry);
      lent.delete(credential);
    }
  };
  return { keys: async (wish) => lend(wish), release };
}

function readKeys(file: string): z.output<typeof FILE> {
  let raw: unknown;
  try {
    raw = JSON.parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new Failure('bad_usage', `--keys: ${file} cannot be read as JSON.`, cause);
  }
  const read = FILE.safeParse(raw);
  if (read.success) return read.data;
  throw new Failure('bad_usage', `--keys: ${file}:\n${z.prettifyError(read.error)}`);
}
