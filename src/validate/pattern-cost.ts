import type { RE2JS } from 're2js';

/*
 * What it costs to compare a text with a pattern. RE2JS makes an automaton of a pattern, state by state as texts need them,
 * and then takes a look-up for each character. If the automaton takes too much memory, it tries all instructions of the
 * pattern's program at each character instead.
 */

/** In steps of `Work`, for each character. */
const AUTOMATON_STEPS = 4;
/** Maximum work to make all states of an automaton, in instructions looked at. It is done once: 10 ms. */
const MAX_AUTOMATON_WORK = 200_000;
/** The same for all patterns of one description: 2 s. Beyond that, none has a small automaton. */
const MAX_WORK_OF_ALL = 40_000_000;
/** The longest text that is compared with a pattern. */
const MAX_CHARACTERS = 16_384;
/** Maximum steps for one text: 30 ms. */
const MAX_STEPS = 1_000_000;
/** The largest program of a pattern without an automaton. With it, texts may have 100 characters. */
export const MAX_INSTRUCTIONS = 10_000;

interface PatternCost {
  readonly stepsPerCharacter: number;
  /** Longer texts are refused. */
  readonly maxCharacters: number;
}

/** @param isSmall `hasSmallAutomaton`, which takes too long to be found out again when requests are served */
export function costOf(pattern: RE2JS, isSmall: boolean): PatternCost {
  if (isSmall) return { stepsPerCharacter: AUTOMATON_STEPS, maxCharacters: MAX_CHARACTERS };
  const stepsPerCharacter = Math.max(AUTOMATON_STEPS, pattern.programSize());
  return { stepsPerCharacter, maxCharacters: Math.min(MAX_CHARACTERS, Math.floor(MAX_STEPS / stepsPerCharacter)) };
}

/** How much work may still be done to find out which patterns of a description have a small automaton. */
export class AutomatonBudget {
  left = MAX_WORK_OF_ALL;
}

/**
 * Whether all states that a pattern's automaton can have are made with little work, so that no text makes RE2JS abandon it.
 * Found out by making them: from each state, by one character of each class that the pattern distinguishes.
 * @param budget of the description, which is charged
 */
export function hasSmallAutomaton(pattern: RE2JS, budget = new AutomatonBudget()): boolean {
  const re2 = pattern.re2();
  // Neither needs an automaton: at most one instruction fits at each character, or the pattern is a plain text.
  if (re2.onepass !== null || re2.prefixComplete) return true;
  const { dfa } = re2;
  const states = new Set<State>([dfa.start({ context: () => ANYWHERE }, 0) as State]);
  const most = Math.min(MAX_AUTOMATON_WORK, budget.left);
  let work = 0;
  for (const state of states) {
    // The text has matched, and the rest of it is not looked at.
    if (state.isMatch) continue;
    for (let rune = 0; rune <= dfa.numClasses; rune++) {
      const next = dfa.step(state, rune, characterOf(dfa.classBounds, rune), UNANCHORED) as State | null;
      if (next === null) return false;
      const looked = state.nfaStates.length + next.nfaStates.length;
      work += looked;
      budget.left -= looked;
      if (work > most) return false;
      states.add(next);
    }
  }
  return true;
}

/**
 * Keeps RE2JS from making an automaton that it would abandon.
 *
 * Attack: texts that each need other states. Up to 8 MiB of them would be made for each pattern, kept for ever, and made
 * again for the next text.
 */
export function leaveOutAutomaton(pattern: RE2JS): void {
  pattern.re2().dfa.failed = true;
}

interface State {
  readonly isMatch: boolean;
  /** The instructions of the program that it stands for. */
  readonly nfaStates: readonly number[];
}

/** RE2JS's words for a search that may begin anywhere, for the context at the begin of a text, and for its end. */
const UNANCHORED = 0;
const ANYWHERE = -1;
const END = -1;

/** A character of a class: its first one. The class after the last one is the end of the text. */
function characterOf(bounds: Int32Array, index: number): number {
  if (index > bounds.length) return END;
  return index === 0 ? 0 : bounds[index - 1]!;
}
