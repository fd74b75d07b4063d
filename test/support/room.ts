/**
 * By how much the tests lengthen each of their deadlines. CI runs on slow machines that it shares with other work; there a
 * deadline that fits a quiet machine ends tests whose gateway only had no processor. A test that passes ends as early as
 * before, because it waits for conditions. `TEST_ROOM` replaces the usual 5 in CI and 1 elsewhere.
 */
export const ROOM = Number(process.env.TEST_ROOM ?? (process.env.CI ? 5 : 1));
