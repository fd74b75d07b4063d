import { type History, historyOf, textOf } from './history.ts';
import { planText } from './plans.ts';
import { play } from './play.ts';
import { shrink } from './shrink.ts';

export interface SimulationOptions {
  /** The seed of the first history; each further one has the next seed. */
  readonly seed: number;
  readonly histories: number;
  /** Called now and then with the number of histories that were played. */
  readonly onProgress?: (played: number) => void;
  readonly signal?: AbortSignal;
}

export interface Simulation {
  readonly played: number;
  /** The number of requests by who answered them. */
  readonly answers: { store: number; lease: number; memory: number; local: number };
  /** The first history that broke a bound, shrunk, as text; null if all bounds held. */
  readonly broken: string | null;
}

const PROGRESS_EVERY = 500;

/** Plays histories until one breaks a bound. */
export async function simulate({ seed, histories, onProgress, signal }: SimulationOptions): Promise<Simulation> {
  const answers = { store: 0, lease: 0, memory: 0, local: 0 };
  for (let played = 0; played < histories; played++) {
    if (signal?.aborted) return { played, answers, broken: null };
    const history = historyOf(seed + played);
    const result = await play(history);
    answers.store += result.answers.store;
    answers.lease += result.answers.lease;
    answers.memory += result.answers.memory;
    answers.local += result.answers.local;
    if (result.broken !== null) return { played: played + 1, answers, broken: await reportOn(history) };
    if (played % PROGRESS_EVERY === 0) onProgress?.(played);
  }
  return { played: histories, answers, broken: null };
}

async function reportOn(history: History): Promise<string> {
  const short = await shrink(history);
  const { broken } = await play(short);
  const { seed, plans, steps } = short;
  return [
    `A bound broke: ${broken}`,
    `Seed ${seed}. Shrunk from ${history.steps.length} steps to ${steps.length}:`,
    ...steps.map((step, i) => `${String(i + 1).padStart(4)}. ${textOf(step)}`),
    ...plans.map((plan, i) => `Plan ${i}: ${planText(plan)}`),
    `To repeat it: npm run chaos -- --simulated --seed ${seed} --histories 1`,
    '',
  ].join('\n');
}
