import { errors } from 'jose';
import { describe, expect, test } from 'vitest';
import { NotVerified, Verifications } from '../../src/identify/verifications.ts';

const WRONG = new errors.JWSSignatureVerificationFailed();

/** Verifications under a clock that the test turns; `spent` has the addresses without failed attempts left. */
function verifications({ spent = [] as string[], whenSpent = 'refuse' as 'refuse' | 'wait' } = {}) {
  const clock = { ms: 1_000 };
  const peek = (address: string) => ({ limit: 30, remaining: 0, resetAtMs: 0, allowed: !spent.includes(address) });
  const made = new Verifications({ attempts: { peek }, whenSpent, monotonicMs: () => clock.ms });
  let verified = 0;
  /** @returns what became of it */
  const send = (address: string, isGood: boolean) =>
    made
      .of(address, async () => {
        verified++;
        if (!isGood) throw WRONG;
        return 'good';
      })
      .catch((error: unknown) => (error instanceof NotVerified ? error.why : 'wrong'));
  return { made, clock, send, count: () => verified };
}

describe('an address that has spent its failed attempts (reliability 222)', () => {
  test('costs ten verifications a second, however many wrong signatures it sends', async () => {
    const { send, count, clock } = verifications({ spent: ['192.0.2.1'] });
    const flood = async () => {
      for (let i = 0; i < 500; i++) await send('192.0.2.1', false);
    };
    await flood();
    expect(count()).toBe(10);
    clock.ms += 1_000;
    await flood();
    expect(count()).toBe(20);
  });

  test('costs no more if they come at once: each is checked again when its turn comes', async () => {
    const { send, count } = verifications({ spent: ['192.0.2.1'] });
    const all = await Promise.all(Array.from({ length: 400 }, () => send('192.0.2.1', false)));
    // Two are verified at a time, so one more than the ten may have begun.
    expect(count()).toBeLessThanOrEqual(11);
    expect(all.filter((one) => one === 'spent').length).toBeGreaterThanOrEqual(389);
  });

  test('is not charged for signatures that verify, and others are charged nothing for it', async () => {
    const { send, count } = verifications({ spent: ['192.0.2.1', '192.0.2.2'] });
    for (let i = 0; i < 100; i++) expect(await send('192.0.2.1', true)).toBe('good');
    for (let i = 0; i < 100; i++) await send('192.0.2.1', false);
    expect(count()).toBe(110);
    expect(await send('192.0.2.2', false)).toBe('wrong');
    expect(await send('192.0.2.3', true)).toBe('good');
  });

  test('shares the few with its whole IPv6 /64', async () => {
    const addresses = Array.from({ length: 100 }, (_, i) => `2001:db8::${i.toString(16)}`);
    const { send, count } = verifications({ spent: addresses });
    for (const address of addresses) await send(address, false);
    expect(count()).toBe(10);
  });
});

test('an address with failed attempts left has every signature verified', async () => {
  const { send, count } = verifications();
  for (let i = 0; i < 30; i++) expect(await send('192.0.2.1', false)).toBe('wrong');
  expect(count()).toBe(30);
});

test('of one address two signatures are verified at a time, and of all four, addresses in turn (reliability 222)', async () => {
  const { made } = verifications();
  const running: string[] = [];
  const ends: (() => void)[] = [];
  const begin = (address: string) =>
    made.of(address, () => {
      running.push(address);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  const all = Array.from({ length: 50 }, () => begin('192.0.2.1'));
  await Promise.resolve();
  expect(running).toEqual(['192.0.2.1', '192.0.2.1']);
  all.push(begin('192.0.2.2'), begin('192.0.2.3'), begin('192.0.2.4'));
  await Promise.resolve();
  expect(running).toEqual(['192.0.2.1', '192.0.2.1', '192.0.2.2', '192.0.2.3']);
  for (let ended = 0; ended < all.length; ended++) {
    ends[ended]!();
    await new Promise(setImmediate);
    if (ended === 1) expect(running).toContain('192.0.2.4');
    expect(running.length - ended - 1).toBeLessThanOrEqual(4);
  }
  await Promise.all(all);
});

test('an address that has too many waiting is asked to retry, and another one is served (reliability 222)', async () => {
  const { made, send } = verifications();
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const all = Array.from({ length: 600 }, () =>
    made.of('192.0.2.1', () => ended).catch((error: NotVerified) => error.why),
  );
  expect(await send('192.0.2.2', true)).toBe('good');
  end();
  expect((await Promise.all(all)).filter((one) => one === 'busy').length).toBe(98);
});

// Contract section 7: the right token of the admin API always passes.
test('on the admin port signatures of such an address wait instead, and the right one passes (reliability 223)', async () => {
  const { send } = verifications({ spent: ['192.0.2.1'], whenSpent: 'wait' });
  const outcomes = await Promise.all(Array.from({ length: 12 }, (_, i) => send('192.0.2.1', i === 11)));
  expect(outcomes).toEqual([...Array(11).fill('wrong'), 'good']);
});
