const LONGEST = 100;

/**
 * What somebody sent, for a sentence that repeats it: a terminal that shows the sentence must not obey what stands in it, so
 * control characters, and those that nobody sees, are written as their code points. What is long is cut.
 */
export function visible(text: string): string {
  const characters = [...text];
  const shown = characters
    .slice(0, LONGEST)
    .map((one) => (/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(one) ? escaped(one) : one));
  return shown.join('') + (characters.length > LONGEST ? '…' : '');
}

function escaped(character: string): string {
  return `\\u{${character.codePointAt(0)!.toString(16)}}`;
}
