import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { connect as connectHttp2 } from 'node:http2';
import { request as requestHttps } from 'node:https';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { beforeAll, describe, expect, test } from 'vitest';
import { AUDIENCE, ISSUER, jwksOf, type SigningKey, signingKey } from '../identify/jwt-issuer.ts';
import type { CertificateAuthority, CertificatePair } from '../support/certificates.ts';
import { eventually } from '../support/conditions.ts';
import { askHttp2, newAuthority, openEncrypted } from '../support/encrypted.ts';
import { atEnd } from '../support/endings.ts';
import { PLANS, type TestGateway } from '../support/gateway.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startUpstream, type Upstream } from '../support/upstream.ts';

let upstream: Upstream;
let clients: CertificateAuthority;
let gateway: TestGateway;
let ca: string;
let issuer: SigningKey;
let shop: CertificatePair;

const SHOP = 'uri:spiffe://example.com/shop';

beforeAll(async () => {
  upstream = await startUpstream();
  [clients, issuer] = await Promise.all([newAuthority(), signingKey()]);
  const jwks = join(await temporaryFolder(), 'jwks.json');
  await writeFile(jwks, jwksOf(issuer));
  const jwt = `jwt: { issuer: '${ISSUER}', audience: '${AUDIENCE}', jwks: '${jwks}', algorithms: [ES256] }`;
  const tls = { clientCa: clients.cert, clientCertificate: 'optional' };
  // Every wrong certificate costs a failed attempt.
  const plans = PLANS.replace('failed-authentication: { minute: 30 }', 'failed-authentication: { minute: 1000 }');
  ({ gateway, ca } = await openEncrypted(
    { upstream: upstream.origin, plans, more: `keys: { certificates: true }\n${jwt}` },
    tls,
  ));
  shop = await clients.issue('shop', 30, { uris: ['spiffe://example.com/shop'], dns: ['shop.internal'] });
});

const identityOf = async (pair: CertificatePair | null) =>
  pair === null ? {} : { cert: await readFile(pair.cert), key: await readFile(pair.key) };

/** One request on a TLS connection of its own. */
async function ask(
  pair: CertificatePair | null,
  headers: Record<string, string> = {},
  at = { port: gateway.port, ca },
) {
  const options = { host: '127.0.0.1', ...at, servername: 'localhost', agent: false, path: '/v1/pets' };
  const request = requestHttps({ ...options, ...(await identityOf(pair)), headers: { Host: 'a', ...headers } });
  request.end();
  const [response] = await once(request, 'response');
  const body = Buffer.concat(await response.toArray()).toString();
  const header = (name: string) => response.headers[name] as string | undefined;
  return {
    status: response.statusCode as number,
    code: response.statusCode === 200 ? null : JSON.parse(body).code,
    header,
  };
}

const bearer = (key: string) => ({ Authorization: `Bearer ${key}` });
const thumbprintOf = ({ pem }: CertificatePair) => {
  const hex = new X509Certificate(pem).fingerprint256.replaceAll(':', '');
  return { hex, thumbprint: Buffer.from(hex, 'hex').toString('base64url') };
};
const consumerOfLast = () => upstream.requests.at(-1)!.values('x-consumer-id');

