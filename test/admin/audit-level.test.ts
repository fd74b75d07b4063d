import { expect, test } from 'vitest';
import { FakeStore } from '../identify/fake-store.ts';
import { adminApiWith } from './in-process.ts';

/** What a log of this level has of the making of a key. */
async function actionsAt(level: string) {
  const { it, lines } = await adminApiWith(new FakeStore(), { level });
  expect((await it('POST', '/admin/keys', { plan: 'free' })).status).toBe(201);
  return lines.map(({ action }) => action);
}

test('an audit line is written whatever level the log has, unless there is no log', async () => {
  for (const level of ['info', 'warn', 'fatal']) expect(await actionsAt(level)).toEqual(['key.create']);
  expect(await actionsAt('silent')).toEqual([]);
});
