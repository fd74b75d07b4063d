import { expect, test } from 'vitest';
import { isTime, MAX_WAIT_MS, renewalAtMs, waitAfterMs } from '../../src/certificates/schedule.ts';

const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];

test.each([
  ['90 days', 90 * DAY, 30 * DAY, 33 * DAY],
  ['6 days', 6 * DAY, 2 * DAY, 2 * DAY + 4.8 * HOUR],
  ['1 hour', HOUR, 20 * MINUTE, 22 * MINUTE],
])('of a certificate of %s a third is left at its renewal, or up to a thirtieth more', (_, lifetimeMs, least, most) => {
  const certificate = { validFromMs: 1_000, expiresAtMs: 1_000 + lifetimeMs };
  const left = (digest: string) => Math.round(certificate.expiresAtMs - renewalAtMs(certificate, digest));
  expect(left('00000000aa')).toBe(least);
  expect(left('ffffffffaa')).toBe(Math.round(most));
  expect(left('80000000aa')).toBe(left('80000000bb'));
});

test.each([
  [1, 2 * MINUTE],
  [2, 4 * MINUTE],
  [5, 32 * MINUTE],
  [9, 6 * HOUR],
  [10_000, 6 * HOUR],
])('after %i refusals the wait is %i ms, and up to a quarter longer (reliability 184)', (failures, expected) => {
  const failed = { failures, kind: 'refused', retryAfterMs: 0 } as const;
  expect([waitAfterMs(failed, 0), waitAfterMs(failed, 1)]).toEqual([expected, expected * 1.25]);
});

test('five refusals take longer than half an hour, so no hour has more than five', () => {
  let [atMs, inTheHour] = [0, 0];
  for (let failures = 1; atMs < HOUR; failures++) {
    inTheHour++;
    atMs += waitAfterMs({ failures, kind: 'refused', retryAfterMs: 0 }, 0);
  }
  expect(inTheHour).toBe(5);
});

test('an authority that cannot be reached is tried again after seconds', () => {
  const wait = (failures: number) => waitAfterMs({ failures, kind: 'unreachable', retryAfterMs: 0 }, 0);
  expect([wait(1), wait(2), wait(100)]).toEqual([5_000, 10_000, 10 * MINUTE]);
});

test('Retry-After is respected up to 7 days', () => {
  const wait = (retryAfterMs: number) => waitAfterMs({ failures: 1, kind: 'refused', retryAfterMs }, 0);
  expect([wait(HOUR), wait(1), wait(1e15)]).toEqual([HOUR, 2 * MINUTE, MAX_WAIT_MS]);
});

test('a time of the next try from before the clock was set back does not count', () => {
  expect([isTime(1_000, 999), isTime(1_000, 1_000), isTime(20 * DAY, 0)]).toEqual([false, true, true]);
});
