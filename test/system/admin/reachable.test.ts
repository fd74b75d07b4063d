import { once } from 'node:events';
import { get } from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { STORES, startWithAdmin, TOKEN } from '../../admin/operator.ts';
import { eventually } from '../../support/conditions.ts';
import { atEnd } from '../../support/endings.ts';
import type { TestGateway } from '../../support/gateway.ts';

// Attack: two addresses keep everybody off the admin port, so that probes fail and the gateway is restarted.

const ATTACKERS = ['127.0.0.2', '127.0.0.3'];
const EACH = 48;
/** Most connections of an attacker in all, those that replace a closed one included. */
const MOST = 2_000;
const SLOW_BODY = 'Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"token":"';

/** What each connection of an attacker sends, and whether it ever reads. */
const ATTACKS: Readonly<Record<string, readonly [bytes: string, reads: boolean]>> = {
  'begins a sign-in and never ends it': [`POST /admin/session HTTP/1.1\r\nHost: localhost\r\n${SLOW_BODY}`, true],
  'begins a head and never ends it': ['GET /livez HTTP/1.1\r\nHost: localhost\r\nX-', true],
  'sends nothing': ['', true],
  'keeps a connection whose probe was answered': ['GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n', true],
  'asks for the metrics many times and reads none': [
    'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(50),
    false,
  ],
  'asks for the console and reads none': ['GET /console/ HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(50), false],
  'has a token and never ends its bodies': [
    `POST /admin/plans/check HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n${SLOW_BODY}`,
    true,
  ],
};

/** Holds `EACH` connections of each attacker, and opens one anew where one is closed. */
function attack(port: number, [bytes, reads]: readonly [string, boolean]) {
  const open = new Set<Socket>();
  let [opened, isOver] = [0, false];
  const another = (localAddress: string) => {
    if (isOver || opened++ >= MOST) return;
    const socket = connect({ port, host: '127.0.0.1', localAddress }, () => socket.write(bytes));
    open.add(socket);
    socket.on('error', () => {});
    if (reads) socket.resume();
    else socket.pause();
    socket.on('close', () => {
      open.delete(socket);
      setTimeout(() => another(localAddress), 5);
    });
  };
  for (const address of ATTACKERS) for (let i = 0; i < EACH; i++) another(address);
  const end = () => {
    isOver = true;
    for (const socket of open) socket.destroy();
  };
  atEnd(end);
  return { end, opened: () => opened, open: () => open.size };
}

async function probe({ adminPort }: Pick<TestGateway, 'adminPort'>, path: string): Promise<number | string> {
  const request = get({ host: '127.0.0.1', port: adminPort, path, localAddress: '127.0.0.4', agent: false });
  try {
    const [response] = await once(request, 'response');
    response.resume();
    return response.statusCode;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

describe.each([
  ['one process', async () => STORES['the embedded store']!()],
  ['two workers', async () => ({ ...(await STORES.Redis!()), WORKERS: '2' })],
] as const)('of %s the admin port answers each probe of a third address (reliability 241)', (_, environment) => {
  test('while two addresses hold all of its places', async () => {
    const gateway = await startWithAdmin(await environment());
    for (const [what, how] of Object.entries(ATTACKS)) {
      const attackers = attack(gateway.adminPort, how);
      await eventually(() => expect(attackers.opened()).toBeGreaterThanOrEqual(2 * EACH));
      const statuses = [];
      for (let i = 0; i < 100; i++) statuses.push(await probe(gateway, i % 2 === 0 ? '/livez' : '/readyz'));
      expect([what, statuses]).toEqual([what, Array(100).fill(200)]);
      expect([what, await probe(gateway, '/metrics')]).toEqual([what, 200]);
      attackers.end();
    }
  });
});

test('a sign-in whose body does not come within two seconds is refused, and its connection is closed (reliability 243)', async () => {
  const gateway = await startWithAdmin(await STORES['the embedded store']!());
  const socket = connect(gateway.adminPort, '127.0.0.1');
  atEnd(() => socket.destroy());
  let received = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    received += text;
  });
  const sentAtMs = performance.now();
  socket.write(`POST /admin/session HTTP/1.1\r\nHost: localhost\r\n${SLOW_BODY}`);
  await once(socket, 'close');
  expect(received).toMatch(/^HTTP\/1\.1 408 /);
  expect(received).toContain('"code":"request_timeout"');
  expect(performance.now() - sentAtMs).toBeGreaterThan(1_900);
});
