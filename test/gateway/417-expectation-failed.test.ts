import { beforeAll, expect, test } from 'vitest';
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

const remaining = async () => Number((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));
const post = (fields: string, version = '1.1') =>
  `POST /v1/pets HTTP/${version}\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n\r\n`;

test.each(['200-ok', 'y 100-continue', '100-continue, 200-ok'])(
  '417 expectation_failed: `Expect: %s` is refused, costs nothing, reaches nobody (reliability 21)',
  async (expectation) => {
    const before = await remaining();
    const seen = upstream.requests.length;
    const { responses } = await rawExchange(gateway.port, post(`Expect: ${expectation}\r\nContent-Length: 2`));
    expect(responses.map(({ status }) => status)).toEqual([417]);
    expect(responses[0]?.json()).toEqual({ code: 'expectation_failed', message: expect.any(String), status: 417 });
    // An answer given before the request was read to its end closes the connection.
    expect(responses[0]?.header('connection')).toBe('close');
    expect(upstream.requests).toHaveLength(seen);
    expect(await remaining()).toBe(before - 1);
  },
);

test('an expectation in HTTP/1.0 is ignored', async () => {
  const { responses } = await rawExchange(gateway.port, `${post('Expect: 200-ok\r\nContent-Length: 2', '1.0')}{}`, {
    until: 'closed',
  });
  expect(responses.map(({ status }) => status)).toEqual([200]);
});
