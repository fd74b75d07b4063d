import { afterEach, describe, expect, test } from 'vitest';
import { BodyChecks } from '../../src/gateway/body-checks.ts';
import { faultOfBody } from '../../src/validate/body.ts';
import type { BodyCheck } from '../../src/validate/validator.ts';
import { Work } from '../../src/validate/work.ts';

// Which bodies are checked in the thread, in which order, and what becomes of one that the thread cannot check.

/** Checks `check` of a program with this code. */
function checkOf(code: string): BodyCheck {
  const fits = Object.assign(() => true, { errors: null });
  return {
    program: { code: `exports.check = ${code};`, automata: [], paths: [] },
    name: 'check',
    atOnce: (bytes) => {
      const work = new Work();
      work.begin({ steps: 1_000, cpuMs: 1_000 });
      return { fault: faultOfBody(fits, bytes, work), steps: work.spent };
    },
  };
}

const SOUND = checkOf('() => true');
const SMALL = Buffer.from('[1]');
const LARGE = Buffer.from(`"${'x'.repeat(100_000)}"`);
/** Takes more than the little work that is done at once. */
const COSTLY = Buffer.from(`[${'1,'.repeat(1_000)}1]`);
const wanted = () => true;

let checks: BodyChecks;
const opened = (...bounds: ConstructorParameters<typeof BodyChecks>) => {
  checks = new BodyChecks(...bounds);
  return checks;
};
afterEach(() => checks.close());

describe('a body is checked', () => {
  test('at once if it is small and its check takes little work', () => {
    opened();
    expect(checks.check('a', SOUND, SMALL, wanted)).toBeNull();
    expect(checks.check('a', SOUND, Buffer.from('[1'), wanted)).toEqual({
      pointer: '',
      rule: 'is not JSON: `,` or `]` is missing.',
    });
  });

  test.each([
    ['it is large', LARGE],
    ['its check takes more work', COSTLY],
  ])('in the thread if %s, and its bytes stay', async (_why, body) => {
    opened();
    const before = Buffer.from(body);
    const checked = checks.check('a', SOUND, body, wanted);
    expect(checked).toBeInstanceOf(Promise);
    expect(await checked).toBeNull();
    expect(body.equals(before)).toBe(true);
  });

  test('in the thread if the others of this turn of the event loop have taken much work (reliability 208)', async () => {
    opened();
    const inTurn = { ...SOUND, atOnce: () => ({ fault: null, steps: 100_000 }) };
    const kinds = () => [1, 2, 3, 4].map(() => checks.check('a', inTurn, SMALL, wanted) instanceof Promise);
    expect(kinds()).toEqual([false, false, false, true]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(kinds()).toEqual([false, false, false, true]);
  });

  test('by a program that the thread has been sent before, or by another', async () => {
    opened();
    const strict = checkOf('Object.assign(() => false, { errors: [] })');
    for (const [check, fault] of [
      [SOUND, null],
      [strict, { pointer: '', rule: 'does not fit the description.' }],
      [SOUND, null],
      [strict, { pointer: '', rule: 'does not fit the description.' }],
    ] as const) {
      expect(await checks.check('a', check, LARGE, wanted)).toEqual(fault);
    }
  });
});

describe('of many large bodies (reliability 210)', () => {
  test('those of consumers are checked in turn, and one consumer has a bound', async () => {
    opened();
    const order: string[] = [];
    const send = async (consumer: string) => {
      const checked = await checks.check(consumer, SOUND, LARGE, wanted);
      order.push(consumer);
      return checked;
    };
    const greedy = Array.from({ length: 100 }, () => send('greedy'));
    const polite = send('polite');
    const results = await Promise.all(greedy);
    expect(await polite).toBeNull();
    const refused = results.filter((checked) => checked === 'busy').length;
    // One is checked and 64 wait.
    expect(refused).toBe(35);
    // The refused ones come first, then the one that was under way, and at most one more before the other consumer's.
    expect(order.indexOf('polite')).toBeLessThanOrEqual(refused + 2);
  });

  test('one whose client has left is not checked', async () => {
    opened();
    const first = checks.check('a', SOUND, LARGE, wanted);
    const hangs = checks.check('a', checkOf('() => { for (;;); }'), LARGE, () => false);
    expect(await first).toBeNull();
    expect(await hangs).toBeNull();
  });
});

describe('a body over which the thread ends costs its own request alone (reliability 210)', () => {
  test.each([
    ['hangs', '() => { for (;;); }', 'late'],
    ['takes all memory', '() => { const all = []; for (;;) all.push(Array(100_000).fill(0)); }', 'too_much'],
  ])('one whose check %s', async (_what, code, outcome) => {
    opened({ withinMs: outcome === 'late' ? 2_000 : 60_000, heapMb: 48 });
    const ended = checks.check('a', checkOf(code), LARGE, wanted);
    expect(await ended).toBe(outcome);
    // A thread takes longer to start on a busy machine than it may take here.
    await expect.poll(() => checks.check('a', SOUND, LARGE, wanted)).toBeNull();
  });

  test('one whose check throws is a defect, as on the serving thread', async () => {
    opened();
    await expect(checks.check('a', checkOf('() => { throw new Error("broken"); }'), LARGE, wanted)).rejects.toThrow(
      'broken',
    );
    expect(await checks.check('a', SOUND, LARGE, wanted)).toBeNull();
  });
});
