import { describe, expect, test } from 'vitest';
import { patternOf } from '../../src/validate/checks.ts';
import { AutomatonBudget, costOf, hasSmallAutomaton, leaveOutAutomaton } from '../../src/validate/pattern-cost.ts';

// Whether RE2JS stays within the automaton of a pattern, whatever the text. It looks into RE2JS, whose version is exact.

const SMALL = [
  '^[a-z0-9]+(?:-[a-z0-9]+)*$',
  '^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$',
  '^(a+)+$',
  '\\d{4}-\\d{2}-\\d{2}',
  '^.{1,255}$',
  '^[^@]+@[^@]{1,255}$',
  '^[^@]+@.{1,255}$',
  '^\\S+@\\S+\\.\\S+$',
  '[A-HJ-NPR-Z0-9]{17}$',
  '^([a-z]{1,50},){0,20}[a-z]{1,50}$',
  '\\bword\\b',
  'plain',
  '',
];
const LARGE = ['^.+@.{1,255}$', '^.*[0-9].{8,64}$', '(?:a|b)*a(?:a|b){60}c', '[0-9].{10,100}[A-Z].{0,100}x'];
const TEXTS = ['', 'a', 'a@b1', '2026-11-23', 'aXb1', 'word', 'é漢😀\n', 'a@b1'.repeat(60), 'ab1'.repeat(70), '-a'];

describe('a pattern (reliability 207)', () => {
  test.each(SMALL)('has a small automaton, which RE2JS does not leave: %s', (source) => {
    const pattern = patternOf(source);
    expect(hasSmallAutomaton(pattern)).toBe(true);
    expect(costOf(pattern, true)).toEqual({ stepsPerCharacter: 4, maxCharacters: 16_384 });
    const re2 = pattern.re2();
    if (re2.onepass !== null || re2.prefixComplete) return;
    const states = re2.dfa.stateCount;
    for (const text of TEXTS) pattern.test(text.repeat(50));
    expect(re2.dfa.stateCount).toBe(states);
  });

  test.each(LARGE)('has none, and costs its program for each character: %s', (source) => {
    const pattern = patternOf(source);
    expect(hasSmallAutomaton(pattern)).toBe(false);
    const { stepsPerCharacter, maxCharacters } = costOf(pattern, false);
    expect(stepsPerCharacter).toBe(pattern.programSize());
    expect(stepsPerCharacter * maxCharacters).toBeLessThanOrEqual(1_000_000);
  });

  test.each([...SMALL, ...LARGE])('finds the same with and without its automaton: %s', (source) => {
    const [usual, without] = [patternOf(source), patternOf(source)];
    leaveOutAutomaton(without);
    for (const text of TEXTS) expect(without.test(text)).toBe(usual.test(text));
    expect(without.re2().dfa.stateCount).toBe(0);
  });

  test('of a description that has too many of them counts as one without an automaton', () => {
    const budget = new AutomatonBudget();
    budget.left = 1_000;
    expect(hasSmallAutomaton(patternOf('^[a-z]+@[a-z]+$'), budget)).toBe(true);
    expect(hasSmallAutomaton(patternOf('^\\S+@\\S+\\.\\S+$'), budget)).toBe(false);
  });
});
