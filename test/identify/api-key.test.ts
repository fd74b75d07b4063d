import { hash, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checksumOf, digestOf, isSameDigest, isWellFormed, mint, newKeyId } from '../../src/identify/api-key.ts';
import { isKeyId } from '../../src/model/record.ts';

describe('the secret of a key', () => {
  test('is tg_live_, 32 base62 characters and 6 of checksum', () => {
    expect(mint(randomBytes)).toMatch(/^tg_live_[0-9A-Za-z]{38}$/);
  });

  test('has the CRC-32 of all before it as its checksum, in base62, padded with 0', () => {
    // The check value of CRC-32 is 0xCBF43926 for 123456789; in base62 with digits, upper case, lower case.
    expect(checksumOf('123456789')).toBe('3jZRME');
    expect(checksumOf('')).toBe('000000');
  });

  test('is well formed whatever the random bytes were', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 1, maxLength: 64 }), (bytes) => {
        let at = 0;
        // 0 in between: a source of nothing but rejected bytes would never end.
        const random = (size: number) =>
          Uint8Array.from({ length: size }, () => (at++ % 3 ? bytes[at % bytes.length]! : 0));
        expect(isWellFormed(mint(random))).toBe(true);
      }),
      { seed: 5, numRuns: 200 },
    );
  });

  test('with one character changed is no longer well formed', () => {
    const secret = mint(randomBytes);
    for (let i = 0; i < secret.length; i++) {
      for (const other of ['0', 'A', 'z', '-', '\0', 'é']) {
        if (secret[i] !== other) expect(isWellFormed(secret.slice(0, i) + other + secret.slice(i + 1))).toBe(false);
      }
    }
  });

  test.each(['', 'tg_live_', '__proto__', '*', 'a.b.c', `tg_live_${'é'.repeat(38)}`, 'x'.repeat(8_192)])(
    'is not %j (reliability 56)',
    (text) => {
      expect(isWellFormed(text)).toBe(false);
    },
  );

  test('has every base62 character about equally often: bytes beyond a multiple of 62 are thrown away', () => {
    let round = 0;
    const random = () => hash('sha256', `seed ${round++}`, 'buffer');
    const counts = new Map<string, number>();
    for (let i = 0; i < 20_000; i++) {
      for (const character of mint(random).slice(8, 40)) counts.set(character, (counts.get(character) ?? 0) + 1);
    }
    expect(counts.size).toBe(62);
    const [least, most] = [Math.min(...counts.values()), Math.max(...counts.values())];
    expect(most / least).toBeLessThan(1.1);
  });
});

describe('what a store keeps', () => {
  test('is HMAC-SHA-256(pepper, SHA-256(secret)), by the numbers', () => {
    // printf secret | openssl dgst -sha256 -binary | openssl dgst -sha256 -hmac pepper -binary | basenc --base64url
    expect(digestOf('secret', 'pepper')).toBe('v6ZVhS6r1m5-KdMVRAg9CNOqabtVKuEz3aK29zEkUgk');
  });

  test('differs with the pepper and with the secret', () => {
    const digests = [digestOf('a', 'p'), digestOf('a', 'q'), digestOf('b', 'p')];
    expect(new Set(digests).size).toBe(3);
  });

  test('is compared as a whole, and other lengths are simply different (reliability 48)', () => {
    const digest = digestOf('a', 'p');
    expect(isSameDigest(digest, digestOf('a', 'p'))).toBe(true);
    expect(isSameDigest(digest, digestOf('b', 'p'))).toBe(false);
    expect(isSameDigest(digest, '')).toBe(false);
  });
});

test('the id of a key is key_ and 16 base62 characters', () => {
  expect(newKeyId(randomBytes)).toMatch(/^key_[0-9A-Za-z]{16}$/);
});

test('the id of a key is known as one, and a secret is not', () => {
  expect(isKeyId(newKeyId(randomBytes))).toBe(true);
  const others = [mint(randomBytes), 'key_', 'xkey_a', 'key_a-', `key_${'a'.repeat(17)}`, 'cus_a'];
  expect(others.filter(isKeyId)).toEqual([]);
});
