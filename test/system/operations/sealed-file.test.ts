import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { openSealed, sealed } from '../../../src/operations/transfer/sealed-file.ts';
import { sample } from '../../support/sample.ts';

const PASSPHRASE = 'correct horse battery staple';
const PIECE = 64 * 1024;
const HEADER = 39;
const SEALED_PIECE = PIECE + 16;

async function fileOf(...parts: string[]): Promise<Buffer> {
  const text = (async function* () {
    yield* parts;
  })();
  return Buffer.concat(await Array.fromAsync(sealed(text, PASSPHRASE, randomBytes)));
}

async function textIn(file: Buffer, passphrase = PASSPHRASE): Promise<string> {
  const opened = await openSealed(async (at, length) => file.subarray(at, at + length), passphrase);
  return Buffer.concat(await Array.fromAsync(opened.parts())).toString();
}

const refusal = (message: RegExp) =>
  expect.objectContaining({ code: 'refused', message: expect.stringMatching(message) });

test.each([0, PIECE - 1, PIECE, 3 * PIECE + 7])('a text of %i bytes comes back', async (length) => {
  const text = 'é'.repeat(Math.floor(length / 2)) + 'x'.repeat(length % 2);
  expect(await textIn(await fileOf(text))).toBe(text);
});

test('the pieces of a file do not show how its text was written', async () => {
  const text = 'x'.repeat(PIECE + 1);
  const inParts = await fileOf(text.slice(0, 1_000), text.slice(1_000, 1_001), text.slice(1_001));
  expect([inParts.length, await textIn(inParts)]).toEqual([HEADER + SEALED_PIECE + 1 + 16, text]);
});

test('the text cannot be read without the passphrase, and two files of one text have nothing in common', async () => {
  const [one, other] = [await fileOf('a secret'), await fileOf('a secret')];
  expect(one.includes('secret')).toBe(false);
  expect(one.subarray(23).equals(other.subarray(23))).toBe(false);
  await expect(textIn(one, `${PASSPHRASE}.`)).rejects.toEqual(refusal(/^The passphrase is wrong, or/));
});

test('a passphrase may be typed with composed or combining letters', async () => {
  const text = (async function* () {
    yield 'text';
  })();
  const file = Buffer.concat(await Array.fromAsync(sealed(text, 'caf\u00e9 au lait, svp', randomBytes)));
  expect(await textIn(file, 'cafe\u0301 au lait, svp')).toBe('text');
});

describe('whoever can write to the place of the backups (reliability 172)', () => {
  const piece = (file: Buffer, number: number) =>
    file.subarray(HEADER + number * SEALED_PIECE, HEADER + (number + 1) * SEALED_PIECE);

  test('alters a bit anywhere, and is noticed', async () => {
    const file = await fileOf('x'.repeat(PIECE + 100));
    for (const at of sample([0, HEADER - 1, HEADER, HEADER + SEALED_PIECE, file.length - 1], 2)) {
      const altered = Buffer.from(file);
      altered[at]! ^= 1;
      await expect(textIn(altered), `byte ${at}`).rejects.toEqual(refusal(/./));
    }
  });

  test('cuts it off anywhere, also where a piece ends, and is noticed', async () => {
    const file = await fileOf('x'.repeat(2 * PIECE + 100));
    const lengths = [0, HEADER - 1, HEADER, HEADER + 15, HEADER + SEALED_PIECE];
    for (const length of sample([...lengths, file.length - 1], 2)) {
      await expect(textIn(file.subarray(0, length)), `${length} bytes`).rejects.toEqual(refusal(/./));
    }
  });

  test('swaps, repeats, leaves out or appends pieces, or takes one of another backup, and is noticed', async () => {
    const text = 'x'.repeat(3 * PIECE);
    const [file, other] = [await fileOf(text), await fileOf(text)];
    const header = file.subarray(0, HEADER);
    const [a, b, c] = [piece(file, 0), piece(file, 1), piece(file, 2)];
    const arrangements = {
      swapped: [b, a, c],
      repeated: [a, a, b, c],
      missing: [a, c],
      appended: [a, b, c, c],
      cut: [a, b],
    };
    const attacks = Object.entries({ ...arrangements, foreign: [a, piece(other, 1), c] });
    for (const [name, pieces] of sample(attacks, 2)) {
      await expect(textIn(Buffer.concat([header, ...pieces])), name).rejects.toEqual(refusal(/./));
    }
    expect(await textIn(Buffer.concat([header, a, b, c]))).toBe(text);
  });
});

test('another file, and a backup of a later version, are refused by name', async () => {
  await expect(textIn(Buffer.from('id,plan\n'.repeat(20)))).rejects.toEqual(
    refusal(/not a backup that `tollgate keys/),
  );
  const later = Buffer.from('tollgate keys backup 2\n'.padEnd(100, 'x'));
  await expect(textIn(later)).rejects.toEqual(refusal(/Use a later version/));
});
