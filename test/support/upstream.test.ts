import { createConnection } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from './conditions.ts';
import { rawExchange } from './raw-http.ts';
import { startRawUpstream, startUpstream } from './upstream.ts';

test('an upstream tells a request that was cut in its middle from a whole one', async () => {
  const upstream = await startUpstream();
  const socket = createConnection(upstream.port, '127.0.0.1');
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf');
  await eventually(() => expect(upstream.requests[0]?.body.toString()).toBe('half'));
  socket.destroy();
  expect(await upstream.requests[0]?.whole).toBe(false);
});

test('an upstream remembers what its parser refused', async () => {
  const upstream = await startUpstream();
  await rawExchange(upstream.port, 'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n');
  expect(upstream.refused).toHaveLength(1);
  expect(upstream.requests).toHaveLength(0);
});

test('a raw upstream is called once for each head, with the bytes, and finds the next one behind a body', async () => {
  const heads: string[] = [];
  const upstream = await startRawUpstream((socket, bytes, { connection, request }) => {
    heads.push(`${connection}.${request} ${bytes.toString().split('\r\n')[0]}`);
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n${request}`);
  });
  const bytes = [
    'POST /sized HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nGET /\r\n',
    '\r\nPOST /chunked HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nGET ',
    '\r\n0\r\n\r\nGET /last HTTP/1.1\r\nHost: x\r\n\r\n',
  ];
  const answer = await rawExchange(upstream.port, bytes, { until: 3 });
  expect(heads).toEqual(['1.1 POST /sized HTTP/1.1', '1.2 POST /chunked HTTP/1.1', '1.3 GET /last HTTP/1.1']);
  expect(answer.responses.map(({ body }) => body.toString())).toEqual(['1', '2', '3']);
  expect(upstream.received[0]?.toString()).toBe(bytes.join(''));
});
