/** What a key may do in a window; every contestant gives its keys these limits. */
export interface KeyLimits {
  readonly minute: number;
  readonly day: number;
}

export const LIMITS: Readonly<Record<'good' | 'tiny' | 'spent' | 'banned', KeyLimits>> = {
  good: { minute: 1_000_000_000, day: 1_000_000_000 },
  tiny: { minute: 1_000, day: 3 },
  spent: { minute: 1_000_000, day: 10 },
  banned: { minute: 1_000_000, day: 10 },
};
