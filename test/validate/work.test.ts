import { describe, expect, test } from 'vitest';
import { faultOfBody } from '../../src/validate/body.ts';
import { Checks, textOf } from '../../src/validate/checks.ts';
import { FORMATS } from '../../src/validate/formats.ts';
import { readJson } from '../../src/validate/json.ts';
import { ExcessError, OF_BODY, Work } from '../../src/validate/work.ts';

// The work that a request may cause is counted by what is done, not by the length of what was sent.

function begun(steps = 1_000_000_000): Work {
  const work = new Work(() => 0);
  work.begin({ steps, cpuMs: 1 });
  return work;
}

/** The steps of a piece of work. */
function stepsOf(take: (work: Work) => unknown): number {
  const work = begun();
  take(work);
  return work.spent;
}

describe('what one request may take ends', () => {
  test('at its steps, and begins anew with the next one', () => {
    const work = begun(100);
    work.spend(100);
    expect(() => work.spend(1)).toThrow(ExcessError);
    work.begin({ steps: 100, cpuMs: 1 });
    expect(() => work.spend(100)).not.toThrow();
  });

  test('at its time of the processor, if the steps take longer than they should (reliability 211)', () => {
    let [nowMs, readings] = [0, 0];
    const work = new Work(() => {
      readings++;
      return nowMs;
    });
    work.begin({ steps: 1_000_000, cpuMs: 20 });
    const spend = (times: number) => {
      for (let i = 0; i < times; i++) work.spend(100);
    };
    // A usual request does not read the clock.
    spend(80);
    expect(readings).toBe(0);
    spend(80);
    nowMs = 20;
    spend(100);
    nowMs = 21;
    expect(() => spend(100)).toThrow(ExcessError);
    expect(readings).toBeLessThan(10);
  });
});

describe('each value of a body is counted when it is read (reliability 208)', () => {
  const MIB = 1024 * 1024;
  test.each([
    ['lists within lists', `${'['.repeat(60)}${']'.repeat(60)}`, 500_000],
    ['objects', '{"":0}', 290_000],
    ['numbers', '0', 500_000],
    ['texts', '""', 340_000],
  ])('%s', (_what, unit, values) => {
    const text = `[${`${unit},`.repeat(MIB / (unit.length + 1) - 1)}0]`;
    expect(stepsOf((work) => readJson(text, work))).toBeGreaterThan(8 * values);
    expect(() => readJson(text, begun(300_000))).toThrow(ExcessError);
  });

  test('a text, by its length', () => {
    const text = JSON.stringify('x'.repeat(MIB));
    expect(stepsOf((work) => readJson(text, work))).toBeGreaterThan(MIB / 20);
  });

  test('any body that is taken can be read', () => {
    for (const unit of ['[]', '{"":0}', '0', '{"a":{"b":{"c":[{}]}}}']) {
      const bytes = Buffer.from(`[${`${unit},`.repeat(MIB / (unit.length + 1) - 1)}0]`);
      const work = begun(OF_BODY.steps);
      expect(
        faultOfBody(
          Object.assign(() => true, { errors: null }),
          bytes,
          work,
        ),
      ).toBeNull();
    }
  });
});

describe('each check is counted by what it does (reliability 211)', () => {
  const checks = (work: Work) => new Checks(work, []);
  const list = Array.from({ length: 10_000 }, (_, i) => ({ id: i }));
  const object = Object.fromEntries(list.map(({ id }) => [`name${id}`, id]));

  test.each<[string, (work: Work) => unknown, number]>([
    ['items that must differ', (work) => checks(work).unique(list), 10_000 * 8],
    ['a list of allowed values', (work) => checks(work).listed(list, ['[]']), 10_000 * 8],
    ['members that are all looked at', (work) => checks(work).members(object, 0), 10_000 * 8],
    ['names that a schema looks up', (work) => checks(work).step({}, 1_000), 2_000],
    ['the characters of a text', (work) => checks(work).length('x'.repeat(1_000_000)), 60_000],
    ['lists within lists, written out on each level', (work) => textOf(nested(60, 'x'.repeat(10_000)), work), 60 * 600],
    [
      'a format whose expression takes the square of its text',
      (work) => checks(work).format('T'.repeat(2_048), 'date-time'),
      65_536,
    ],
  ])('%s', (_what, take, atLeast) => {
    expect(stepsOf(take)).toBeGreaterThanOrEqual(atLeast);
  });

  test('and a short text of any format is little work', () => {
    for (const format of FORMATS)
      expect(stepsOf((work) => checks(work).format('2026-11-23T10:00:00Z', format))).toBeLessThan(50);
  });
});

function nested(levels: number, innermost: unknown): unknown {
  return levels === 0 ? innermost : [nested(levels - 1, innermost)];
}
