import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { queryObjects } from 'node:v8';
import { beforeAll, describe, expect, test } from 'vitest';
import { RequestFlow } from '../../src/gateway/request-flow.ts';
import { eventually } from '../support/conditions.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { LATE_MS, paced } from '../support/room.ts';
import { stopwatch } from '../support/stopwatch.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

// What clients send on a connection beside whole requests, and what they do not read.

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream((request, response) => {
    if (!request.url?.includes('hang')) response.end('{}');
  });
  gateway = await openGateway({
    upstream: upstream.origin,
    listen: { idleTimeout: `${paced(1_500)}ms`, headersTimeout: `${paced(1_000)}ms`, writeTimeout: `${paced(700)}ms` },
  });
  ({ key } = await gateway.createKey('enterprise', '--limit', 'minute=1000000', '--limit', 'day=1000000'));
});

interface Line {
  readonly socket: Socket;
  text: string;
}

async function open(): Promise<Line> {
  const socket = createConnection({ port: gateway.port, host: '127.0.0.1', noDelay: true });
  const line: Line = { socket, text: '' };
  socket.on('error', () => {});
  socket.setEncoding('latin1').on('data', (text: string) => {
    line.text += text;
  });
  await once(socket, 'connect');
  return line;
}

const get = (query: string, fields = '') =>
  `GET /v1/pets?${query} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nX-Request-Id: ${query}\r\n${fields}\r\n`;

const gauge = async (name: string) => {
  const text = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)`, 'm').exec(text)?.[1]);
};
const nothingIsLeft = () =>
  eventually(
    async () => expect([await gauge('tollgate_connections'), await gauge('tollgate_in_flight')]).toEqual([0, 0]),
    {
      withinMs: 4_000,
    },
  );

describe.each([
  ['one that the fast path serves', ''],
  ['one that Node’s parser reads', 'X-High: \xe9\r\n'],
])('behind a request, %s,', (_, fields) => {
  // Attack: it sends so much that it is not read any more, and its leaving would be seen by nobody.
  test.each(['end', 'destroy', 'resetAndDestroy'] as const)(
    'a client that has sent more than is held for it is noticed when it leaves (%s) (reliability 93, 146)',
    async (leave) => {
      const id = `hang-${leave}-${fields.length}`;
      const { socket } = await open();
      socket.write(Buffer.from(get(id, fields), 'latin1'));
      await eventually(() => expect(upstream.requests.some(({ url }) => url.includes(id))).toBe(true));
      socket.write(get('behind').repeat(700));
      socket[leave]();
      const logged = () => gateway.process.stdout.split('\n').find((line) => line.includes(`"requestId":"${id}"`));
      await eventually(() => expect(logged()).toContain('"status":499'), { withinMs: 3_000 });
      socket.destroy();
      await nothingIsLeft();
    },
  );
});

// Fault: it kept the last request, with its response and all that belongs to them, for as long as it was open.
test('a connection that waits for its next request keeps nothing of the one before (reliability 411)', async () => {
  const lines: Line[] = [];
  for (let n = 0; n < 12; n++) {
    const line = await open();
    lines.push(line);
    line.socket.write(Buffer.from(get(`kept-${n}`, 'X-High: \xe9\r\n'), 'latin1'));
    await eventually(() => expect(line.text).toContain('{}'));
  }
  // The connection to the service may keep the request that it carried last.
  expect(queryObjects(RequestFlow, { format: 'count' })).toBeLessThanOrEqual(2);
  for (const { socket } of lines) socket.destroy();
});

test('an empty line behind an answer is nothing: the connection ends unanswered when it has been idle', async () => {
  const line = await open();
  line.socket.write(get('empty-line'));
  await eventually(() => expect(line.text).toContain('{}'));
  line.text = '';
  line.socket.write('\r\n');
  await once(line.socket, 'close');
  expect(line.text).toBe('');
});

// Attack: empty lines count towards no limit.
test('a client that sends nothing but empty lines loses its connection (reliability 310)', async () => {
  const { socket } = await open();
  let isClosed = false;
  socket.once('close', () => {
    isClosed = true;
  });
  await eventually(() => {
    socket.write('\r\n');
    expect(isClosed).toBe(true);
  });
});

test('an empty line before the first request does not prolong headersTimeout (reliability 60)', async () => {
  const took = stopwatch();
  const line = await open();
  const drip = setInterval(() => line.socket.write('\r\n'), 300);
  await once(line.socket, 'close');
  clearInterval(drip);
  expect(line.text).toContain('HTTP/1.1 408');
  expect(took()).toBeLessThan(1_000 + LATE_MS);
});
