import { beforeAll, expect, test } from 'vitest';
import { eventually } from '../support/conditions.ts';
import { askHttp2, openEncrypted, openHttp2 } from '../support/encrypted.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';
import { openWebSocket, startWebSocketUpstream } from '../support/web-sockets.ts';

// `headers` of an upstream and of a route: what the service and the client get (contract section 2).

const UPSTREAM = {
  headers:
    "{ request: { set: { Authorization: 'Basic b3du', X-Tenant: '{consumer.id}', X-Via-Upstream: u } }, response: { remove: [Server, X-Powered-By] } }",
};
const ROUTES = `
  - path: /ruled
    methods: [GET, POST]
    upstream: store
    websocket: true
    headers:
      request:
        remove: [X-Via-Upstream, Cookie]
        set: { X-Plan: '{plan} {request.id}', X-From: '{client.address}', X-Name: '{consumer.name}' }
        add: { X-Own: gateway }
      response:
        set: { Cache-Control: no-store, X-Id: '{request.id}' }
        add: { X-Own: gateway }
  - path: /meta
    methods: [GET]
    upstream: store
    headers: { request: { set: { X-Team: 'team {consumer.meta.team}', X-Tier: '{consumer.meta.tier}', X-Customer: '{customer.id}' } } }
  - { path: /other, methods: [GET], upstream: store }
  - { path: /public, methods: [GET], upstream: store, auth: none, limits: { minute: 100 } }
`;

let upstream: Upstream;
let gateway: TestGateway;
let key: string;
let id: string;

beforeAll(async () => {
  upstream = await startUpstream((_request, response) => {
    response.writeEarlyHints({ link: '</a>; rel=preload', 'x-powered-by': 'hint' });
    const fields = ['Server', 'secret/1.0', 'X-Powered-By', 'x', 'cache-control', 'public', 'X-Own', 'service'];
    response.writeHead(200, fields).end('ok');
  });
  gateway = await openGateway({
    upstream: upstream.origin,
    upstreamSettings: UPSTREAM,
    routes: ROUTES,
    more: 'headers: { allow: [X_Tenant] }',
  });
  ({ key, id } = await gateway.createKey('endless', '--name', 'Zoë'));
});

async function ask(path: string, fields = '', authorization = `Authorization: Bearer ${key}\r\n`) {
  const bytes = `GET ${path} HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n${authorization}${fields}\r\n`;
  const { responses, bytes: raw } = await rawExchange(gateway.port, bytes);
  const response = responses.at(-1)!;
  return { response, raw: raw.toString('latin1'), seen: upstream.requests.at(-1)! };
}

test('metadata of a key reaches the service by rules alone, and a client cannot send what its key lacks (reliability 273)', async () => {
  const made = await gateway.createKey('endless', '--meta', 'team=Blå %\u00a0', '--meta', 'other=hidden');
  const fields = 'X-Tier: mine\r\nX-Team: mine\r\nX-Customer: mine\r\n';
  const { seen } = await ask('/meta', fields, `Authorization: Bearer ${made.key}\r\n`);
  expect(seen.values('x-team')).toEqual(['team Bl%C3%A5%20%25%C2%A0']);
  // A field with a variable that the caller lacks is left out, and the client's own is dropped.
  expect([...seen.values('x-tier'), ...seen.values('x-customer')]).toEqual([]);
  expect(JSON.stringify(seen)).not.toContain('hidden');
  await gateway.command('keys', 'update', made.id, '--meta', 'tier=gold', '--meta', 'team=');
  await eventually(async () => {
    const after = (await ask('/meta', fields, `Authorization: Bearer ${made.key}\r\n`)).seen;
    expect([after.values('x-team'), after.values('x-tier')]).toEqual([[], ['gold']]);
  });
});

