import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { WRONG_TOKENS_PER_MINUTE } from '../../src/admin/authenticator.ts';
import type { KeyStore } from '../../src/identify/record-store.ts';
import { isLoopback, type LinkRequest, StartLink } from '../../src/operations/start-link.ts';
import { adminApiWith } from './in-process.ts';

const LOOPBACK = { address: '127.0.0.1', rawHeaders: ['Host', '127.0.0.1:9090'] };

test('a link signs in any number of times at the process that made it, and asks the store for nothing', async () => {
  const startLink = new StartLink('npm start');
  const code = startLink.make(randomBytes);
  // A store without methods: whoever asks it fails.
  const { it, lines } = await adminApiWith({} as KeyStore, { startLink });
  for (let i = 0; i < 3; i++) {
    const { status, body } = await it('POST', '/admin/session', { code });
    expect([status, body]).toMatchObject([200, { name: 'npm start', role: 'admin', via: 'session' }]);
  }
  expect(JSON.stringify(lines)).toContain('npm start');
  expect(JSON.stringify(lines)).not.toContain(code);
});

test('a link of a process is wrong for every other one, and before it was made', () => {
  const [one, another, unmade] = [new StartLink('jo'), new StartLink('jo'), new StartLink('jo')];
  const code = one.make(randomBytes);
  another.make(randomBytes);
  expect(code).toMatch(/^[\w-]{43}$/);
  expect([one, another, unmade].map((link) => link.judge(code, LOOPBACK))).toEqual(['right', 'wrong', 'wrong']);
  expect(unmade.judge('', LOOPBACK)).toBe('wrong');
});

test.each<[string, Partial<LinkRequest>]>([
  ['from another machine', { address: '192.0.2.7' }],
  ['from another machine over IPv6', { address: '2001:db8::1' }],
  ['from an unknown address', { address: 'unknown' }],
  ...['Forwarded', 'Via', 'X-Forwarded-For', 'x-forwarded-host', 'X-Real-IP', 'CF-Connecting-IP'].map(
    (name): [string, { rawHeaders: string[] }] => [
      `with ${name}`,
      { rawHeaders: ['Host', '127.0.0.1', name, '127.0.0.1'] },
    ],
  ),
])('a link is refused %s (reliability 307)', (_, request) => {
  const link = new StartLink('jo');
  expect(link.judge(link.make(randomBytes), { ...LOOPBACK, ...request })).toBe('elsewhere');
});

test('a link through a proxy is refused in words, late and counted, and the right one passes still (reliability 307)', async () => {
  const startLink = new StartLink('npm start');
  const code = startLink.make(randomBytes);
  const { it, lines } = await adminApiWith({} as KeyStore, { startLink });
  const proxied = () => it('POST', '/admin/session', { code }, { 'X-Forwarded-For': '127.0.0.1' });
  const answers = await Promise.all(Array.from({ length: WRONG_TOKENS_PER_MINUTE + 1 }, proxied));
  const statuses = answers.map(({ status }) => status).toSorted();
  expect(statuses).toEqual([...Array.from({ length: WRONG_TOKENS_PER_MINUTE }, () => 401), 429]);
  expect(JSON.stringify(answers.map(({ body }) => body))).toContain('only on the machine of the gateway');
  expect((await it('POST', '/admin/session', { code })).status).toBe(200);
  expect(JSON.stringify(lines)).not.toContain(code);
});

test('loopback is this machine alone', () => {
  const yes = ['127.0.0.1', '127.8.9.1', '::1'];
  const no = ['0.0.0.0', '::', '10.0.0.1', '127.example.com', '::ffff:10.0.0.1', '::127.0.0.1', 'localhost', ''];
  expect([...yes, ...no].filter(isLoopback)).toEqual(yes);
});
