import { describe, expect, test } from 'vitest';
import { allowance } from '../support/allowance.ts';
import { admitterOn, kindOf } from './admitter.ts';

const plan = allowance({ minute: 4 }, { after: 2 });

describe('while the store is away', () => {
  test('`local` goes on from what was known, enforces every limit and bans', async () => {
    const complaints: unknown[] = [];
    const { burst, one, ledger } = admitterOn(undefined, { onStoreFailure: (error) => complaints.push(error) });
    await burst('a', plan, 3);
    ledger.away = true;
    expect((await burst('a', plan, 4)).map(kindOf)).toEqual(['admitted', 'refused', 'banned', 'banned']);
    expect(await one('a', plan)).toMatchObject({ source: 'local', verdict: { kind: 'banned' } });
    // Of a key that no store was asked about nothing is known.
    const unknown = await burst('b', plan, 5);
    expect(unknown.map(kindOf)).toEqual([...Array(4).fill('admitted'), 'refused']);
    expect(complaints).toHaveLength(3);
    expect(complaints[0]).toMatchObject({ code: 'store_unavailable' });
  });

  test('`local` keeps what was counted in a window that the plan of another request lacks, as during a reload', async () => {
    const { burst, ledger } = admitterOn();
    const hourly = allowance({ hour: 6 }, { after: 2 });
    ledger.away = true;
    await burst('a', plan, 3);
    await burst('a', hourly, 3);
    expect((await burst('a', plan, 2)).map(kindOf)).toEqual(['admitted', 'refused']);
    expect((await burst('a', hourly, 3)).map(kindOf)).toEqual(Array(3).fill('admitted'));
  });

  test('`closed` decides nothing', async () => {
    const { burst, ledger } = admitterOn(undefined, { onFailure: 'closed' });
    ledger.away = true;
    expect((await burst('a', plan, 3)).map(kindOf)).toEqual(Array(3).fill('unavailable'));
  });

  test('`open` admits everything, counts nothing, and tells what was last known', async () => {
    const { burst, ledger } = admitterOn(undefined, { onFailure: 'open' });
    await burst('a', plan, 3);
    ledger.away = true;
    const admissions = await burst('a', plan, 50);
    expect(admissions.map(kindOf)).toEqual(Array(50).fill('admitted'));
    expect(admissions[49]).toMatchObject({ source: 'local', verdict: { binding: { remaining: 1 } } });
    ledger.away = false;
    expect((await burst('a', plan, 1)).map(kindOf)).toEqual(['admitted']);
  });

  test('a ban that is known stays in force under every policy', async () => {
    for (const onFailure of ['local', 'closed', 'open'] as const) {
      const { burst, one, ledger } = admitterOn(undefined, { onFailure });
      await burst('a', plan, 6);
      ledger.away = true;
      expect(kindOf(await one('a', plan))).toBe('banned');
    }
  });

  test('time goes on: a window ends, and so does a ban', async () => {
    const { burst, one, ledger, pass } = admitterOn();
    await burst('a', plan, 4);
    ledger.away = true;
    pass(60_001);
    expect((await burst('a', plan, 6)).map(kindOf).at(-1)).toBe('banned');
    pass(60_001);
    expect(kindOf(await one('a', plan))).toBe('admitted');
  });
});

test('one consumer whose place in the store is taken by something foreign fails by the policy, alone (reliability 111)', async () => {
  const { admitter, ledger } = admitterOn(undefined, { onFailure: 'closed' });
  const decide = ledger.decide.bind(ledger);
  ledger.decide = async (asks) =>
    (await decide(asks)).map((decision, i) => (asks[i]!.consumerId === 'foreign' ? null : decision));
  const admissions = await Promise.all(['a', 'foreign', 'b'].map((id) => admitter.admit(id, plan, 1)));
  expect(admissions.map(kindOf)).toEqual(['admitted', 'unavailable', 'admitted']);
});

test('what was decided without the store refuses nobody once the store is back: its word counts', async () => {
  const { burst, one, ledger } = admitterOn();
  const unbanned = allowance({ minute: 4 }, null);
  ledger.away = true;
  expect((await burst('banned', plan, 6)).map(kindOf).at(-1)).toBe('banned');
  expect((await burst('used up', unbanned, 5)).map(kindOf).at(-1)).toBe('refused');
  ledger.away = false;
  // No operator could see or lift a ban that only this gateway knows of.
  expect(await one('banned', plan)).toMatchObject({ source: 'store', verdict: { kind: 'admitted' } });
  expect(await one('used up', unbanned)).toMatchObject({ source: 'store', verdict: { kind: 'admitted' } });
});
