import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Identity } from '../../src/admin/call.ts';
import { listenForCommands } from '../../src/admin/command-listener.ts';
import { eventually } from '../support/conditions.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Listens on a socket, and keeps who was announced as the sender of each request. */
async function listening() {
  const path = join(await temporaryFolder(), 'gateway.sock');
  const senders: (Identity | null | undefined)[] = [];
  const close = await listenForCommands(path, async (_, response, __, sender) => {
    senders.push(sender);
    response.end();
  });
  onTestFinished(close);
  return { path, senders };
}

test('connections that send no request are bounded and closed, so that callers keep their files (reliability 472)', async () => {
  const { path } = await listening();
  let open = 0;
  for (let i = 0; i < 200; i++) {
    const socket = connect(path, () => {
      open++;
      socket.write('GET /admin/keys HTTP/1.1\r\nHo');
    });
    socket
      .on('error', () => {})
      .once('close', () => open--)
      .resume();
    onTestFinished(() => void socket.destroy());
  }
  await eventually(() => expect(open).toBe(64));
  await eventually(() => expect(open).toBe(0), { withinMs: 20_000 });
}, 60_000);

test.each([
  ['user=%1b%5b31mX%0aline&host=%e2%80%ae', { user: '\\u{1b}[31mX\\u{a}line', host: '\\u{202e}' }],
  [`user=${'x'.repeat(9_000)}&host=h`, { user: `${'x'.repeat(100)}…`, host: 'h' }],
  ['', { user: 'unknown', host: 'unknown' }],
  ['user=a&host=b&kind=token&name=ADMIN_TOKEN', { user: 'a', host: 'b' }],
])('a forged name of a user, %.40s, is short and visible (reliability 473)', async (field, names) => {
  const { path, senders } = await listening();
  await new Promise((resolve) => {
    request({ socketPath: path, headers: { 'tollgate-shell': field } }, resolve).end();
  });
  expect(senders).toMatchObject([{ role: 'admin', via: 'shell', shell: { kind: 'shell', ...names } }]);
});
