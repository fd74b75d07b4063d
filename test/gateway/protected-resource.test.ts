import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { allowInsecureRequests, processResourceDiscoveryResponse, resourceDiscoveryRequest } from 'oauth4webapi';
import { beforeAll, describe, expect, test } from 'vitest';
import { AUDIENCE, ISSUER, jwksOf, type SigningKey, signingKey } from '../identify/jwt-issuer.ts';
import { freePort } from '../support/free-port.ts';
import { openGateway, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/processes.ts';
import { startUpstream } from '../support/upstream.ts';

// `jwt.resource`: how a client that knows the address of an API finds out where it gets a token (RFC 9728).

let issuer: SigningKey;
let jwks: string;
let upstream: string;

beforeAll(async () => {
  issuer = await signingKey();
  jwks = join(await temporaryFolder(), 'jwks.json');
  await writeFile(jwks, jwksOf(issuer));
  upstream = (await startUpstream((_request, response) => response.end('of the service'))).origin;
});

const ROUTES = `
  - { path: /mcp, methods: [POST], upstream: store, scopes: ['tools:call'] }
  - { path: /v1/pets, methods: [GET], upstream: store, scopes: ['pets:read', 'tools:call'] }
  - { path: '/**', methods: [GET], upstream: store }`;

/** @param path of the resource */
async function open(path: string, routes = ROUTES): Promise<{ gateway: TestGateway; resource: string }> {
  const port = await freePort();
  const resource = `http://127.0.0.1:${port}${path}`;
  const jwt = `{ issuer: '${ISSUER}', audience: '${AUDIENCE}', jwks: '${jwks}', algorithms: [ES256], resource: '${resource}' }`;
  const gateway = await openGateway({ upstream, routes, env: { PORT: String(port) }, more: `jwt: ${jwt}` });
  return { gateway, resource };
}

describe.each(['/mcp', ''])('a client of the resource %j', (path) => {
  test('finds the metadata by the 401 and by the address alone', async () => {
    const { gateway, resource } = await open(path);
    const expected = {
      resource,
      authorization_servers: [ISSUER],
      bearer_methods_supported: ['header'],
      scopes_supported: ['pets:read', 'tools:call'],
    };
    const refused = await fetch(`${gateway.origin}/mcp`, { method: 'POST' });
    const url = /resource_metadata="([^"]+)"/.exec(refused.headers.get('www-authenticate')!)![1]!;
    expect(url).toBe(`${gateway.origin}/.well-known/oauth-protected-resource${path}`);
    const named = await fetch(url);
    expect([named.status, named.headers.get('content-type')]).toEqual([200, 'application/json']);
    expect(await named.json()).toEqual(expected);
    // A client that is used for OpenID Connect and OAuth 2 checks the resource that the metadata is of.
    const options = { [allowInsecureRequests]: true };
    const found = await resourceDiscoveryRequest(new URL(resource), options);
    expect(await processResourceDiscoveryResponse(new URL(resource), found)).toEqual(expected);
  });

  test('is told of it when its token lacks a scope, too', async () => {
    const { gateway } = await open(path);
    const authorization = `Bearer ${await issuer.sign()}`;
    const refused = await fetch(`${gateway.origin}/mcp`, { method: 'POST', headers: { authorization } });
    expect(refused.status).toBe(403);
    expect(refused.headers.get('www-authenticate')).toMatch(
      /error="insufficient_scope", scope="tools:call", resource_metadata="http:/,
    );
  });
});

test('a route of gateway.yaml with that path comes before the metadata', async () => {
  const own =
    '{ path: /.well-known/oauth-protected-resource/mcp, methods: [GET], auth: none, limits: { minute: 60 }, respond: { body: mine } }';
  const { gateway } = await open('/mcp', `${ROUTES}\n  - ${own}`);
  expect(await (await fetch(`${gateway.origin}/.well-known/oauth-protected-resource/mcp`)).text()).toBe('mine');
});

test('routes for the host of the API do not hide the metadata, and those of another host are not in its place', async () => {
  const mine = `
  - { path: '/**', methods: [GET], upstream: store, hosts: [HOST] }
  - { path: '/.well-known/oauth-protected-resource/{name}', methods: [GET], upstream: store, hosts: [other.example] }
  - { path: '/.well-known/oauth-protected-resource/mcp', methods: [GET], upstream: store, hosts: [other.example] }`;
  for (const host of ['127.0.0.1', 'api.example']) {
    const { gateway } = await open('/mcp', mine.replace('HOST', host));
    const { status } = await fetch(`${gateway.origin}/.well-known/oauth-protected-resource/mcp`);
    expect([host, status]).toEqual([host, 200]);
  }
});

test('without `jwt.resource` there is no metadata, and a 401 names none', async () => {
  const more = `jwt: { issuer: '${ISSUER}', audience: '${AUDIENCE}', jwks: '${jwks}', algorithms: [ES256] }`;
  const { origin } = await openGateway({ upstream, routes: ROUTES, more });
  const response = await fetch(`${origin}/.well-known/oauth-protected-resource`);
  expect([response.status, response.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="tollgate"']);
});
