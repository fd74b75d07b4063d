import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Lane, startWorld, type World } from '../../../tools/fuzz/world.ts';
import { desyncPermutations, type Permutation, smugglerMutations } from './http1-permutations.ts';

// Smuggling by permutation: README.md beside this file. `npm run conformance` plays all, `npm test` so many of each.
const SAMPLE = 400;
const SEED = 20_261_122;
/** Connections at a time. */
const LANES = 16;

const SUITES: Readonly<Record<string, Permutation[]>> = {
  'defparam/smuggler': smugglerMutations(),
  'aws/http-desync-guardian': desyncPermutations(),
};

let world: World;
let lanes: readonly Lane[];

beforeAll(async () => {
  world = await startWorld(LANES);
  lanes = Array.from({ length: LANES }, () => world.lane());
});

afterAll(() => world.stop());

for (const [suite, all] of Object.entries(SUITES)) {
  const chosen = process.env.CONFORMANCE === 'all' ? all : sampleOf(all);

  test(`none of ${chosen.length} permutations (of ${all.length}) of ${suite} smuggles a request: the upstream sees what the bytes say without doubt, or less (reliability 1-5, 16-19)`, async ({
    task,
  }) => {
    task.meta.conformance = { suite, id: 'permutations', cases: chosen.length, verdict: 'conforms' };
    const { problems, forwarded } = await play(chosen);
    expect(problems.join('\n')).toBe('');
    expect(world.deaths).toBe(0);
    // Some are sound. Were none of them forwarded, this would only show a gateway that refuses everything.
    expect(forwarded).toBeGreaterThan(chosen.length / 100);
  }, 600_000);
}

/** Plays each on a connection of its own. */
async function play(permutations: readonly Permutation[]): Promise<{ problems: string[]; forwarded: number }> {
  const before = world.upstreams.store.requests;
  const problems: string[] = [];
  const left = [...permutations];
  const run = async (lane: Lane) => {
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      const { name, template } = next;
      await lane.request({ template, cuts: [], harmless: false }).catch((error: unknown) => {
        problems.push(`${name}: ${error}\n${JSON.stringify(template)}`);
      });
    }
  };
  await Promise.all(lanes.map(run));
  return { problems, forwarded: world.upstreams.store.requests - before };
}

/** The same ones each time, from all over the list. */
function sampleOf(all: readonly Permutation[]): Permutation[] {
  const pool = [...all];
  let state = SEED;
  return Array.from({ length: SAMPLE }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return pool.splice(Math.floor((state / 2 ** 32) * pool.length), 1)[0]!;
  });
}
