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

test.each(['2.0', '3.0', '1.2', '0.9'])(
  '505 http_version_not_supported: HTTP/%s is refused, closed, costs nothing (reliability 24)',
  async (version) => {
    const before = Number((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));
    const seen = upstream.requests.length;
    const bytes = `GET /v1/pets HTTP/${version}\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    const { responses, closed } = await rawExchange(gateway.port, bytes, { until: 'closed' });
    expect(responses.map(({ status }) => status)).toEqual([505]);
    expect(responses[0]?.json()).toEqual({
      code: 'http_version_not_supported',
      message: expect.any(String),
      status: 505,
    });
    expect(responses[0]?.header('connection')).toBe('close');
    expect(closed).toBe(true);
    expect(upstream.requests).toHaveLength(seen);
    const after = Number((await gateway.get('/v1/pets', key)).headers.get('x-ratelimit-remaining'));
    expect(after).toBe(before - 1);
  },
);
