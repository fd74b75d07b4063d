import { describe, expect, test } from 'vitest';
import { altered } from '../support/altered.ts';
import type { TestGateway } from '../support/gateway.ts';
import { rawExchange } from '../support/raw-http.ts';
import { ask, openWithAdmin, STORES } from './operator.ts';

/** What a caller with a secret gets, byte for byte, without what is of this moment or this request alone. */
async function answerTo(gateway: TestGateway, secret: string) {
  const head = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\nX-Request-Id: same\r\n\r\n`;
  const { bytes } = await rawExchange(gateway.port, head);
  return bytes.toString('latin1').replace(/^(?:Date|RateLimit[\w-]*|X-RateLimit[\w-]*): .*\r\n/gim, '');
}

describe.each(Object.entries(STORES))('on %s', (_, emptyStoreOf) => {
  test('a secret that has ended gets the answer of one that never existed, and operators see who sends it (reliability 502)', async () => {
    const env = await emptyStoreOf();
    const gateway = await openWithAdmin(env);
    const networksOf = async (of: TestGateway, id: string) => (await ask(of, 'GET', `/admin/keys/${id}/networks`)).body;
    const { id, key } = await gateway.createKey('free');
    const other = await gateway.createKey('free');
    expect((await networksOf(gateway, id)).networks).toEqual([]);
    for (let i = 0; i < 3; i++) expect((await gateway.get('/v1/pets', key)).status).toBe(200);
    await ask(gateway, 'POST', `/admin/keys/${id}/rotate`, { overlap: '0s' });
    await ask(gateway, 'DELETE', `/admin/keys/${other.id}`);

    const malformed = await answerTo(gateway, altered(key));
    expect(malformed).toMatch(/^HTTP\/1.1 401 .*"code":"invalid_api_key"/s);
    expect(await answerTo(gateway, key)).toBe(malformed);
    expect(await answerTo(gateway, key)).toBe(malformed);
    expect(await answerTo(gateway, other.key)).toBe(malformed);
    // A gateway adds what it has counted at the latest when it stops.
    await gateway.process.stop();

    const next = await openWithAdmin(env);
    const network = '127.0.0.0/24';
    const moments = { firstAt: expect.any(String), lastAt: expect.any(String) };
    expect(await networksOf(next, id)).toMatchObject({
      networks: [{ network, calls: 3, share: 1, ...moments }],
      others: null,
      endedSecrets: [{ last4: key.slice(-4), network, refused: 2, ...moments }],
      isKept: true,
    });
    expect((await networksOf(next, other.id)).endedSecrets).toMatchObject([{ last4: other.key.slice(-4), refused: 1 }]);

    await ask(next, 'POST', `/admin/keys/${other.id}/delete`, {});
    expect((await ask(next, 'GET', `/admin/keys/${other.id}/networks`)).status).toBe(404);
  });

  test('with usage.networks off nothing is kept, and the output says so', async () => {
    const env = await emptyStoreOf();
    const gateway = await openWithAdmin(env, { more: 'usage: { networks: off }' });
    const { id, key } = await gateway.createKey('free');
    await gateway.get('/v1/pets', key);
    await gateway.process.stop();
    const next = await openWithAdmin(env, { more: 'usage: { networks: off }' });
    const { body } = await ask(next, 'GET', `/admin/keys/${id}/networks`);
    expect(body).toMatchObject({ networks: [], others: null, endedSecrets: [], isKept: false });
  });
});