test('the service gets the fields of the upstream and of the route, and none that a client sends in their place', async () => {
  const { seen } = await ask(
    '/ruled',
    'Cookie: a=b\r\nX-Tenant: root\r\nX_Tenant: root\r\nX-Plan: root\r\nX-Own: client\r\n',
  );
  expect(seen.values('authorization')).toEqual(['Basic b3du']);
  expect(seen.values('x-tenant')).toEqual([id]);
  expect(seen.values('x_tenant')).toEqual([]);
  expect(seen.values('x-via-upstream')).toEqual([]);
  expect(seen.values('cookie')).toEqual([]);
  expect(seen.values('x-plan')).toEqual(['endless mine']);
  expect(seen.values('x-from')).toEqual(['127.0.0.1']);
  expect(seen.values('x-name')).toEqual(['Zo%C3%AB']);
  expect(seen.values('x-own')).toEqual(['client', 'gateway']);
  expect(seen.values('x-consumer-id')).toEqual([id]);
  expect(seen.rawHeaders.join('\n')).not.toMatch(/root|tg_live/);
});

test('the client gets what the rules make of the response, interim ones included, and the gateway’s own fields', async () => {
  const { raw } = await ask('/ruled', 'Sec-Fetch-Mode: navigate\r\n');
  const [hints, head] = raw.split('\r\n\r\n');
  expect(hints).toMatch(/^HTTP\/1\.1 103 /);
  expect(hints).toContain('</a>');
  expect(raw).not.toMatch(/powered|secret|public/i);
  expect(head).toMatch(/\r\nCache-Control: no-store\r\n/);
  expect(head).toMatch(/\r\nX-Id: mine\r\n/);
  expect(head!.match(/\r\nX-Own: .*/gi)).toEqual(['\r\nX-Own: service', '\r\nX-Own: gateway']);
  expect(head).toMatch(/\r\nX-RateLimit-Limit: /);
});

test('on one connection each route has its own rules, whatever the request before had', async () => {
  const line = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const seen = upstream.requests.length;
  const paths = ['/other', '/ruled', '/other', '/ruled'];
  const { responses } = await rawExchange(gateway.port, paths.map(line), { until: 4, pauseMs: 20 });
  expect(responses.filter(({ status }) => status === 200)).toHaveLength(4);
  const requests = upstream.requests.slice(seen);
  expect(requests.map((request) => request.values('x-via-upstream'))).toEqual([['u'], [], ['u'], []]);
  expect(requests.map((request) => request.values('x-own'))).toEqual([[], ['gateway'], [], ['gateway']]);
});

test('without a consumer there is no field that names one (reliability 171)', async () => {
  const { seen } = await ask('/public', 'X-Tenant: root\r\n', '');
  expect(seen.url).toBe('/public');
  expect(seen.values('x-tenant')).toEqual([]);
});

test('over HTTP/2 and for a WebSocket the rules are the same', async () => {
  const encrypted = await openEncrypted({ upstream: upstream.origin, upstreamSettings: UPSTREAM, routes: ROUTES });
  const own = await encrypted.gateway.createKey('endless');
  const session = await openHttp2(encrypted.gateway.port, encrypted.ca);
  const answer = await askHttp2(session, {
    path: '/ruled',
    headers: { authorization: `Bearer ${own.key}`, 'x-tenant': 'root' },
  });
  const names = new Map(answer.fields);
  expect(names.get('cache-control')).toBe('no-store');
  expect(names.has('server')).toBe(false);
  expect(upstream.requests.at(-1)!.values('x-tenant')).toEqual([own.id]);

  const service = await startWebSocketUpstream();
  const open = await openGateway({ upstream: service.origin, upstreamSettings: UPSTREAM, routes: ROUTES });
  const caller = await open.createKey('endless');
  const opened = await openWebSocket(open, caller.key, '/ruled', { headers: { 'X-Tenant': 'root', Cookie: 'a=b' } });
  const asked = service.asked.at(-1)!.headers;
  expect(asked).toMatchObject({ 'x-tenant': caller.id, authorization: 'Basic b3du', 'x-own': 'gateway' });
  expect(asked).not.toHaveProperty('cookie');
  expect(opened.answer.headers).toMatchObject({ 'cache-control': 'no-store', upgrade: 'websocket' });
});