describe('a client certificate stands for the key that has one of its names', () => {
  test('by a URI, a DNS name or its fingerprint, under the quota of the key, and not any more when the key gives it up', async () => {
    const { id } = await gateway.createKey('gentle', '--certificate', SHOP);
    const first = await ask(shop);
    expect([first.status, first.header('x-ratelimit-remaining')]).toEqual([200, '2']);
    expect(consumerOfLast()).toEqual([id]);
    expect((await ask(shop)).header('x-ratelimit-remaining')).toBe('1');
    expect(await gateway.command('keys', 'update', id, '--certificate', 'dns:SHOP.internal')).toMatchObject({
      code: 0,
    });
    expect((await ask(shop)).status).toBe(200);
    const { hex } = thumbprintOf(shop);
    await gateway.command('keys', 'update', id, '--certificate', `sha256:${hex}`, '--plan', 'free');
    await eventually(async () => expect((await ask(shop)).status).toBe(200));
    await gateway.command('keys', 'update', id, '--certificate', '');
    await eventually(async () => expect(await ask(shop)).toMatchObject({ status: 401, code: 'missing_api_key' }));
  });

  test('over HTTP/2 as well, and the certificate of a revoked key stands for none', async () => {
    const { id } = await gateway.createKey('free', '--certificate', SHOP);
    const socket = connect({
      ...{ host: '127.0.0.1', port: gateway.port, ca, servername: 'localhost', ALPNProtocols: ['h2'] },
      ...(await identityOf(shop)),
    });
    await once(socket, 'secureConnect');
    const session = connectHttp2(`https://127.0.0.1:${gateway.port}`, { createConnection: () => socket });
    atEnd(() => session.destroy());
    // An unknown certificate is refused from memory for half a second, as an unknown key is.
    await eventually(async () => expect((await askHttp2(session, { path: '/v1/pets' })).status).toBe(200));
    expect(consumerOfLast()).toEqual([id]);
    expect((await askHttp2(session, { path: '/v1/pets' })).status).toBe(200);
    await gateway.command('keys', 'revoke', id);
    await eventually(async () => expect((await askHttp2(session, { path: '/v1/pets' })).status).toBe(401));
  });

  test('a key in the request comes first, and a wrong one is wrong', async () => {
    const { id: own } = await gateway.createKey('free', '--certificate', SHOP);
    const { id, key } = await gateway.createKey('free');
    expect((await ask(shop, bearer(key))).status).toBe(200);
    expect(consumerOfLast()).toEqual([id]);
    expect(await ask(shop, bearer(`${key.slice(0, -1)}${key.endsWith('x') ? 'y' : 'x'}`))).toMatchObject({
      status: 401,
      code: 'invalid_api_key',
    });
    await gateway.command('keys', 'revoke', own);
  });

  test('the certificate of another authority, of no key or of several keys, or none at all, is no credential (reliability 274)', async () => {
    const made = await gateway.createKey('free', '--certificate', SHOP);
    const other = await gateway.createKey('free', '--certificate', 'dns:other.internal');
    const stranger = await newAuthority();
    const forged = await stranger.issue('shop', 30, { uris: ['spiffe://example.com/shop'] });
    await expect(ask(forged)).rejects.toThrow();
    const both = await clients.issue('both', 30, { uris: ['spiffe://example.com/shop'], dns: ['other.internal'] });
    const longer = await clients.issue('longer', 30, {
      uris: ['spiffe://example.com/shop/x'],
      dns: ['x.shop.internal'],
    });
    const comma = await clients.issue('comma', 30, { uris: ['spiffe://x/a, URI:spiffe://example.com/shop'] });
    const named = await clients.issue('spiffe://example.com/shop', 30, { dns: ['nobody.internal'] });
    for (const pair of [both, longer, comma, named, null]) {
      expect(await ask(pair)).toMatchObject({ status: 401, code: 'missing_api_key' });
    }
    // A field that other gateways read is nothing here.
    const fields = { 'X-Client-Cert': shop.pem.replaceAll('\n', ' '), 'X-SSL-Client-Verify': 'SUCCESS' };
    expect(await ask(null, fields)).toMatchObject({ status: 401 });
    await eventually(async () => expect((await ask(shop)).status).toBe(200));
    for (const { id } of [made, other]) await gateway.command('keys', 'revoke', id);
  });

  test('without keys.certificates it stands for nothing', async () => {
    const tls = { clientCa: clients.cert, clientCertificate: 'optional' };
    const closed = await openEncrypted({ upstream: upstream.origin }, tls);
    await closed.gateway.createKey('free', '--certificate', SHOP);
    const at = { port: closed.gateway.port, ca: closed.ca };
    expect(await ask(shop, {}, at)).toMatchObject({ status: 401, code: 'missing_api_key' });
  });
});

describe('a credential that is bound to a certificate works over connections with that certificate alone (reliability 275)', () => {
  test('a key: elsewhere it is refused as a wrong one, with the reason in the log', async () => {
    const other = await clients.issue('other', 30, { uris: ['spiffe://example.com/shop'] });
    const { hex } = thumbprintOf(shop);
    const { id, key } = await gateway.createKey('free', '--bound-to', hex);
    expect((await ask(shop, bearer(key))).status).toBe(200);
    for (const pair of [other, null]) {
      const answer = await ask(pair, bearer(key));
      expect([answer.status, answer.code]).toEqual([401, 'invalid_api_key']);
      expect(answer.header('www-authenticate')).toBe('Bearer realm="tollgate", error="invalid_token"');
    }
    await gateway.process.until(new RegExp(`${id} is bound to another client certificate`));
  });

  test('a token with cnf, also one whose thumbprint is none; a token without cnf works everywhere', async () => {
    const { thumbprint } = thumbprintOf(shop);
    const bound = await issuer.sign({ cnf: { 'x5t#S256': thumbprint } });
    expect((await ask(shop, bearer(bound))).status).toBe(200);
    const answer = await ask(null, bearer(bound));
    expect([answer.status, answer.code]).toEqual([401, 'invalid_api_key']);
    expect(answer.header('www-authenticate')).toBe('Bearer realm="tollgate", error="invalid_token"');
    for (const wrong of [7, null, '', [thumbprint], thumbprint.toLowerCase()]) {
      const token = await issuer.sign({ sub: `bound to ${JSON.stringify(wrong)}`, cnf: { 'x5t#S256': wrong } });
      expect([wrong, (await ask(shop, bearer(token))).status]).toEqual([wrong, 401]);
    }
    expect((await ask(null, bearer(await issuer.sign({ sub: 'free' })))).status).toBe(200);
  });
});
