import { isIPv4, isIPv6 } from 'node:net';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { CHARACTERS_PER_STEP } from './work.ts';

/** The longest text that can be of a format, other than `byte`. Some expressions of ajv-formats take quadratic time. */
const MAX_FORMAT_TEXT = 2_048;

/** Measured with `date-time`, which takes longest: 1.6 ms for 2,048 characters. */
const CHARACTERS_SQUARED_PER_STEP = 64;

/** The formats whose expressions ajv-formats has. Its `regex`, `url` and `uri-template` are left out: they take too long. */
const EXPRESSIONS = [
  ...(['date', 'time', 'date-time', 'duration', 'uri', 'uri-reference', 'email', 'hostname', 'uuid'] as const),
  ...(['json-pointer', 'relative-json-pointer'] as const),
] as const;

type Test = (text: string) => boolean;

const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ...EXPRESSIONS.map((name): [string, Test] => [name, testOf(fullFormats[name])]),
  ['ipv4', isIPv4],
  ['ipv6', (text) => !text.includes('%') && isIPv6(text)],
]);

/** Formats that describe the meaning of a text, and do not restrict it. */
const ANY_TEXT: ReadonlySet<string> = new Set(['password', 'binary']);
/** Formats of numbers (`NumberRules` in checks.ts). */
const OF_NUMBERS: ReadonlySet<string> = new Set(['int32', 'int64', 'float', 'double']);

/** The formats that a description may have. */
export const FORMATS: readonly string[] = [...TESTS.keys(), 'byte', ...ANY_TEXT, ...OF_NUMBERS];

/** Whether a text is of one of `FORMATS`. */
export function isOfFormat(text: string, format: string): boolean {
  if (format === 'byte') return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
  const test = TESTS.get(format);
  return test === undefined || (text.length <= MAX_FORMAT_TEXT && test(text));
}

/** How many steps of work a text takes at most. Some expressions try each character again for each one before it. */
export function stepsOfFormat(text: string, format: string): number {
  const { length } = text;
  if (!TESTS.has(format)) return Math.ceil(length / CHARACTERS_PER_STEP);
  return length > MAX_FORMAT_TEXT ? 1 : length + Math.ceil(length ** 2 / CHARACTERS_SQUARED_PER_STEP);
}

function testOf(format: unknown): Test {
  if (format instanceof RegExp) return (text) => format.test(text);
  if (typeof format === 'function') return (text) => format(text) === true;
  return testOf((format as { validate: unknown }).validate);
}
