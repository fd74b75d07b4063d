import { expect, test } from 'vitest';
import { allowance } from '../support/allowance.ts';
import { admitterOn } from './admitter.ts';
import { FakeLedger } from './fake-ledger.ts';

test('of all that are banned in one millisecond, on two gateways, exactly the one whose strike made the ban imposed it', async () => {
  const plan = allowance({ minute: 1 }, { after: 3, firstMs: 60_000 });
  const ledger = new FakeLedger();
  const gateways = [admitterOn(ledger), admitterOn(ledger)];
  const admissions = (await Promise.all(gateways.map(({ burst }) => burst('a', plan, 5)))).flat();
  const verdicts = admissions.flatMap((result) => (result.kind === 'decided' ? [result.verdict] : []));
  const banned = verdicts.filter((verdict) => verdict.kind === 'banned');
  expect(verdicts.filter(({ kind }) => kind === 'admitted')).toHaveLength(1);
  expect(banned).toHaveLength(7);
  expect(new Set(banned.map(({ untilMs, nowMs }) => untilMs - nowMs))).toEqual(new Set([60_000]));
  expect(banned.filter(({ imposed }) => imposed)).toHaveLength(1);
});
