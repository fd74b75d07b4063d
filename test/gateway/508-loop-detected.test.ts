import { beforeAll, expect, test } from 'vitest';
import { freePort } from '../support/free-port.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

let gateway: TestGateway;
let upstream: Upstream;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream();
  gateway = await openGateway({ upstream: upstream.origin });
  ({ key } = await gateway.createKey('free'));
});

const ask = async (via: string) =>
  (await rawExchange(gateway.port, `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${via}\r\n`))
    .responses[0]!;

test('508 loop_detected: a request that has this gateway in its Via is refused and costs nothing', async () => {
  const first = await ask('');
  const [via = ''] = upstream.requests.at(-1)?.values('via') ?? [];
  expect(via).toMatch(/^1\.1 tollgate-[0-9a-f]{10}$/);
  for (const field of [
    `Via: ${via}\r\n`,
    `Via: 1.0 fred, ${via} (and a comment)\r\n`,
    `via: 1.1 a\r\nVIA: ${via}\r\n`,
  ]) {
    const answer = await ask(field);
    expect(answer.status).toBe(508);
    expect(answer.json()).toEqual({ code: 'loop_detected', message: expect.any(String), status: 508 });
  }
  expect(Number((await ask('')).header('x-ratelimit-remaining'))).toBe(
    Number(first.header('x-ratelimit-remaining')) - 1,
  );
});

test('a Via that only looks alike is no loop, and is handed on with ours behind it (reliability 38)', async () => {
  expect((await ask('Via: 1.1 tollgate\r\nVia: 1.1 tollgate-0000000000x\r\n')).status).toBe(200);
  expect(upstream.requests.at(-1)?.values('via')[0]).toMatch(
    /^1\.1 tollgate, 1\.1 tollgate-0000000000x, 1\.1 tollgate-[0-9a-f]{10}$/,
  );
});

test('508 loop_detected: a gateway that is its own upstream forwards a request once', async () => {
  const port = await freePort();
  const circle = await openGateway({ upstream: `http://127.0.0.1:${port}`, env: { PORT: String(port) } });
  const own = await circle.createKey('free');
  const answer = await circle.get('/v1/pets', own.key);
  expect(answer.status).toBe(508);
  expect(await answer.json()).toMatchObject({ code: 'loop_detected' });
  expect(answer.headers.get('x-ratelimit-remaining')).toBe('59');
});

test('508 loop_detected: two gateways of one name that are each other’s upstream forward a request once', async () => {
  const port = await freePort();
  const far = await openGateway({
    upstream: 'http://127.0.0.1:1',
    listen: { via: 'ours' },
    env: { PORT: String(port) },
  });
  const near = await openGateway({ upstream: far.origin, listen: { via: 'ours' } });
  const own = await near.createKey('free');
  const answer = await near.get('/v1/pets', own.key);
  expect(answer.status).toBe(508);
  expect(await answer.json()).toMatchObject({ code: 'loop_detected' });
});
