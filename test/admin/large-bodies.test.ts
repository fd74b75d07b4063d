import { expect, test } from 'vitest';
import { FakeStore } from '../identify/fake-store.ts';
import { eventually } from '../support/conditions.ts';
import { adminApiWith } from './in-process.ts';
import { TOKEN } from './operator.ts';

const MIB = 1024 * 1024;

// Attack: a person who may look sends fifty logs at once, which the gateway reads to their ends before it refuses 48 of them.
test.each([
  ['of a declared length', `Content-Length: ${27 * MIB}`],
  ['in chunks', 'Transfer-Encoding: chunked'],
])(
  'bodies %s are read while there is room for them, refused before they are read otherwise, and leave room when they end (reliability 168)',
  async (_, length) => {
    const { it, begin } = await adminApiWith(new FakeStore());
    const upload = () => begin(`POST /admin/plans/simulate HTTP/1.1\r\nAuthorization: Bearer ${TOKEN}\r\n${length}`);
    const all = Array.from({ length: 20 }, upload);
    const refused = () => all.filter(({ received }) => received().startsWith('HTTP/1.1 503'));
    await eventually(() => expect(refused()).toHaveLength(17));
    expect(refused()[0]!.received()).toContain('"code":"busy"');
    expect((await it('POST', '/admin/plans/check', { text: 'plans: 5' })).status).toBe(200);
    for (const { socket } of all) socket.destroy();
    await eventually(async () => {
      const again = upload();
      await eventually(() => expect(again.socket.bytesWritten).toBeGreaterThan(0));
      const { status } = await it('POST', '/admin/plans/simulate', { text: 5 });
      expect([status, again.received()]).toEqual([400, '']);
      again.socket.destroy();
    });
  },
);

test('a sign-in of more than 8 KiB is refused: anybody may send one', async () => {
  const { it } = await adminApiWith(new FakeStore());
  const signIn = (characters: number) => it('POST', '/admin/session', { token: 'x'.repeat(characters) });
  expect([(await signIn(1_024)).status, (await signIn(8_000)).status, (await signIn(8_192)).status]).toEqual([
    401, 400, 413,
  ]);
});
