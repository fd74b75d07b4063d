/** Files in which mistakes are planted, and the tests that must notice them. */
export interface Room {
  /** Patterns of files. */
  readonly files: readonly string[];
  readonly tests: readonly string[];
  /** Its tests open a gateway each, so even a sample takes longer than CI waits. A sample is of it only if it is named. */
  readonly isSlow?: boolean;
}

const whole = (name: string): Room => ({ files: [`src/${name}/*.ts`], tests: [`test/${name}/**/*.test.ts`] });

export const ROOMS: Readonly<Record<string, Room>> = {
  admit: whole('admit'),
  // `reconcile.ts` runs in Redis alone, as Lua that was made of it: its tests with a Redis notice no mistake that is planted here.
  engine: { files: ['src/engine/*.ts'], tests: ['test/engine/**/*.test.ts', 'test/admit/**/*.test.ts'] },
  gateway: { ...whole('gateway'), isSlow: true },
  http1: whole('http1'),
  identify: whole('identify'),
  routing: whole('routing'),
  // What reads the replies and the rows of a store and decides by them. The rest of the stores is calls to Redis and SQLite, whose
  // tests wait for servers and files: a hundred mistakes would take eight minutes there.
  stores: {
    files: ['src/stores/embedded/accounts.ts', 'src/stores/redis/decision-call.ts'],
    tests: [
      'test/stores/decision-reply.test.ts',
      'test/stores/embedded-accounts.test.ts',
      'test/stores/numbers.test.ts',
    ],
  },
};
