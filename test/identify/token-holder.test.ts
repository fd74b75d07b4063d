import { expect, test } from 'vitest';
import { isTokenHolder, jwtConsumerId } from '../../src/identify/api-key.ts';

test('the id of a token holder tells neither issuer nor subject, and is one that is known as such', () => {
  const id = jwtConsumerId('https://issuer', 'key_1\r\n');
  expect(id).toMatch(/^jwt_[\w-]{32}$/);
  expect(isTokenHolder(id)).toBe(true);
  expect(id).not.toBe(jwtConsumerId('https://issuerk', 'ey_1\r\n'));
  for (const other of ['key_1', `x${id}`, `${id}x`, id.slice(0, -1), 'jwt_a', `jwt_${'*'.repeat(32)}`]) {
    expect(isTokenHolder(other), other).toBe(false);
  }
});
