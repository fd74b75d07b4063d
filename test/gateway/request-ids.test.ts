import { expect, test } from 'vitest';
import { RequestIds } from '../../src/gateway/received-request.ts';

test('no two requests get the same id, and each has the form of an id that a client may bring', () => {
  const ids = new RequestIds();
  const some = Array.from({ length: 2_000 }, () => ids.next());
  expect(new Set(some).size).toBe(some.length);
  for (const id of some) expect(id).toMatch(/^[0-9a-f]{32}$/);
});
