import { z } from 'zod';
import { ALPHABETS, type AlphabetName, type KeyFormat } from '../identify/key-format.ts';
import * as values from './values.ts';
import { asArray, field, type Note } from './yaml.ts';

const LONGEST = 512;
/** An attacker can guess keys with fewer characters than this after the prefix. */
const GUESSABLE = 16;
const length = () => values.wholeNumber(8, LONGEST);
const lengthRule = `must be a whole number from 8 to ${LONGEST}, or a range such as [32, 44]`;
const alphabetRule = `must be one of ${Object.keys(ALPHABETS).join(', ')}`;
const prefixRule = 'must be at most 64 characters, each a letter, a digit or one of -_+/';

const formatSchema = z.strictObject({
  prefix: z
    .string(prefixRule)
    .regex(/^[A-Za-z0-9_+/-]{0,64}$/, prefixRule)
    .prefault('')
    .describe('Text that each key of this format begins with.'),
  length: z
    .union([length(), z.tuple([length(), length()], lengthRule)], lengthRule)
    .describe(
      'Number of characters in a key, including its prefix: one number, or the minimum and the maximum as a list.',
    ),
  characters: z
    .enum(Object.keys(ALPHABETS) as [AlphabetName, ...AlphabetName[]], alphabetRule)
    .prefault('base62')
    .describe('Alphabet of the characters after the prefix. For UUIDs, use `base64url`.'),
});

/** `keys` in gateway.yaml. */
export const keysSchema = z
  .strictObject({
    formats: z
      .array(formatSchema, 'must be a list of formats')
      .max(20, 'must not have more than 20 formats')
      .prefault([])
      .describe(
        "Formats of the keys that were imported with `tollgate keys import`. A key that fits none of them is refused without a look-up unless it has Tollgate's own checksum, so narrow formats keep a flood of made-up keys cheap.",
      ),
  })
  .prefault({});

export function keyFormatsOf({ formats }: z.output<typeof keysSchema>): readonly KeyFormat[] {
  return formats.map(({ prefix, length, characters }) => {
    const [least, most] = typeof length === 'number' ? [length, length] : length;
    return { prefix, least, most, alphabet: characters };
  });
}

/** Checks what the schema cannot: values of one format that contradict each other or make keys guessable. */
export function checkKeyFormats(keys: unknown, fault: Note, warn: Note): void {
  for (const [i, raw] of asArray(field(keys, 'formats')).entries()) {
    const format = formatSchema.safeParse(raw);
    if (!format.success) continue;
    const { prefix, length } = format.data;
    const [least, most] = typeof length === 'number' ? [length, length] : length;
    const at = ['keys', 'formats', i];
    if (prefix.startsWith('tg_live_')) {
      fault(
        [...at, 'prefix'],
        "is how Tollgate's own keys begin, which need no format because they have a checksum; remove it.",
      );
    }
    if (most < least) fault([...at, 'length'], 'has the maximum before the minimum; write the smaller number first.');
    else if (least <= prefix.length) {
      fault([...at, 'length'], `must be more than the ${prefix.length} characters of the prefix, which it includes.`);
    } else if (least - prefix.length < GUESSABLE) {
      warn(
        [...at, 'length'],
        `allows keys with only ${least - prefix.length} characters after the prefix, which can be guessed.`,
      );
    }
  }
}
