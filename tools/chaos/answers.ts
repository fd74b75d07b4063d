import type { Outcome } from '../kit/report/outcomes.ts';

/** What came of one request. */
export interface Answer {
  /** What the client is for, such as `steady`. */
  readonly lane: string;
  readonly keyId: string;
  /** Which gateway was asked, from 0. */
  readonly gateway: number;
  /** Milliseconds of performance.now(). */
  readonly sentAtMs: number;
  readonly latencyMs: number;
  /** 0 where no answer came. */
  readonly status: number;
  /** `code` of the Error, of a refusal; what went wrong, where no answer came. */
  readonly code: string | null;
  /** X-RateLimit-Reset, Unix seconds; null where it was not told. */
  readonly resetAtS: number | null;
}

export function outcomeOf({ status, code }: Pick<Answer, 'status' | 'code'>): Outcome {
  if (status === 0) return 'lost';
  if (status === 200) return 'admitted';
  if (status === 401) return 'unauthenticated';
  if (status === 429 && code === 'api_key_banned') return 'banned';
  if (status === 429 && code === 'rate_limit_exceeded') return 'refused';
  return 'uncounted';
}

/** How people are told of it: `200`, `429 quota`, `503 store_unavailable`, `no answer`. */
export function labelOf(answer: Pick<Answer, 'status' | 'code'>): string {
  const outcome = outcomeOf(answer);
  if (outcome === 'lost') return 'no answer';
  if (outcome === 'refused') return '429 quota';
  if (outcome === 'banned') return '429 ban';
  return answer.status === 200 ? '200' : `${answer.status} ${answer.code ?? ''}`.trim();
}

/** Counts answers as they come, so that half an hour of them needs no room. */
export class Tally {
  /** By label, over all lanes. */
  readonly labels = new Map<string, number>();
  longest: Answer | null = null;
  readonly #ofLane = new Map<string, Map<string, number>>();
  readonly #ofKey = new Map<string, Map<Outcome, number>>();
  /** By lane, the earliest and the latest end of the window that was told on a 200. */
  readonly #resets = new Map<string, { readonly fromS: number; readonly toS: number }>();

  add(answer: Answer): void {
    const label = labelOf(answer);
    count(this.labels, label);
    count(entry(this.#ofLane, answer.lane), label);
    count(entry(this.#ofKey, answer.keyId), outcomeOf(answer));
    this.#told(answer);
    if (answer.latencyMs > (this.longest?.latencyMs ?? -1)) this.longest = answer;
  }

  lane(name: string): ReadonlyMap<string, number> {
    return this.#ofLane.get(name) ?? new Map();
  }

  ofKey(id: string, outcome: Outcome): number {
    return this.#ofKey.get(id)?.get(outcome) ?? 0;
  }

  /** By how many seconds the ends of its window differ that admitted requests were told; 0 where none was. */
  resetSpreadS(lane: string): number {
    const resets = this.#resets.get(lane);
    return resets === undefined ? 0 : resets.toS - resets.fromS;
  }

  #told({ lane, status, resetAtS }: Answer): void {
    if (status !== 200 || resetAtS === null) return;
    const { fromS, toS } = this.#resets.get(lane) ?? { fromS: resetAtS, toS: resetAtS };
    this.#resets.set(lane, { fromS: Math.min(fromS, resetAtS), toS: Math.max(toS, resetAtS) });
  }
}

function count<T>(counts: Map<T, number>, what: T): void {
  counts.set(what, (counts.get(what) ?? 0) + 1);
}

function entry<T>(maps: Map<string, Map<T, number>>, name: string): Map<T, number> {
  const known = maps.get(name);
  if (known !== undefined) return known;
  const made = new Map<T, number>();
  maps.set(name, made);
  return made;
}
