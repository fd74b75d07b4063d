/** What a request is counted as. */
export type Outcome = 'admitted' | 'refused' | 'banned' | 'unauthenticated' | 'uncounted' | 'lost';

export type Counts = Record<Outcome, number>;

const OUTCOMES: readonly Outcome[] = ['admitted', 'refused', 'banned', 'unauthenticated', 'uncounted', 'lost'];

export function noCounts(): Counts {
  return { admitted: 0, refused: 0, banned: 0, unauthenticated: 0, uncounted: 0, lost: 0 };
}

export function totalOf(counts: Readonly<Counts>): number {
  return OUTCOMES.reduce((sum, outcome) => sum + counts[outcome], 0);
}
