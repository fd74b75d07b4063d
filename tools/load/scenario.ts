import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { duration } from '../../src/config/setting-values.ts';
import { Failure } from '../../src/failure.ts';
import { WINDOWS } from '../../src/model/values.ts';

const length = () => duration('100ms', '10m');
const count = (most: number) => z.int().min(1).max(most);

const client = z
  .strictObject({
    name: z.string().regex(/^[a-z][a-z0-9-]{0,31}$/),
    /** Of plans.yaml beside this file. */
    plan: z.string(),
    /** The plan to take in its place where the gateways have plans of their own. */
    standIn: z.string(),
    /** Limits that each key brings, where the plan says `custom`. */
    limits: z.partialRecord(z.enum(WINDOWS), count(1_000_000)).prefault({}),
    keys: count(100).prefault(1),
    /** How often: so many a second and key; or so many at once, every so often; or so many always under way. */
    rate: z.number().min(0.1).max(1_000).optional(),
    burst: z.strictObject({ size: count(500), every: length() }).optional(),
    inFlight: count(100).optional(),
    /** What it does after a 429. `wait-out-bans`: goes on, but waits when it is banned. */
    refused: z.enum(['wait', 'wait-out-bans', 'ignore']),
    /** Left out where the scenario is run without abusers. */
    abuser: z.boolean().prefault(false),
    credentials: z.enum(['key', 'wrong', 'malformed', 'missing']).prefault('key'),
    path: z.string().startsWith('/').prefault('/v1/pets?limit=1'),
    /** What each request costs there. A cost other than 1 needs a route that only the test's own gateways have. */
    cost: count(100).prefault(1),
    /** The loopback address that it calls from. */
    address: z.ipv4().startsWith('127.').optional(),
    expect: z.array(z.int().min(200).max(599)).min(1).prefault([200, 429]),
  })
  .refine(
    ({ rate, burst, inFlight }) => [rate, burst, inFlight].filter((pace) => pace !== undefined).length === 1,
    'give one of rate, burst and inFlight',
  );

const scenarioFile = z.strictObject({
  about: z.string(),
  duration: length(),
  /** How long it is run without abusers first. */
  without: length().optional(),
  /** True: runs beside all others, because it has to wait for long. */
  beside: z.boolean().prefault(false),
  clients: z.array(client).min(1).max(20),
});

/** One kind of client: so many keys, each of which does the same. */
export type ClientKind = z.output<typeof client>;

export type Scenario = z.output<typeof scenarioFile> & { readonly name: string };

/** Where the scenarios that come with the test are. */
export const SCENARIOS = join(import.meta.dirname, 'scenarios');

/** In the order of their run: what is harmless first, so that a fault shows at its simplest. */
const ORDER = ['steady', 'burst', 'flood', 'abusers', 'bad-keys', 'mixed', 'patience'];

/** The scenarios that come with the test, by name. */
export function namesOfScenarios(): string[] {
  const names = readdirSync(SCENARIOS).map((file) => basename(file, '.yaml'));
  const rank = (name: string) => (ORDER.indexOf(name) + ORDER.length + 1) % (ORDER.length + 1);
  return names.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

/**
 * Reads one scenario.
 * @param nameOrFile the name of one that comes with the test, or a YAML file
 * @throws Failure `bad_usage` with what is wrong with it
 */
export function readScenario(nameOrFile: string): Scenario {
  const isFile = /[./\\]/.test(nameOrFile);
  const file = isFile ? nameOrFile : join(SCENARIOS, `${nameOrFile}.yaml`);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    const known = `The scenarios are ${namesOfScenarios().join(', ')}; a file is named by its path.`;
    throw new Failure('bad_usage', `There is no scenario '${nameOrFile}'. ${known}`, cause);
  }
  return { name: basename(file, '.yaml'), ...parseScenario(text, file) };
}

/** @throws Failure `bad_usage` */
export function parseScenario(text: string, file: string): z.output<typeof scenarioFile> {
  let raw: unknown;
  try {
    raw = parse(text);
  } catch (cause) {
    throw new Failure('bad_usage', `${file}: ${cause instanceof Error ? cause.message : cause}`, cause);
  }
  const read = scenarioFile.safeParse(raw);
  if (read.success) return read.data;
  throw new Failure('bad_usage', `${file}:\n${z.prettifyError(read.error)}`);
}
