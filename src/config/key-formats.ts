import { z } from 'zod';
import { ALPHABETS, type AlphabetName, type KeyFormat } from '../identify/key-format.ts';
import { asArray, field } from './raw.ts';
import * as values from './values.ts';
import type { Note } from './yaml.ts';

const LONGEST = 512;
/** Fewer characters than that after the prefix can be found by trying. */
const GUESSABLE = 16;
const length = () => values.wholeNumber(8, LONGEST);
const lengthRule = `must be a whole number from 8 to ${LONGEST}, or two such as [32, 44]`;
const alphabetRule = `must be one of ${Object.keys(ALPHABETS).join(', ')}`;
const prefixRule = 'must be at most 64 letters, digits or any of -_+/';

const formatSchema = z.strictObject({
  prefix: z
    .string(prefixRule)
    .regex(/^[A-Za-z0-9_+/-]{0,64}$/, prefixRule)
    .prefault('')
    .describe('What each key of this format begins with.'),
  length: z
    .union([length(), z.tuple([length(), length()], lengthRule)], lengthRule)
    .describe('Characters in a key, its prefix included: a number, or the least and the most.'),
  characters: z
    .enum(Object.keys(ALPHABETS) as [AlphabetName, ...AlphabetName[]], alphabetRule)
    .prefault('base62')
    .describe('What the characters after the prefix may be. A UUID is base64url.'),
});

/** `keys` in gateway.yaml. */
export const keysSchema = z
  .strictObject({
    formats: z
      .array(formatSchema, 'must be a list of formats')
      .max(20, 'must not have more than 20 formats')
      .prefault([])
      .describe('What keys look like that were made elsewhere and moved here. What is of none needs our checksum.'),
  })
  .prefault({});

export function keyFormatsOf({ formats }: z.output<typeof keysSchema>): readonly KeyFormat[] {
  return formats.map(({ prefix, length, characters }) => {
    const [least, most] = typeof length === 'number' ? [length, length] : length;
    return { prefix, least, most, alphabet: characters };
  });
}

/** What no single value of a format shows. */
export function checkKeyFormats(keys: unknown, fault: Note, warn: Note): void {
  for (const [i, raw] of asArray(field(keys, 'formats')).entries()) {
    const format = formatSchema.safeParse(raw);
    if (!format.success) continue;
    const { prefix, length } = format.data;
    const [least, most] = typeof length === 'number' ? [length, length] : length;
    const at = ['keys', 'formats', i];
    if (prefix.startsWith('tg_live_')) {
      fault([...at, 'prefix'], "begins as Tollgate's own keys do, which are told by their checksum; leave it out.");
    }
    if (most < least) fault([...at, 'length'], 'has the most before the least; write the smaller number first.');
    else if (least <= prefix.length) {
      fault([...at, 'length'], `must be more than the ${prefix.length} characters of the prefix, which it includes.`);
    } else if (least - prefix.length < GUESSABLE) {
      warn(
        [...at, 'length'],
        `allows keys of ${least - prefix.length} characters after the prefix: they can be guessed.`,
      );
    }
  }
}
