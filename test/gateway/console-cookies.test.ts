import { beforeAll, expect, test } from 'vitest';
import { askHttp2, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { openWebSocket, startWebSocketUpstream } from '../support/web-sockets.ts';

// Browsers separate cookies by host, not by port: the session of a console on port 9090 is also sent to port 8080.

const ROUTES = '\n  - { path: /**, methods: [GET], upstream: store, websocket: true }\n';
const SENT = 'a=b; tollgate=secret; __Host-tollgate=secret; c=d';
const SET = ['Set-Cookie', 'tollgate=stolen; Path=/', 'Set-Cookie', 'own=1', 'set-cookie', '__Host-tollgate=x; Secure'];

let upstream: Upstream;
let gateway: TestGateway;
let key: string;

beforeAll(async () => {
  upstream = await startUpstream((request, response) => {
    response.writeEarlyHints({ link: '</a>; rel=preload', 'set-cookie': 'tollgate=hint' });
    // A field that the quick reader of response heads leaves to the other one.
    const odd = request.url === '/odd' ? ['Connection', 'x-odd', 'X-Odd', '1'] : [];
    response.writeHead(200, [...SET, ...odd]).end('ok');
  });
  gateway = await openGateway({ upstream: upstream.origin, routes: ROUTES });
  ({ key } = await gateway.createKey('endless'));
});

test.each(['/plain', '/odd'])(
  '%s: no service gets the cookie of a console, and none can set it (reliability 253)',
  async (path) => {
    const bytes = `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nCookie: ${SENT}\r\nCookie: tollgate=s\r\n\r\n`;
    const { responses, bytes: raw } = await rawExchange(gateway.port, bytes);
    expect(upstream.requests.at(-1)!.values('cookie')).toEqual(['a=b; c=d']);
    expect(responses.at(-1)!.headers.filter(([name]) => /^set-cookie$/i.test(name))).toEqual([['Set-Cookie', 'own=1']]);
    expect(raw.toString('latin1')).not.toContain('tollgate=');
  },
);

test('over HTTP/2 and for a WebSocket it is the same (reliability 253)', async () => {
  const encrypted = await openEncrypted({ upstream: upstream.origin, routes: ROUTES });
  const own = await encrypted.gateway.createKey('endless');
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  const headers = { authorization: `Bearer ${own.key}`, cookie: SENT };
  const answer = await askHttp2(session, { path: '/plain', headers });
  expect(upstream.requests.at(-1)!.rawHeaders.join('\n')).not.toContain('secret');
  expect(answer.fields.filter(([name]) => name === 'set-cookie')).toEqual([['set-cookie', 'own=1']]);

  const service = await startWebSocketUpstream();
  const open = await openGateway({ upstream: service.origin, routes: ROUTES });
  const caller = await open.createKey('endless');
  await openWebSocket(open, caller.key, '/ws', { headers: { Cookie: SENT } });
  expect(service.asked.at(-1)!.headers.cookie).toBe('a=b; c=d');
});
