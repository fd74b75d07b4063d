import fc from 'fast-check';
import { leftOpen, type OpenResources, restingResources } from '../../test/support/open-resources.ts';
import { type AnswerCase, answerCase } from './answers.ts';
import type { WatchedGateway } from './gateway.ts';
import { type RequestCase, requestCase } from './requests.ts';
import { type Lane, startWorld, type World } from './world.ts';

export interface CampaignOptions {
  readonly exchanges: number;
  readonly seed: number;
  /** Exchanges at a time, 8 by default. */
  readonly lanes?: number;
  readonly onProgress?: (done: number) => void;
}

export interface CampaignResult {
  /** That ran, shrinking included. */
  readonly exchanges: number;
  /** Requests that reached an upstream. */
  readonly forwarded: number;
  /** Each with its seed, and the shrunk bytes as a JavaScript string. */
  readonly failures: readonly string[];
  /** Resident memory of the gateway, MiB: after a tenth of the exchanges, and at the end. */
  readonly rssMib: { readonly early: number; readonly end: number };
  /** What was still open or under way when all was over; empty when nothing was. */
  readonly left: readonly string[];
  readonly tookMs: number;
}

type Case =
  | { readonly kind: 'request'; readonly it: RequestCase }
  | { readonly kind: 'answer'; readonly it: AnswerCase };

const anyCase: fc.Arbitrary<Case> = fc.oneof(
  requestCase.map((it) => ({ kind: 'request' as const, it })),
  answerCase.map((it) => ({ kind: 'answer' as const, it })),
);

/** Attempts to shrink one failure. */
const MAX_SHRINKS = 400;

/** Runs generated exchanges through a gateway of its own. The same seed and numbers give the same bytes. */
export async function runCampaign(options: CampaignOptions): Promise<CampaignResult> {
  const { exchanges, seed, lanes = 8, onProgress = () => {} } = options;
  const startedAtMs = performance.now();
  const world = await startWorld(lanes);
  try {
    const before = await restingResources(await world.gateway());
    const progress = { done: 0, earlyMib: 0 };
    const count = async () => {
      if (++progress.done === Math.ceil(exchanges / 10)) progress.earlyMib = (await world.gateway()).rssMib();
      onProgress(progress.done);
    };
    const runs = Array.from({ length: lanes }, (_, i) => {
      const numRuns = Math.ceil((exchanges - i) / lanes);
      return runLane(world.lane(), { numRuns, seed: seed + i, count });
    });
    const failures = (await Promise.all(runs)).flat();
    const gateway = await world.gateway();
    const left = await leftBehind(gateway, before, world);
    if (world.deaths > 0) failures.push(`The gateway died ${world.deaths} times.`);
    return {
      exchanges: progress.done,
      forwarded: Object.values(world.upstreams).reduce((sum, { requests }) => sum + requests, 0),
      failures,
      rssMib: { early: progress.earlyMib, end: gateway.rssMib() },
      left,
      tookMs: performance.now() - startedAtMs,
    };
  } finally {
    await world.stop();
  }
}

interface LaneRun {
  readonly numRuns: number;
  readonly seed: number;
  readonly count: () => Promise<void>;
}

async function runLane(lane: Lane, { numRuns, seed, count }: LaneRun): Promise<string[]> {
  let failedRuns = 0;
  const property = fc.asyncProperty(anyCase, async ({ kind, it }) => {
    if (failedRuns > MAX_SHRINKS) return;
    await count();
    try {
      await (kind === 'request' ? lane.request(it) : lane.answer(it));
    } catch (error) {
      failedRuns++;
      throw error;
    }
    // What does not fail while shrinking counts too, or a rare failure is shrunk for ever.
    if (failedRuns > 0) failedRuns++;
  });
  const { failed, counterexample, counterexamplePath, errorInstance } = await fc.check(property, { numRuns, seed });
  if (!failed) return [];
  const { kind, it } = counterexample![0];
  const { template, ...rest } = it;
  const bytes = JSON.stringify(template);
  return [`${errorInstance}\n  seed ${seed}, path ${counterexamplePath}, ${kind} ${JSON.stringify(rest)}\n  ${bytes}`];
}

/** Waits for everything to come to rest. */
async function leftBehind(gateway: WatchedGateway, before: OpenResources, { upstreams }: World): Promise<string[]> {
  const beforeEach = () => {
    for (const upstream of Object.values(upstreams)) upstream.closeIdle();
  };
  const left = [...(await leftOpen(gateway, before, { withinMs: 5_000, beforeEach }))];
  if (upstreams.store.busy > 0) left.push(`${upstreams.store.busy} requests at the upstream`);
  return left;
}
