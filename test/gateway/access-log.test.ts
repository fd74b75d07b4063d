import { createConnection } from 'node:net';
import { expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { startGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startRawUpstream } from '../support/upstream.ts';

interface Line {
  readonly msg: string;
  readonly requestId: string;
  readonly path: string;
  readonly status: number;
  readonly code: string | null;
  readonly count?: number;
}

// One run with every kind of request, and all that the process said about it.
test('each request has an access line, refusals from memory are summed up, and no line has a key or a query (reliability 51, 52, 53)', async () => {
  let isHanging = false;
  const upstream = await startRawUpstream((socket, bytes) => {
    const text = bytes.toString('latin1');
    isHanging ||= text.includes('hang');
    if (isHanging) return;
    if (text.includes('reset')) socket.resetAndDestroy();
    else if (text.includes('cut')) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf');
    else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}');
  });
  const gateway = await startGateway({ upstream: upstream.origin, listen: { trustedProxies: '[127.0.0.1]' } });
  const good = await gateway.createKey('free');
  const spent = await gateway.createKey('closed');
  const small = await gateway.createKey('small');
  const unknown = `tg_live_${'0'.repeat(38)}`;
  const secrets = [good.key, spent.key, small.key, unknown, 'malformed-secret'];
  const query = 'q-is-private';

  const ids: string[] = [];
  let next = 0;
  const ask = async (line: string, own: string | null, fields = '', body = '') => {
    const id = `run-${++next}`;
    ids.push(id);
    const authorization = own === null ? '' : `Authorization: Bearer ${own}\r\n`;
    // Each from an address of its own: those of one that are refused without a key would share a line.
    const from = `X-Forwarded-For: 203.0.113.${next}\r\n`;
    const bytes = `${line} HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${id}\r\n${from}${authorization}${fields}\r\n${body}`;
    await rawExchange(gateway.port, bytes, { methods: [line.split(' ')[0] as string] });
  };

  await ask(`GET /v1/pets?${query}`, good.key);
  await ask(`GET /v1/pets?api_key=${good.key}&${query}`, good.key);
  await ask(`HEAD /v1/pets?${query}`, good.key);
  await ask('POST /v1/pets', good.key, 'Content-Length: 2\r\n', '{}');
  await ask(`GET /v1/none?${query}`, good.key);
  await ask(`GET /v1/gone?${query}`, good.key);
  await ask(`DELETE /v1/pets?${query}`, good.key);
  await ask(`GET /v1//pets?${query}`, good.key);
  await ask(`GET /v1/pets?${query}`, null);
  await ask(`GET /v1/pets?${query}`, unknown);
  await ask(`GET /v1/pets?${query}`, 'malformed-secret');
  await ask(`GET /v1/pets?${query}`, good.key, `Authorization: Bearer ${small.key}\r\n`);
  await ask(`GET /v1/pets?reset&${query}`, good.key, `Cookie: session=${spent.key}\r\nX-Api-Key: ${spent.key}\r\n`);
  await ask(`GET /v1/pets?cut&${query}`, good.key);
  await ask(`POST /v1/pets?${query}`, good.key, 'Content-Length: 99999999\r\n');
  await ask(`TRACE /v1/pets?${query}`, good.key);
  await ask(`CONNECT a:1`, good.key);
  const left = 'run-left';
  ids.push(left);
  const socket = createConnection(gateway.port, '127.0.0.1');
  socket.write(
    `GET /v1/pets?hang HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${left}\r\nAuthorization: Bearer ${good.key}\r\n\r\n`,
  );
  await eventually(() => isHanging);
  socket.destroy();
  const refused = 25;
  for (let i = 0; i < refused; i++) await gateway.get(`/v1/pets?${query}`, spent.key);
  // What cannot be parsed has no line; it is counted.
  const unparsed = `GET /v1/pets?${query} HTTP/1.1\r\nHost: a\r\nAuthorization: \x1b[31m${good.key}\r\n\r\n`;
  await rawExchange(gateway.port, unparsed, { until: 'closed' });
  const metrics = await (await fetch(`http://127.0.0.1:${gateway.adminPort}/metrics`)).text();
  expect(metrics).toMatch(/^tollgate_unparsed_requests_total\{code="invalid_request"\} 1$/m);
  for (const secret of [...secrets, query]) expect(metrics).not.toContain(secret);
  await gateway.process.stop();

  const output = gateway.process.stdout + gateway.process.stderr;
  for (const secret of secrets) expect(output).not.toContain(secret);
  expect(output).not.toContain(query);
  expect(output).not.toContain('\x1b');
  const lines = output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line);
  const requests = lines.filter(({ msg }) => msg === 'request');
  const times = (id: string) => requests.filter(({ requestId }) => requestId === id).length;
  expect(ids.map((id) => [id, times(id)])).toEqual(ids.map((id) => [id, 1]));
  expect(requests.find(({ requestId }) => requestId === left)?.status).toBe(499);
  expect(requests.every(({ path }) => path === null || !path.includes('?'))).toBe(true);

  // The first refusals came from the store, the others from memory, and together they are all of them.
  const single = requests.filter(({ code }) => code === 'rate_limit_exceeded').length;
  const summed = lines.filter(({ msg }) => msg === 'refusals').reduce((sum, { count }) => sum + (count ?? 0), 0);
  expect(single + summed).toBe(refused);
  expect(summed).toBeGreaterThan(0);
  expect(requests).toHaveLength(ids.length + single);
});
